"""MTOP's rules: what gets a gradient, how many weights a task has, where its weights start."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from onepass.encoder.batch import Batch
from onepass.errors import ConfigError
from onepass.methods.prompts import draw_common_tokens
from onepass.model import Model

MakeModel = Callable[..., Model]


def packed(model: Model, texts: list[str]) -> Batch:
    return Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])


def backward(model: Model, texts: list[str], task: int) -> None:
    """One training step's gradients for rows that all ask one task."""
    asked = torch.full((len(texts), 1), task)
    model.train().losses(packed(model, texts), asked, [1] * len(texts)).mean().backward()


def test_only_the_asked_tasks_prompts_pooler_and_head_get_a_gradient(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("mtop")
    backward(model, texts, task=1)
    for task in range(4):
        parameters = [*model.method.tasks[task].parameters(), *model.heads[task].parameters()]
        assert all((parameter.grad is not None) == (task == 1) for parameter in parameters)


def test_a_rows_gradient_does_not_reach_prompts_of_tasks_that_other_rows_ask(
    make_model: MakeModel, texts: list[str]
) -> None:
    """In a mixed batch each prompt gets the gradient of its own rows alone."""
    mixed, alone = make_model("mtop"), make_model("mtop")
    asked = torch.tensor([[0], [1]] * 4)
    mixed.train().losses(packed(mixed, texts), asked, [1] * 8).sum().backward()
    rows = [text for text, (task,) in zip(texts, asked.tolist(), strict=True) if task == 0]
    alone.train().losses(packed(alone, rows), torch.zeros(4, 1, dtype=torch.long), [1] * 4).sum().backward()
    torch.testing.assert_close(mixed.method.tasks[0].prompts.grad, alone.method.tasks[0].prompts.grad)


def test_the_loss_reaches_the_encoder_through_the_other_tasks_prompts(make_model: MakeModel, texts: list[str]) -> None:
    """The stop is at the leaves: positions under other tasks' prompts still get a gradient."""
    model = make_model("mtop")
    backward(model, texts, task=0)
    positions = model.method.encoder.position_table.weight.grad
    assert positions[6:8].abs().sum() > 0  # where the prompts of task 3 stand


def test_without_the_stop_all_prompts_get_a_gradient(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("mtop", stop_gradient=False)
    backward(model, texts, task=0)
    assert all(task.prompts.grad.abs().sum() > 0 for task in model.method.tasks)


def test_shared_prompts_are_never_stopped(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("mtop", shared_prompts=3)
    for task in (0, 3):
        model.zero_grad()
        backward(model, texts, task)
        assert model.method.shared.grad.abs().sum() > 0


@pytest.mark.parametrize(("length", "task", "classes"), [(2, 0, 3), (4, 1, 2)])
def test_a_task_has_as_many_weights_as_the_paper_says(
    length: int, task: int, classes: int, make_model: MakeModel
) -> None:
    """d^2 + (L_P + c + 1) d, the head's bias not counted."""
    model = make_model("mtop", prompt_length=length)
    found = sum(p.numel() for p in model.method.tasks[task].parameters()) + model.heads[task].weight.numel()
    assert found == 32**2 + (length + classes + 1) * 32


def test_a_tasks_state_is_the_mean_of_its_own_prompts(make_model: MakeModel, texts: list[str]) -> None:
    """Shared prompts stand first and are not read; task i's are at L_S + i L_P."""
    model = make_model("mtop", shared_prompts=1, prompt_length=2)
    method, batch = model.method, packed(model, texts[:1])
    own = torch.stack([task.prompts for task in method.tasks]).flatten(0, 1)
    with torch.no_grad():
        states = method.encode(own.unsqueeze(0), batch, tokens=False)[0][0]  # (N * P, H)
        pooled = method.tasks[2].pooler(states[4:6].mean(0))
        got = method(batch, torch.tensor([[2]])).vectors[0, 0]
    torch.testing.assert_close(got, pooled)


def test_prompts_without_positions_leave_the_texts_positions_alone(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("mtop", positions="none")
    seen: list[torch.Tensor] = []
    embed = model.method.encoder.embed
    model.method.encoder.embed = lambda words, positions, types: (
        seen.append(positions),
        embed(words, positions, types),
    )[1]
    model.logits(packed(model, texts[:1]), [0])
    assert seen[0].tolist() == [-1] * 8 + list(range(5))


def test_token_initialisation_copies_frequent_words_of_the_task() -> None:
    ids = np.array([2, 7, 7, 7, 9, 9, 3] * 4)
    torch.manual_seed(0)
    assert sorted(draw_common_tokens(ids, special=[2, 3], count=2).tolist()) == [7, 9]


def test_more_prompts_than_frequent_words_repeat_some() -> None:
    assert set(draw_common_tokens(np.array([2, 7, 3]), special=[2, 3], count=3).tolist()) == {7}


def test_the_single_task_stage_keeps_what_the_options_name(make_model: MakeModel) -> None:
    model = make_model("mtop", prompts="single", poolers="random")
    first, second = model.method.stages()
    assert first.freeze_encoder and not second.freeze_encoder
    before = {key: value.clone() for key, value in model.state_dict().items()}
    first.finish(list(model.heads))
    after = model.state_dict()
    assert torch.equal(after["method.tasks.0.prompts"], before["method.tasks.0.prompts"])
    assert not torch.equal(after["method.tasks.0.pooler.weight"], before["method.tasks.0.pooler.weight"])
    assert not torch.equal(after["heads.0.weight"], before["heads.0.weight"])


def test_prompts_that_are_not_kept_go_back_to_where_they_began(make_model: MakeModel) -> None:
    """P(TK) + C(ST): the poolers are those of the single-task stage, the prompts the embeddings they were drawn as."""
    method = make_model("mtop", prompts="token", poolers="single").method
    task, pooler = method.tasks[0], method.tasks[0].pooler.weight
    began = task.prompts.detach().clone()
    with torch.no_grad():
        task.prompts.add_(1.0)
        pooler.add_(1.0)
    kept = pooler.detach().clone()
    method.stages()[0].finish([torch.nn.Linear(1, 1)])
    assert torch.equal(task.prompts, began) and torch.equal(pooler, kept)


def test_the_single_task_stage_has_a_rate_of_its_own_and_no_shared_prompts(
    make_model: MakeModel, texts: list[str]
) -> None:
    model = make_model("mtop", prompts="single", shared_prompts=3)
    first, joint = model.method.stages()
    assert (first.rate, joint.rate) == (1e-3, None)
    assert [id(p) for p in first.fixed] == [id(model.method.shared)]
    batch, asked = packed(model, texts), torch.zeros(len(texts), 1, dtype=torch.long)
    with torch.no_grad():
        before = first.forward(batch, asked).vectors
        model.method.shared.add_(1.0)
        torch.testing.assert_close(first.forward(batch, asked).vectors, before)
    with pytest.raises(ConfigError, match="single_rate is 0; possible: a number above 0"):
        make_model("mtop", single_rate=0)


@pytest.mark.parametrize(
    ("positions", "prompts", "text"), [("first", [0, 1], 2), ("own", [7, 8], 11)], ids=["first", "own"]
)
def test_alone_prompts_stand_first_or_where_they_will_stand_later(
    positions: str, prompts: list[int], text: int, make_model: MakeModel, texts: list[str]
) -> None:
    """3 shared prompts and 4 tasks of 2: task 2's are at 3 + 2 * 2, the text begins at 3 + 4 * 2."""
    model = make_model("mtop", prompts="single", shared_prompts=3, single_positions=positions)
    seen: list[torch.Tensor] = []
    embed = model.method.encoder.embed
    model.method.encoder.embed = lambda words, places, types: (seen.append(places), embed(words, places, types))[1]
    model.method.forward_alone(packed(model, texts[:1]), torch.tensor([[2]]))
    assert seen[0].tolist() == [*prompts, *range(text, text + 5)]


def test_alone_a_task_sees_its_own_prompts_only(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("mtop")
    batch, asked = packed(model, texts), torch.zeros(len(texts), 1, dtype=torch.long)
    with torch.no_grad():
        before = model.method.forward_alone(batch, asked).vectors
        model.method.tasks[1].prompts.add_(1.0)
        after = model.method.forward_alone(batch, asked).vectors
    torch.testing.assert_close(before, after)


def test_too_many_prompts_for_the_positions_are_refused(make_model: MakeModel) -> None:
    method = make_model("mtop").method
    assert method.limits(num_tasks=16, max_length=32) == []
    (fault,) = method.limits(num_tasks=17, max_length=32)
    assert "34 prompts" in fault and "64 positions" in fault and "method.positions=none" in fault


def test_copying_heads_needs_the_single_task_stage(make_model: MakeModel) -> None:
    with pytest.raises(ConfigError, match="copy_heads"):
        make_model("mtop", copy_heads=True)
