"""The bench of a GPU, tried out on the CPU with a tiny encoder."""

from pathlib import Path

import numpy as np
import pytest
import torch

from onepass.bench import device
from onepass.encoder.config import EncoderConfig
from onepass.errors import OnepassError

TINY = EncoderConfig(
    family="bert", vocab_size=19, width=16, depth=2, heads=2, ffn_width=32, max_positions=32, type_vocab=2
)


def test_ours_and_the_rivals_are_measured_on_both_encoders(encoder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device, "OPTIONS", {8: {}, 10: {"depth": 1, "tokens": 1}})
    found = device.device(str(encoder), kind="cpu", texts=64, longest=32, rounds=1, side=64, base=TINY)
    assert list(found["encoders"]) == [str(encoder), "BERT-base size, random"]
    for one in found["encoders"].values():
        rows = {row["contender"]: row for row in one["rows"]}
        assert len(rows) == 3 + 2 * len(device.RIVAL_BATCHES)
        ours, rival = rows["onepass, 10 tasks"], rows["transformers, sdpa, batches of 32, sorted"]
        assert ours["texts"] == 64 and rival["texts"] == 32
        ratio = one["times_the_rival"]["onepass, 10 tasks"]["transformers, sdpa, batches of 32, sorted"]
        assert ratio == pytest.approx(ours["tokens_per_s"] / rival["tokens_per_s"])
        assert "share_of_peak_with_readers" in ours and "share_of_peak_with_readers" not in rival
        assert set(one["bf16_against_fp32"]) == {8, 10}
        assert one["bf16_against_fp32"][8]["largest_change"] < 0.1


def test_an_encoder_that_is_not_there_is_told_of_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(device, "matrix_peak", lambda *_: pytest.fail("measured"))
    with pytest.raises(OnepassError, match=r"no config\.json in"):
        device.device(str(tmp_path), kind="cpu", texts=64, rounds=1)


def test_a_rival_reads_the_texts_it_is_given(encoder: Path):
    """So that the padded batches hold the same tokens: a text's states do not depend on its padding."""
    config = TINY
    pieces = device.random_pieces(config, np.array([5, 17, 9]))
    model = torch.nn.Embedding(19, 4)

    class Sums(torch.nn.Module):
        def forward(self, input_ids, attention_mask):
            states = (model(input_ids) * attention_mask.unsqueeze(-1)).sum(1, keepdim=True)
            return type("Output", (), {"last_hidden_state": states})

    found = device._padded(Sums(), torch.nn.Identity(), pieces, 2, torch.device("cpu"))()
    expected = torch.stack([model(torch.from_numpy(np.asarray(one.ids))).sum(0) for one in pieces])
    torch.testing.assert_close(found, expected)
