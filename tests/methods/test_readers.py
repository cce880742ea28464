"""Readers look at the text and at their own task's readers, and nobody looks at them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from onepass.encoder.batch import Batch, Layout
from onepass.errors import ConfigError
from onepass.methods.readers import read
from onepass.model import Model

MakeModel = Callable[..., Model]


def packed(model: Model, texts: list[str]) -> Batch:
    return Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])


def test_a_task_answers_the_same_whatever_other_tasks_exist(make_model: MakeModel, texts: list[str]) -> None:
    many, few = make_model("readers", num_tasks=4), make_model("readers", num_tasks=2, seed=5)
    for task in range(2):
        few.method.tasks[task].load_state_dict(many.method.tasks[task].state_dict())
        few.heads[task].load_state_dict(many.heads[task].state_dict())
    of_many = many.logits(packed(many, texts), [0, 1, 2, 3])
    of_few = few.logits(packed(few, texts), [0, 1])
    for task in range(2):
        np.testing.assert_allclose(of_few[task], of_many[task], atol=1e-5)


def test_nothing_of_the_text_is_computed_in_the_last_layer_but_keys_and_values(
    make_model: MakeModel, texts: list[str]
) -> None:
    model = make_model("readers", tokens=2)
    seen: list[int] = []
    last = model.method.encoder.layers[-1]
    last.up.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0][..., 0].numel()))
    model.logits(packed(model, texts), [0, 1, 2])
    assert seen == [len(texts) * 3 * 2]  # the readers of three tasks, no text token


def test_the_text_states_are_those_of_the_plain_encoder(make_model: MakeModel, texts: list[str]) -> None:
    """The input of the last layer's keys is what the plain encoder has there, whatever is asked."""
    model = make_model("readers", depth=2)
    batch = packed(model, texts)
    last = model.method.encoder.layers[-1]
    plain: list[Tensor] = []
    hook = last.register_forward_pre_hook(lambda _module, inputs: plain.append(inputs[0]))
    with torch.no_grad():
        model.method.encoder(batch)
    hook.remove()
    got: list[Tensor] = []
    keys_values = last.keys_values
    last.keys_values = lambda x, layout: (got.append(x), keys_values(x, layout))[1]  # type: ignore[method-assign,func-returns-value]
    model.logits(batch, [0, 1, 2, 3])
    torch.testing.assert_close(got[0], plain[0])


def test_reading_is_a_softmax_over_the_text_and_the_own_readers() -> None:
    generator = torch.Generator().manual_seed(0)
    layout = Layout([3, 1, 2])
    heads, width = 2, 4
    own = tuple(torch.randn(3, 2, 2, heads, width, generator=generator) for _ in range(3))  # B, K, n
    key, value = (torch.randn(6, heads, width, generator=generator) for _ in range(2))
    got = read(own, key, value, layout, dropout=0.0)  # type: ignore[arg-type]
    starts = [0, 3, 4, 6]
    for row in range(3):
        text_key, text_value = key[starts[row] : starts[row + 1]], value[starts[row] : starts[row + 1]]
        for task in range(2):
            for head in range(heads):
                keys = torch.cat([text_key[:, head], own[1][row, task, :, head]])
                values = torch.cat([text_value[:, head], own[2][row, task, :, head]])
                weights = (own[0][row, task, :, head] @ keys.T / width**0.5).softmax(-1)
                torch.testing.assert_close(got[row, task, :, head], weights @ values)


def test_readers_start_near_the_cls_input(make_model: MakeModel) -> None:
    model = make_model("readers", noise=0.0)
    encoder = model.method.encoder
    zero = torch.zeros(1, dtype=torch.long)
    cls = encoder.embed(encoder.words(torch.tensor([2])), zero, zero)
    torch.testing.assert_close(model.method.tasks[0].tokens, cls.expand(2, -1))


@pytest.mark.parametrize("options", [{"depth": 0}, {"depth": 4}, {"tokens": 0}])
def test_impossible_sizes_are_refused(options: dict[str, int], make_model: MakeModel) -> None:
    with pytest.raises(ConfigError, match="depth from 1 to 3"):
        make_model("readers", **options)


@pytest.mark.parametrize("options", [{"depth": 1, "tokens": 1}, {"depth": 3}, {"pooler": "none"}])
def test_options_keep_tasks_apart(options: dict[str, object], make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("readers", **options)
    every = model.logits(packed(model, texts), [0, 1, 2, 3])
    np.testing.assert_allclose(model.logits(packed(model, texts), [3])[0], every[3], atol=1e-5)
