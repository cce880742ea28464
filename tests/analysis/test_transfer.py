"""Learning a new task on a copy of a trained model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import onepass
from onepass.analysis import transfer
from onepass.analysis.transfer import NewTask, learn_new_task, share_of
from onepass.errors import ConfigError
from onepass.model import Model
from onepass.tasks import read_task_file
from onepass.training.adding import AddOptions, train_task
from onepass.training.evaluation import score_tasks
from onepass.training.options import TrainOptions
from onepass.training.sets import TaskSet, read_sets

OPTIONS = TrainOptions(epochs=1, batch_size=8, head_rate=1e-2)


@pytest.fixture
def base(news: Path) -> tuple[Model, list[TaskSet]]:
    """A model of the first two tasks, and the rows of all three."""
    file = read_task_file(news, ["method.name=camtl"])
    two = {name: file.tasks[name] for name in ("topic", "tone")}
    model = onepass.train(file.model_copy(update={"tasks": two}), progress=False)
    return model, read_sets(file, model.tokenizer)


@pytest.mark.parametrize("learn", ["all", "own"])
def test_the_model_stays_as_it_was(base: tuple[Model, list[TaskSet]], learn: str) -> None:
    model, sets = base
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    way = NewTask(share=0.5, like="topic", learn=learn, unfreeze=True)  # type: ignore[arg-type]
    scores = learn_new_task(model, sets[:2], sets[2], sets[2].train, way, OPTIONS)
    assert set(scores) == {"validation", "test"}
    assert model.names == ["topic", "tone"]
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_without_rows_a_task_answers_as_the_one_it_is_like(base: tuple[Model, list[TaskSet]]) -> None:
    """On that task's own rows and labels it scores the same."""
    model, sets = base
    item = TaskSet(sets[0].task.model_copy(update={"name": "again"}), sets[0].train, sets[0].validation)
    known = onepass.evaluate(model, split="validation")["tasks"]["topic"]["score"]
    scores = learn_new_task(model, sets[:2], item, item.train, NewTask(share=0.0, like="topic"), OPTIONS)
    assert scores["validation"] == pytest.approx(known)


def test_what_the_options_ask_for_is_how_a_tasks_own_weights_learn(
    base: tuple[Model, list[TaskSet]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[AddOptions, float]] = []

    def noted(model: Model, part: TaskSet, options: AddOptions, progress: bool) -> None:
        seen.append((options, model.dropout.p))
        train_task(model, part, options, progress)

    monkeypatch.setattr(transfer, "train_task", noted)
    model, sets = base
    options = replace(OPTIONS, weight_decay=1e-5, average=0.0, dropout=0.3)
    learn_new_task(model, sets[:2], sets[2], sets[2].train, NewTask(learn="own"), options)
    ((added, dropout),) = seen
    assert (added.weight_decay, added.average, added.head, dropout) == (1e-5, 0.0, "drawn", 0.3)


@pytest.mark.parametrize("learn", ["all", "own"])
def test_the_seed_rules_how_a_new_task_is_learned(
    base: tuple[Model, list[TaskSet]], learn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[torch.Tensor] = []

    def noted(model: Model, *arguments: Any) -> Any:
        learned.append(model.heads[-1].weight.detach().clone())
        return score_tasks(model, *arguments)

    monkeypatch.setattr(transfer, "score_tasks", noted)
    model, sets = base
    for noise in (1, 2):
        torch.manual_seed(noise)
        way = NewTask(learn=learn)  # type: ignore[arg-type]
        learn_new_task(model, sets[:2], sets[2], sets[2].train, way, OPTIONS)
    assert torch.equal(learned[0], learned[-1])


def test_a_share_of_the_rows_is_drawn_once_for_a_seed(base: tuple[Model, list[TaskSet]]) -> None:
    train = base[1][0].train
    few, again = share_of(train, 0.25, seed=3), share_of(train, 0.25, seed=3)
    assert len(few) == round(0.25 * len(train))
    assert few.rows.tolist() == again.rows.tolist()
    assert len(share_of(train, 0.0001, seed=0)) == 1


def test_a_share_outside_of_0_to_1_is_refused() -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        NewTask(share=1.5)
