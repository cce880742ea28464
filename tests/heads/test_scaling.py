"""Temperatures: they are found, they make probabilities honest, and they change no answer."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onepass.errors import ConfigError
from onepass.heads import make_kind, scaling
from onepass.heads.base import Kind
from onepass.tasks import Task

LABELS = ("a", "b", "c", "d")


def task_of(kind: str = "classification", **fitted: Any) -> Task:
    return Task(name="tone", kind=kind, text="text", label="tone", labels=LABELS, fitted=fitted)


def drawn(rows: int, temperature: float | np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are too large by a factor (one a label, if there are several), and labels drawn accordingly."""
    generator = np.random.default_rng(seed)
    honest = generator.normal(0, 2, (rows, len(LABELS)))
    p = np.exp(scaling.log_softmax(honest))
    targets = (p.cumsum(-1) < generator.random((rows, 1))).sum(-1)
    return (honest * np.broadcast_to(temperature, len(LABELS))[honest.argmax(-1), None]).astype(np.float32), targets


def drawn_sets(rows: int, temperature: float | np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    honest = generator.normal(-1, 2, (rows, len(LABELS)))
    targets = (generator.random(honest.shape) < 1 / (1 + np.exp(-honest))).astype(np.float32)
    return (honest * temperature).astype(np.float32), targets


def calibrated(kind: Kind, task: Task, logits: np.ndarray, targets: np.ndarray) -> Task:
    return task.model_copy(update={"fitted": {"calibration": kind.calibrate(task, logits, targets)}})


@pytest.mark.parametrize("true", [0.4, 3.0])
@pytest.mark.parametrize(("name", "draw"), [("classification", drawn), ("multilabel", drawn_sets)])
def test_the_temperature_of_the_logits_is_found_and_probabilities_become_honest(name: str, draw: Any, true: float):
    task, (logits, targets) = task_of(name), draw(3000, true)
    kind = make_kind(task)
    after = calibrated(kind, task, logits, targets)
    assert scaling.temperatures(after) == pytest.approx([true] * 4, rel=0.15)
    assert after.fitted["calibration"]["rows"] == 3000
    fresh = draw(3000, true, seed=1)
    before, now = kind.reliability(task, *fresh), kind.reliability(after, *fresh)
    assert now["ece"] < before["ece"] / 3 and now["ece"] < 2.5
    assert now["brier"] < before["brier"] and now["nll"] < before["nll"]


@pytest.mark.parametrize(("name", "draw"), [("classification", drawn), ("multilabel", drawn_sets)])
def test_labels_that_differ_get_temperatures_of_their_own(name: str, draw: Any):
    true = np.array([0.5, 1.0, 3.0, 6.0])
    task, (logits, targets) = task_of(name), draw(4000, true)
    after = calibrated(make_kind(task), task, logits, targets)
    assert after.fitted["calibration"]["form"] == "temperatures"
    assert scaling.temperatures(after) == pytest.approx(true, rel=0.3)


@pytest.mark.parametrize("fitted", [{"temperature": 0.1}, {"temperature": 9.0}, {"temperatures": {"a": 0.2, "c": 7.0}}])
@pytest.mark.parametrize("name", ["classification", "multilabel"])
def test_no_answer_changes(name: str, fitted: dict[str, Any]):
    logits = np.random.default_rng(0).normal(0, 20, (2000, 4)).astype(np.float32)
    logits[:50, 1] = logits[:50, 0] + 1e-6  # as good as equal
    plain, scaled = task_of(name), task_of(name, calibration=fitted)
    kind = make_kind(plain)
    assert (kind.answers(plain, logits) == kind.answers(scaled, logits)).all()
    labels = [[answer.label for answer in kind.decode(task, logits)] for task in (plain, scaled)]
    assert labels[0] == labels[1]
    scores = [[answer.score for answer in kind.decode(task, logits)] for task in (plain, scaled)]
    assert scores[0] != scores[1]


def test_without_calibration_probabilities_are_those_of_the_logits():
    logits = np.random.default_rng(0).normal(0, 3, (50, 4))
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    task = task_of(calibration=scaling.not_calibrated("why not"))
    np.testing.assert_allclose(make_kind(task).probabilities(task, logits), expected)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "draw"), [("classification", drawn), ("multilabel", drawn_sets)])
def test_few_rows_calibrate_nothing_and_say_so(name: str, draw: Any):
    task = task_of(name)
    found = make_kind(task).calibrate(task, *draw(49, 3.0))
    assert found == {"form": "none", "reason": "49 validation rows are too few, 50 are needed"}


def test_honest_probabilities_are_left_nearly_alone():
    task, rows = task_of(), drawn(300, 1.0)
    after = calibrated(make_kind(task), task, *rows)
    assert scaling.temperatures(after) == pytest.approx([1.0] * 4, abs=0.25)


def test_numbers_have_nothing_to_calibrate():
    task = Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 0.0, "spread": 1.0})
    kind, logits, targets = make_kind(task), np.zeros((100, 1)), np.zeros(100)
    assert kind.calibrate(task, logits, targets)["form"] == "none"
    assert kind.reliability(task, logits, targets) == {}
    assert kind.choose_thresholds(task, logits, targets) == {}


def test_the_calibration_error_by_hand():
    # Bin of 0.9: 2 of 4 happened; bin of 0.2: 1 of 1 happened.
    found = scaling.calibration_error(np.array([0.9, 0.9, 0.9, 0.9, 0.2]), np.array([1, 1, 0, 0, 1]))
    assert found == pytest.approx(4 / 5 * 0.4 + 1 / 5 * 0.8)
    assert scaling.calibration_error(np.array([1.0, 0.0]), np.array([1, 0])) == 0.0


def test_brier_and_loss_by_hand():
    task = task_of()
    logits = np.log(np.array([[0.7, 0.1, 0.1, 0.1], [0.25, 0.25, 0.25, 0.25]]))
    found = make_kind(task).reliability(task, logits, np.array([0, 3]))
    assert found["brier"] == pytest.approx((0.09 + 3 * 0.01 + 3 * 0.0625 + 0.5625) / 2)
    assert found["nll"] == pytest.approx(-(np.log(0.7) + np.log(0.25)) / 2)


def test_candidates_share_one_temperature():
    generator = np.random.default_rng(0)
    logits, targets = [], np.empty(1500, object)
    for row in range(1500):
        honest = generator.normal(0, 2, int(generator.integers(2, 6)))
        right = generator.choice(len(honest), p=np.exp(honest) / np.exp(honest).sum())
        targets[row] = (np.arange(len(honest)) == right).astype(np.float32)
        logits.append((2.5 * honest[:, None]).astype(np.float32))
    task = Task(name="ending", kind="choice", text="text", label="right", options={"choices": ["a", "b"]})
    kind = make_kind(task)
    after = calibrated(kind, task, logits, targets)  # type: ignore[arg-type]
    assert after.fitted["calibration"]["temperature"] == pytest.approx(2.5, rel=0.15)
    before, now = kind.reliability(task, logits, targets), kind.reliability(after, logits, targets)
    assert now["ece"] < before["ece"] / 3 and now["brier"] < before["brier"] and now["nll"] < before["nll"]
    readings = [SimpleNamespace(names=[str(n) for n in range(len(row))]) for row in logits]
    answers = [kind.decode(each, logits, readings) for each in (task, after)]  # type: ignore[arg-type]
    assert [answer.label for answer in answers[0]] == [answer.label for answer in answers[1]]
    assert answers[0][0].score != answers[1][0].score


def test_tags_are_calibrated_word_by_word():
    task = task_of("tagging")
    kind = make_kind(task)
    logits, targets = drawn(3000, 3.0)
    rows, wanted = np.split(logits, 600), np.empty(600, object)
    wanted[:] = np.split(targets, 600)
    marks = np.stack([np.arange(5), np.arange(1, 6)], -1)
    readings: Any = [SimpleNamespace(numbers=np.arange(5), marks=marks, text="abcde")] * 600
    found = kind.calibrate(task, rows, wanted, readings)
    after = task.model_copy(update={"fitted": {"calibration": found}})
    assert found["rows"] == 600 and scaling.temperatures(after) == pytest.approx([3.0] * 4, rel=0.2)
    before, now = (kind.reliability(each, rows, wanted, readings) for each in (task, after))
    assert now["ece"] < before["ece"] / 3
    answers = [kind.decode(each, rows, readings) for each in (task, after)]
    assert [answer.label for answer in answers[0]] == [answer.label for answer in answers[1]]
    assert answers[0][0].score != answers[1][0].score


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "warm", None, True])
@pytest.mark.parametrize("name", ["classification", "multilabel", "tagging"])
def test_a_temperature_that_is_none_is_refused(name: str, value: Any):
    for fitted in ({"temperature": value}, {"temperatures": {"a": 1.0, "b": value}}):
        with pytest.raises(ConfigError, match=r"a temperature is .*a number above 0"):
            make_kind(task_of(name, calibration=fitted))
