"""P-Tuning: a task's prompts alone before the text, where they start, and what is read."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from onepass.data.examples import Examples
from onepass.encoder.batch import Batch, Layout
from onepass.encoder.config import EncoderConfig
from onepass.encoder.loading import random_encoder
from onepass.errors import ConfigError
from onepass.methods import make_method
from onepass.model import Model

MakeModel = Callable[..., Model]


def packed(model: Model, texts: list[str]) -> Batch:
    return Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])


def rows_of(ids: list[list[int]]) -> Examples:
    """Training rows of these tokens."""
    lengths, count = [len(row) for row in ids], len(ids)
    return Examples(
        ids=np.array([token for row in ids for token in row], np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        firsts=np.array(lengths, np.int32),
        targets=np.zeros(count, np.int64),
        rows=np.arange(count) + 1,
        hashes=np.arange(count, dtype=np.uint64),
        cut=np.zeros(count, np.bool_),
    )


@pytest.mark.parametrize("readout", ["prompt", "cls"])
def test_a_task_reads_its_own_prompts_and_then_the_text(readout: str, make_model: MakeModel, texts: list[str]) -> None:
    """The same by hand, text by text and task by task."""
    model = make_model("ptuning", readout=readout, prompt_length=3)
    method, encoder = model.method, model.method.encoder
    with torch.no_grad():
        got = method(packed(model, texts), torch.tensor([[2, 0]] * len(texts))).vectors
        for row, text in enumerate(texts):
            alone = packed(model, [text])
            for place, task in enumerate((2, 0)):
                words = torch.cat([method.tasks[task].prompts, encoder.words(alone.ids)])
                x = encoder.embed(words, torch.arange(len(words)), torch.zeros(len(words), dtype=torch.long))
                for layer in encoder.layers:
                    x = layer(x, Layout([len(words)]))
                state = x[:3].mean(0) if readout == "prompt" else x[3]
                torch.testing.assert_close(got[row, place], method.pooler(state), atol=1e-5, rtol=1e-4)


def test_without_prompts_it_learns_from_cls_alone(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("ptuning", readout="cls", prompt_length=0)
    asked = torch.tensor([[row % 2] for row in range(len(texts))])
    model.method(packed(model, texts), asked).vectors.sum().backward()
    assert model.method.pooler.weight.grad.abs().sum() > 0


def test_with_a_pooler_per_task_it_is_mtop_with_one_task_at_a_time(make_model: MakeModel, texts: list[str]) -> None:
    model, mtop = make_model("ptuning", pooler="task"), make_model("mtop")
    for own, other in zip(model.method.tasks, mtop.method.tasks, strict=True):
        own.load_state_dict(other.state_dict())
    batch, asked = packed(model, texts), torch.tensor([[1, 3]] * len(texts))
    with torch.no_grad():
        expected = mtop.method.forward_alone(batch, asked).vectors
        torch.testing.assert_close(model.method(batch, asked).vectors, expected)


def test_without_prompts_it_is_the_plain_encoder(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("ptuning", prompt_length=0, readout="cls")
    method, batch = model.method, packed(model, texts)
    with torch.no_grad():
        plain = method.pooler(method.encoder(batch)[batch.layout.starts])
        got = method(batch, torch.tensor([[0, 1]] * len(texts))).vectors
    torch.testing.assert_close(got, plain.unsqueeze(1).expand(-1, 2, -1))


def test_without_positions_the_text_keeps_its_own(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("ptuning", positions="none")
    encoder, seen = model.method.encoder, list[torch.Tensor]()
    embed = encoder.embed
    encoder.embed = lambda words, positions, types: (seen.append(positions), embed(words, positions, types))[1]
    model.logits(packed(model, texts[:1]), [0])
    assert seen[0].tolist() == [-1, -1, 0, 1, 2, 3, 4]


def test_token_prompts_are_words_of_the_tasks_texts(make_model: MakeModel) -> None:
    model = make_model("ptuning", num_tasks=0, prompts="token")
    method = model.method
    method.add_task(model.tokenizer, rows_of([[2, 7, 7, 9, 3]] * 3))  # [CLS] w3 w3 w5 [SEP]
    words = method.encoder.words(torch.tensor([7, 9]))
    found = {tuple(prompt.tolist()) for prompt in method.tasks[0].prompts}
    assert found == {tuple(word.tolist()) for word in words}


def test_random_prompts_are_small_and_cut_off(make_model: MakeModel) -> None:
    model = make_model("ptuning", prompts="random", prompt_length=50)
    prompts = model.method.tasks[0].prompts
    assert prompts.abs().max() <= 0.04
    assert 0.015 < prompts.std() < 0.02


def test_each_prompt_has_the_gradient_of_its_own_rows(make_model: MakeModel, texts: list[str]) -> None:
    mixed, alone = make_model("ptuning"), make_model("ptuning")
    mixed.train().losses(packed(mixed, texts), torch.tensor([[0], [1]] * 4), [1] * 8).sum().backward()
    alone.train().losses(packed(alone, texts[::2]), torch.zeros(4, 1, dtype=torch.long), [1] * 4).sum().backward()
    torch.testing.assert_close(mixed.method.tasks[0].prompts.grad, alone.method.tasks[0].prompts.grad)
    assert mixed.method.tasks[1].prompts.grad.abs().sum() > 0
    assert mixed.method.tasks[2].prompts.grad is None


@pytest.mark.parametrize(("pooler", "expected"), [("shared", 5 * 32), ("task", 5 * 32 + 32 * 32 + 32)])
def test_a_task_has_its_prompts_and_perhaps_a_pooler(pooler: str, expected: int, make_model: MakeModel) -> None:
    task = make_model("ptuning", prompt_length=5, pooler=pooler).method.tasks[0]
    assert sum(parameter.numel() for parameter in task.parameters()) == expected


@pytest.mark.parametrize("frozen", [False, True])
def test_the_encoder_learns_unless_it_is_frozen(frozen: bool, make_model: MakeModel) -> None:
    (stage,) = make_model("ptuning", frozen=frozen).method.stages()
    assert stage.freeze_encoder is frozen


def test_too_many_prompts_for_the_positions_are_refused(make_model: MakeModel) -> None:
    method = make_model("ptuning", prompt_length=32).method
    assert method.limits(num_tasks=100, max_length=32) == []  # a text has the prompts of one task only
    (fault,) = method.limits(num_tasks=1, max_length=33)
    assert "32 prompts" in fault and "64 positions" in fault and "method.positions=none" in fault
    assert make_model("ptuning", prompt_length=32, positions="none").method.limits(1, 33) == []


@pytest.mark.parametrize("name", ["ptuning", "mtop"])
def test_an_encoder_that_rotates_has_no_room_for_prompts_without_positions_either(name: str) -> None:
    config = EncoderConfig(
        "modernbert", vocab_size=8, width=8, depth=1, heads=1, ffn_width=8, max_positions=16, position_table=False,
        global_theta=100.0,
    )  # fmt: skip
    method = make_method(name, random_encoder(config), {"positions": "none"})
    assert method.limits(num_tasks=1, max_length=14) == []
    (fault,) = method.limits(num_tasks=1, max_length=15)
    assert "2 prompts" in fault and "16 positions" in fault and "method.positions=none" not in fault


def test_reading_prompts_that_are_not_there_is_refused(make_model: MakeModel) -> None:
    with pytest.raises(ConfigError, match="readout 'cls'"):
        make_model("ptuning", prompt_length=0)
