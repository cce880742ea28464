"""What of an added task learns, and where it begins."""

from pathlib import Path
from typing import Any

import pytest
import torch

import onepass
from onepass.encoder.encoder import Encoder
from onepass.errors import ConfigError
from onepass.model import Model
from onepass.tasks import Task
from onepass.training import adding, run
from onepass.training.adding import Adding, AddOptions, train_task
from onepass.training.sets import TaskSet, read_set


@pytest.fixture
def loaded(model: Path) -> Model:
    return onepass.load(model)


@pytest.fixture
def mood(tmp_path: Path) -> Task:
    """A task of 105 rows, of which a tenth is held back."""
    rows = "".join(f"the late {'goal good' if n % 2 else 'vote bad'} {n},{'ab'[n % 2]}\n" for n in range(105))
    (tmp_path / "mood.csv").write_text(f"text,mood\n{rows}")
    return Task(name="mood", text="text", label="mood", train=tmp_path / "mood.csv", validation=0.1)


def read(task: Task, model: Model) -> TaskSet:
    return read_set(task, model.tokenizer, AddOptions().least_rows)


def encoder_of(model: Model, task: int) -> list[torch.Tensor]:
    encoders = [part for part in model.method.tasks[task].modules() if isinstance(part, Encoder)]
    return [parameter.detach().clone() for encoder in encoders for parameter in encoder.parameters()]


@pytest.mark.parametrize(
    ("method", "learns"),
    [
        ("{name: adapter}", False),
        ("{name: frozen}", False),
        ("{name: ptuning, frozen: true}", False),
        ("{name: camtl, max_length: 32, frozen_share: 1.0}", False),
        ("{name: mtdnn}", True),
        ("{name: readers}", True),
    ],
)
def test_a_copy_of_a_fine_tuned_model_trains_of_its_encoder_what_the_method_trains(
    method: str, learns: bool, news: Path, mood: Task
):
    options = [f"method={method}", "train.finetune={epochs: 1}", "epochs=1"]
    model = run.train(news, overrides=options, progress=False)
    before = [parameter.detach().clone() for parameter in model.method.encoder.parameters()]
    train_task(model, read(mood, model), AddOptions(start="fresh", epochs=1), progress=False)
    after = encoder_of(model, -1)
    assert len(after) == len(before)
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True)) != learns
    # It can learn later what the copies of the other tasks can.
    one, other = ([p.requires_grad for p in model.method.tasks[task].parameters()] for task in (0, -1))
    assert one == other


def test_rows_that_are_held_back_count_among_those_that_are_enough(loaded: Model, mood: Task):
    item = read(mood, loaded)
    assert (len(item.train), len(item.validation)) == (94, 11)
    assert not begins_fitted(loaded, item)
    few = TaskSet(item.task.model_copy(update={"validation": mood.train}), item.train, item.validation)
    assert begins_fitted(loaded, few)  # of a file of their own they are none of the task's rows


def test_a_head_of_many_labels_begins_fitted_and_learns_on(loaded: Model, tmp_path: Path):
    rows = [f"late goal {number} vote,label {number % 50}" for number in range(150)]
    (tmp_path / "many.csv").write_text("\n".join(["text,label", *rows]))
    task = Task(name="many", text="text", label="label", train=tmp_path / "many.csv", validation=0.1)
    item = read(task, loaded)
    assert len(item.task.labels) == 50 and begins_fitted(loaded, item)
    fitted = head_of(loaded, item, epochs=0)
    assert not torch.equal(fitted, head_of(loaded, item, epochs=1))
    few = TaskSet(item.task.model_copy(update={"labels": item.task.labels[:49]}), item.train, item.validation)
    assert not begins_fitted(loaded, few)


def head_of(model: Model, item: TaskSet, epochs: int) -> torch.Tensor:
    """The weights of the task's head where it begins, or after a training."""
    model.add(item.task)
    adding = Adding(model, item, AddOptions(epochs=epochs), progress=False)
    adding.run() if epochs else adding.begin()
    weight = model.heads[-1].weight.detach().clone()
    model.discard(len(model.tasks) - 1)
    return weight


def begins_fitted(model: Model, item: TaskSet) -> bool:
    model.add(item.task)
    fitted = Adding(model, item, AddOptions(), progress=False).begin()
    model.discard(len(model.tasks) - 1)
    return fitted


@pytest.mark.parametrize(
    "keys",
    [
        {"kind": "tagging", "text": "tokens", "label": "tags"},
        {"text": "text", "label": "mood", "options": {"windows": 4}},
    ],
)
def test_a_head_that_cannot_be_fitted_is_refused_and_the_model_is_as_it_was(
    keys: dict[str, Any], loaded: Model, tmp_path: Path
):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"tokens": ["late", "goal"], "tags": ["O", "B-x"], "text": "late goal", "mood": "a"}\n' * 2)
    with rows.open("a") as file:
        file.write('{"tokens": ["why"], "tags": ["O"], "text": "%s", "mood": "b"}\n' % ("late goal " * 40))
    item = read(Task(name="mood", train=rows, validation=0.1, **keys), loaded)
    with pytest.raises(ConfigError, match=r"Task 'mood' reads tokens, candidates or several windows.*head=drawn"):
        train_task(loaded, item, AddOptions(head="fitted"), progress=False)
    assert loaded.names == ["topic", "tone", "same"]
    train_task(loaded, item, AddOptions(epochs=1), progress=False)


def test_a_task_trained_anew_does_not_begin_from_its_old_version(
    loaded: Model, mood: Task, monkeypatch: pytest.MonkeyPatch
):
    item = read(mood.model_copy(update={"name": "topic"}), loaded)
    seen: list[list[int]] = []
    monkeypatch.setattr(
        type(loaded.method), "start_from_mean", lambda self, new, olds: seen.append([new, *olds]), raising=False
    )
    monkeypatch.setattr(adding, "most_similar", lambda texts, targets, tasks, seed: seen.append([*tasks]) or tasks[0])
    for start in ("mean", "similar"):
        train_task(loaded, item, AddOptions(start=start, epochs=1), progress=False)  # type: ignore[arg-type]
        loaded.discard(3)
    assert seen == [[3, 1, 2], [1, 2]]
    still = AddOptions(like="topic", epochs=1, token_rate=0.0, head_rate=0.0)
    train_task(loaded, item, still, progress=False)  # unless it is asked for
    old, new = (loaded.method.tasks[number].state_dict() for number in (0, 3))
    assert all(torch.equal(value, new[name]) for name, value in old.items())
