"""Readers look at the text and at their own task's readers, and nobody looks at them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from onepass.encoder.batch import Batch, Layout
from onepass.errors import ConfigError
from onepass.methods import readers, settle_method
from onepass.methods.readers import read
from onepass.model import Model
from onepass.tasks import MethodChoice, Task

MakeModel = Callable[..., Model]
TASKS = [
    Task(name="topic", text="text", label="topic", labels=["a", "b", "c"]),
    Task(name="tone", text="text", label="tone", labels=["no", "yes"]),
    Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 0.0, "spread": 1.0}),
    Task(name="spam", text="text", label="spam", labels=["no", "yes"]),
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"depth": 1, "tokens": 1},
    {"depth": 3},
    {"pooler": "none"},
    {"pooler": "low_rank", "rank": 3},
    {"readout": "attention"},
    {"depth": 1, "tokens": 1, "readout": "attention", "pooler": "low_rank"},
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


def packed(model: Model, texts: list[str]) -> Batch:
    return Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])


@every_option
def test_a_task_answers_the_same_whatever_other_tasks_exist(
    options: dict[str, Any], make_model: MakeModel, texts: list[str]
) -> None:
    many, few = make_model("readers", num_tasks=4, **options), make_model("readers", num_tasks=2, seed=5, **options)
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


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("num_tasks", [1, 2])
@pytest.mark.parametrize("lengths", [[3, 1, 2], [4, 3, 4], [2, 2, 2]], ids=["groups", "padded", "unpadded"])
def test_reading_is_a_softmax_over_the_text_and_the_own_readers(
    lengths: list[int], num_tasks: int, learns: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    layout = Layout(lengths)
    heads, width = 2, 4
    own = torch.randn(3, num_tasks, 2, 3, heads, width, generator=generator)  # B, K, n
    text = torch.randn(layout.total, 2, heads, width, generator=generator)
    with torch.set_grad_enabled(learns):
        got = read(own, text, layout, dropout=0.0)
    for row, (text_key, text_value) in enumerate(part.unbind(1) for part in text.split(lengths)):
        for task in range(num_tasks):
            for head in range(heads):
                query, own_key, own_value = own[row, task, :, :, head].unbind(1)
                keys, values = torch.cat([text_key[:, head], own_key]), torch.cat([text_value[:, head], own_value])
                weights = (query @ keys.T / width**0.5).softmax(-1)
                torch.testing.assert_close(got[row, task, :, head], weights @ values)


def test_readers_start_near_the_cls_input(make_model: MakeModel) -> None:
    model = make_model("readers", noise=0.0)
    encoder = model.method.encoder
    zero = torch.zeros(1, dtype=torch.long)
    cls = encoder.embed(encoder.words(torch.tensor([2])), zero, zero)
    torch.testing.assert_close(model.method.tasks[0].tokens, cls.expand(2, -1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0}, "depth is 0; possible: from 1 to 3, the encoder's layers"),
        ({"depth": 4}, "depth is 4; possible: from 1 to 3"),
        ({"tokens": 0}, "tokens is 0; possible: a whole number from 1"),
        ({"pooler": "low_rank", "rank": 0}, "rank is 0; possible: a whole number from 1"),
        ({"depth": "auto"}, "chosen when a model is trained"),
        ({"depth": "deep"}, "depth is 'deep'; possible: a whole number from 0, or auto"),
        ({"readout": "none"}, "readout is 'none'; possible: layer, attention"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str, make_model: MakeModel) -> None:
    with pytest.raises(ConfigError, match=message):
        make_model("readers", **options)


@every_option
def test_options_keep_tasks_apart(options: dict[str, Any], make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("readers", **options)
    every = model.logits(packed(model, texts), [0, 1, 2, 3])
    np.testing.assert_allclose(model.logits(packed(model, texts), [3])[0], every[3], atol=1e-5)


@every_option
def test_a_task_learns_its_own_weights_only(options: dict[str, Any], make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("readers", **options).train()
    model.losses(packed(model, texts), torch.tensor([[1]] * len(texts)), [0, 1] * 4).mean().backward()
    for number, task in enumerate(model.method.tasks):
        learned = [weight.grad is not None and bool(weight.grad.any()) for weight in task.parameters()]
        assert learned == [number == 1] * len(learned)


@every_option
def test_what_is_kept_of_texts_gives_the_same_states(
    options: dict[str, Any], make_model: MakeModel, texts: list[str]
) -> None:
    model = make_model("readers", **options)
    batch, asked = packed(model, texts), torch.tensor([[2, 0]] * len(texts))
    with torch.no_grad():
        kept = model.method.from_cache(model.method.cache(batch), batch.layout, asked)
        torch.testing.assert_close(kept.vectors, model.method(batch, asked).vectors)


def test_a_light_read_out_does_without_the_last_feed_forward_part(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("readers", depth=2, readout="attention")
    seen: list[int] = []
    for number, layer in enumerate(model.method.encoder.layers):
        layer.up.register_forward_pre_hook(lambda _module, _inputs, number=number: seen.append(number))
    model.logits(packed(model, texts), [0, 1])
    assert seen == [0, 1, 1]  # the text in two layers, the readers in one


def test_a_pooler_of_low_rank_is_the_full_one_with_few_weights(make_model: MakeModel, texts: list[str]) -> None:
    low, full = make_model("readers", pooler="low_rank", rank=2), make_model("readers")
    for few, many in zip(low.method.tasks, full.method.tasks, strict=True):
        with torch.no_grad():
            few.pooler.bias.normal_()
            many.tokens.copy_(few.tokens)
            many.pooler.weight.copy_(torch.eye(32) + few.pooler.up @ few.pooler.down)
            many.pooler.bias.copy_(few.pooler.bias)
    full.heads.load_state_dict(low.heads.state_dict())
    asked = [0, 1, 2, 3]
    for one, other in zip(*(m.logits(packed(m, texts), asked) for m in (low, full)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(("tasks", "tokens", "depth"), [(26, 2, 2), (27, 2, 1), (53, 1, 2), (1000, 1, 1)])
def test_the_depth_is_chosen_by_the_number_of_tasks(tasks: int, tokens: int, depth: int) -> None:
    choice = settle_method(MethodChoice(name="readers", options={"depth": "auto", "tokens": tokens}), tasks)
    assert choice.options == {"depth": depth, "tokens": tokens}
    assert choice.chosen == {"depth": f"auto, for {tasks:,} tasks"}


def test_a_depth_that_was_given_stays() -> None:
    choice = MethodChoice(name="readers", options={"depth": 2})
    assert settle_method(choice, 1000) == choice


# --- groups -----------------------------------------------------------------------------------------------------------


def grouped(make_model: MakeModel, groups: Sequence[str | None], **options: Any) -> Model:
    """A model of these tasks, in groups."""
    model = make_model("readers", num_tasks=0, **options)
    torch.manual_seed(3)
    for task, group in zip(TASKS, groups, strict=False):
        model.add(task.model_copy(update={"group": group}))
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return model.eval()


def test_tasks_of_a_group_share_their_readers_and_nothing_else(make_model: MakeModel) -> None:
    model = grouped(make_model, ["a", "b", "a", None])
    tasks = [model.method.own(number) for number in range(4)]
    assert tasks[0].tokens is tasks[2].tokens
    assert len({id(task.tokens) for task in tasks}) == 3
    assert len({id(task.pooler.weight) for task in tasks}) == 4


def test_a_group_reads_once(make_model: MakeModel, texts: list[str]) -> None:
    model = grouped(make_model, ["a", "a", None, "a"], tokens=2)
    seen: list[int] = []
    last = model.method.encoder.layers[-1]
    last.up.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0][..., 0].numel()))
    model.logits(packed(model, texts), [0, 1, 2, 3])
    assert seen == [len(texts) * 2 * 2]  # the readers of one group and of one task


@pytest.mark.parametrize("options", [{}, {"depth": 1, "tokens": 1, "readout": "attention", "pooler": "low_rank"}])
def test_groups_keep_tasks_apart(options: dict[str, Any], make_model: MakeModel, texts: list[str]) -> None:
    """The same answers whatever else is asked, in whatever order, mixed in a batch, and without the group."""
    model = grouped(make_model, ["a", "b", "a", "a"], **options)
    batch = packed(model, texts)
    every = model.logits(batch, [0, 1, 2, 3])
    for asked in ([3], [2, 0], [1, 3, 0, 2]):
        for task, found in zip(asked, model.logits(batch, asked), strict=True):
            np.testing.assert_allclose(found, every[task], atol=1e-5)
    mixed = torch.tensor([[i % 4] for i in range(len(texts))])
    with torch.no_grad():
        for group in model(batch, mixed):
            for ask, found in zip(group.asks, group.logits.numpy(), strict=True):
                np.testing.assert_allclose(found, every[int(mixed[ask])][ask], atol=1e-5)
    alone = grouped(make_model, [None] * 4, **options)
    alone.load_state_dict(model.state_dict())
    for found, expected in zip(alone.logits(batch, [0, 1, 2, 3]), every, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_groups_are_found_again_in_a_saved_model(make_model: MakeModel, texts: list[str], tmp_path: Path) -> None:
    model = grouped(make_model, ["a", "b", "a", "b"])
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert [loaded.method.readers_of()[number] for number in range(4)] == [0, 1, 0, 1]
    asked = [0, 1, 2, 3]
    for one, other in zip(*(m.logits(packed(m, texts), asked) for m in (model, loaded)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_tasks_of_one_group_with_other_readers_stay_apart(make_model: MakeModel, tmp_path: Path) -> None:
    """As after copying a task from a model that has another group of this name."""
    model = grouped(make_model, ["a", "a", "a"])
    model.method.own(1).tokens = torch.nn.Parameter(model.method.own(1).tokens.detach() + 1.0)
    model.method.tasks.forget()
    model.save(tmp_path / "model")
    assert Model.load(tmp_path / "model").method.readers_of().tolist() == [0, 1, 0]


def test_a_group_needs_a_method_that_has_groups(make_model: MakeModel) -> None:
    with pytest.raises(ConfigError, match="method 'mtdnn' has no task groups"):
        make_model("mtdnn").add(TASKS[0].model_copy(update={"name": "new", "group": "a"}))


def test_reading_packed_tokens_is_reading_them_side_by_side(monkeypatch: pytest.MonkeyPatch):
    """The kernel itself runs on GPUs only; here it is played by the plain formula, text by text."""

    def across(q, k, v, layout):
        got, sums = [], []
        for row, (start, length) in enumerate(zip(layout.starts.tolist(), layout.lengths, strict=True)):
            key, value = k[start : start + length], v[start : start + length]
            scores = torch.einsum("qhd,khd->qhk", q[row], key) * q.shape[-1] ** -0.5
            got.append(torch.einsum("qhk,khd->qhd", scores.softmax(-1), value))
            sums.append(scores.logsumexp(-1))
        return torch.stack(got), torch.stack(sums)

    monkeypatch.setattr(readers, "attend_across", across)
    layout = Layout([5, 1, 3])
    generator = torch.Generator().manual_seed(0)
    own = torch.randn(3, 4, 2, 3, 2, 8, generator=generator)  # (B, K, n, 3, heads, d)
    text = torch.randn(9, 2, 2, 8, generator=generator)
    torch.testing.assert_close(readers.read_packed(own, text, layout), readers.read(own, text, layout, 0.0))


class Operations(TorchDispatchMode):
    """Counts what is dispatched."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_a_further_task_costs_a_step_one_operation_for_each_of_its_parameters(
    make_model: MakeModel, texts: list[str]
) -> None:
    """The gradient that is put in its place; everything else is done for all tasks of as many labels at once."""
    counts = {}
    for num_tasks in (5, 13):  # neither divides the rows
        model = make_model("readers", num_tasks=0).train()
        for number in range(num_tasks):
            model.add(Task(name=f"task_{number}", text="text", label="label", labels=["no", "yes"]))
        batch = packed(model, [*texts, *texts])
        asked = torch.arange(len(batch)).unsqueeze(1) % num_tasks
        with Operations() as operations:
            model.losses(batch, asked, [np.int64(0)] * len(batch)).sum().backward()
        counts[num_tasks] = operations.count
        assert all(parameter.grad is not None for parameter in model.heads.parameters())
    own = 5  # tokens; weight and bias of the pooler and of the head
    assert counts[13] - counts[5] <= 8 * own
