"""Which checkpoint is kept."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from onepass.errors import ConfigError
from onepass.tasks import Task
from onepass.training.baseline import baseline_of, read_baseline
from onepass.training.best import CRITERIA, Best
from onepass.training.options import SelectOptions

TASKS = [
    Task(name="topic", text="text", label="topic", weight=3.0),
    Task(name="tone", text="text", label="tone", weight=1.0),
]
# By mean the second is best (70), by the worst task the first (60), by weight 3 : 1 the third (80).
EVALUATIONS = [(60.0, 64.0), (45.0, 95.0), (90.0, 50.0 - 1)]


def scores(topic: float, tone: float) -> dict[str, dict[str, Any]]:
    return {"topic": {"score": topic}, "tone": {"score": tone}}


def layer(value: float) -> nn.Linear:
    made = nn.Linear(2, 2)
    nn.init.constant_(made.weight, value)
    nn.init.constant_(made.bias, value)
    return made


@pytest.mark.parametrize(("criterion", "expected"), [("mean", 70.0), ("worst", 45.0), ("weighted", 57.5)])
def test_the_criteria_by_hand(criterion: str, expected: float):
    assert CRITERIA[criterion](scores(45.0, 95.0), {"topic": 3.0, "tone": 1.0}) == pytest.approx(expected)


@pytest.mark.parametrize(("criterion", "chosen"), [("mean", 1), ("worst", 0), ("weighted", 2)])
def test_each_criterion_keeps_its_own_best(criterion: str, chosen: int):
    best, model = Best(criterion, TASKS), layer(0.0)
    for number, evaluation in enumerate(EVALUATIONS):
        model.load_state_dict(layer(float(number)).state_dict())
        best.offer(scores(*evaluation), model, epoch=number)
    best.restore(model)
    assert model.weight.unique().tolist() == [float(chosen)]
    assert model.bias.unique().tolist() == [float(chosen)]
    assert best.epoch == chosen
    assert best.since == len(EVALUATIONS) - 1 - chosen


def test_of_equal_scores_the_first_is_kept():
    best, model = Best("mean", TASKS), layer(1.0)
    assert best.offer(scores(50.0, 50.0), model, 1)
    model.load_state_dict(layer(2.0).state_dict())
    assert not best.offer(scores(40.0, 60.0), model, 2)
    best.restore(model)
    assert model.bias.tolist() == [1.0, 1.0]


def test_a_score_that_is_no_number_is_never_the_best():
    best, model = Best("mean", TASKS), layer(1.0)
    assert not best.offer(scores(float("nan"), 50.0), model, 1)
    assert best.offer(scores(10.0, 50.0), model, 2)
    assert not best.offer(scores(float("nan"), 50.0), model, 3)
    assert best.epoch == 2


def test_weights_that_are_not_finite_are_never_the_best():
    best, model = Best("mean", TASKS), layer(1.0)
    best.offer(scores(10.0, 10.0), model, 1)
    model.load_state_dict(layer(float("nan")).state_dict())
    assert not best.offer(scores(90.0, 90.0), model, 2)
    best.restore(model)
    assert model.bias.tolist() == [1.0, 1.0]


def test_weights_that_do_not_learn_are_not_copied():
    best, model = Best("mean", TASKS), layer(1.0)
    model.weight.requires_grad_(False)
    best.offer(scores(10.0, 10.0), model, 1)
    assert list(best.kept) == ["bias"]


def test_without_an_evaluation_nothing_is_restored():
    model = layer(1.0)
    Best("mean", TASKS).restore(model)
    assert torch.equal(model.weight, torch.ones(2, 2))


# --- no task too far under its own model ------------------------------------------------------------------------------


def floored(tmp_path: Path, floor: float) -> Best:
    (tmp_path / "alone.json").write_text('{"topic": 62, "tone": 66}')
    select = SelectOptions(baseline=str(tmp_path / "alone.json"), floor=floor)
    return Best(select, TASKS, baseline_of(select, TASKS))


@pytest.mark.parametrize(
    ("floor", "chosen"),
    [
        (2.0, 0),  # only (60, 64) is within 2 points of (62, 66), though its mean is the lowest
        (17.0, 1),  # all are; (45, 95) has the highest mean
        (0.0, 0),  # none is; the first is 2 under, the others 17
    ],
)
def test_no_task_is_more_than_the_floor_under_its_own_model_if_that_can_be(tmp_path: Path, floor: float, chosen: int):
    best, model = floored(tmp_path, floor), layer(0.0)
    for number, evaluation in enumerate(EVALUATIONS):
        best.offer(scores(*evaluation), model, epoch=number)
    assert best.epoch == chosen


def test_under_a_floor_a_score_that_is_no_number_is_never_the_best(tmp_path: Path):
    best, model = floored(tmp_path, 1.0), layer(0.0)
    assert not best.offer(scores(float("nan"), 99.0), model, 1)
    assert not best.offer(scores(99.0, float("nan")), model, 1)
    assert best.offer(scores(10.0, 10.0), model, 2)


@pytest.mark.parametrize(("metric", "expected"), [(None, 50.0), ("accuracy", 50.0), ("macro_f1", 40.0)])
def test_a_baseline_is_compared_in_the_metric_that_counts_here(metric: str | None, expected: float, tmp_path: Path):
    path, task = tmp_path / "evaluated.json", Task(name="a", text="text", label="label", metric=metric)
    found = {"metric": "accuracy", "score": 50.0, "accuracy": 50.0, "macro_f1": 40.0}
    path.write_text(json.dumps({"average": 50.0, "tasks": {"a": found}}))
    assert read_baseline(str(path), [task]) == {"a": expected}


def test_a_baseline_in_another_metric_alone_is_refused(tmp_path: Path):
    path, task = tmp_path / "scores.json", Task(name="a", text="text", label="label", metric="macro_f1")
    path.write_text('{"a": {"metric": "accuracy", "score": 50.0}}')
    with pytest.raises(ConfigError, match=r"the score of a is its accuracy\. Needed: its macro_f1"):
        read_baseline(str(path), [task])


def test_an_unknown_kind_is_no_fault_of_the_baseline_too(tmp_path: Path):
    path, task = tmp_path / "scores.json", Task(name="a", kind="clasification", text="text", label="label")
    path.write_text('{"a": {"metric": "accuracy", "score": 50.0}}')
    assert read_baseline(str(path), [task]) == {"a": 50.0}
