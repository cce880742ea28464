"""Regression, with numbers by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from onepass.errors import ConfigError
from onepass.heads.regression import Regression, pearson, r2, spearman
from onepass.tasks import Task

TARGETS = np.array([10.0, 20.0, 60.0])  # mean 30, variance (400 + 100 + 900) / 3
SPREAD = math.sqrt(1400 / 3)
KIND = Regression()
TASK = Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 30.0, "spread": SPREAD})


@pytest.mark.parametrize(("value", "number"), [("2.5", 2.5), (3, 3.0), (" -1e3 ", -1000.0), (0, 0.0)])
def test_numbers_are_read_as_they_are_written(value: Any, number: float):
    assert KIND.target({"price": value}, TASK, ()) == number


@pytest.mark.parametrize("value", ["cheap", "1,5", [1], "inf", float("-inf"), "nan", "1e999", 10**400])
def test_what_is_no_finite_number_is_refused(value: Any):
    with pytest.raises(ValueError, match=r"has .* where a (finite )?number is needed\."):
        KIND.target({"price": value}, TASK, ())


def test_numbers_whose_spread_no_answer_could_hold_are_refused():
    with pytest.raises(ValueError, match=r"has 1e\+200, which is too large: give its logarithm"):
        KIND.target({"price": 1e200}, TASK, ())
    assert KIND.target({"price": "-1e30"}, TASK, ()) == -1e30


def test_numbers_that_are_all_the_same_cannot_be_learned():
    (fault,) = KIND.faults(TASK, np.array([5.0, 5.0]))
    assert fault == "Task 'price' needs different numbers to learn from; those of its training rows are all 5."
    assert KIND.faults(TASK, TARGETS) == []


def test_targets_are_standardised_and_answers_brought_back():
    fitted = KIND.fit(TASK, TARGETS)
    assert fitted == pytest.approx({"mean": 30.0, "spread": SPREAD})
    scaled = KIND.scale_targets(TASK, TARGETS)
    assert scaled.dtype == np.float32
    assert scaled.tolist() == pytest.approx([-20 / SPREAD, -10 / SPREAD, 30 / SPREAD])
    assert KIND.answers(TASK, scaled[:, None]).tolist() == pytest.approx([10.0, 20.0, 60.0], rel=1e-6)


def test_without_standardising_numbers_stay_as_they_are():
    kind = Regression(standardise=False)
    task = TASK.model_copy(update={"fitted": kind.fit(TASK, TARGETS)})
    assert kind.scale_targets(task, TARGETS).tolist() == [10.0, 20.0, 60.0]
    assert kind.answers(task, np.array([[2.5]])).tolist() == [2.5]


@pytest.mark.parametrize("value", ["no", 1, None])
def test_standardise_is_true_or_false(value: Any):
    with pytest.raises(ConfigError, match="possible: true or false"):
        Regression(standardise=value)


def test_the_loss_is_the_squared_error():
    loss = KIND.loss(torch.tensor([[1.0], [-2.0]]), torch.tensor([3.0, -2.5]))
    assert loss.tolist() == [4.0, 0.25]


def test_a_number_has_no_entropy():
    assert KIND.entropy(torch.tensor([[1.0], [9.0]])).tolist() == [0.0, 0.0]


def test_answers_are_numbers_without_probabilities():
    (prediction,) = KIND.decode(TASK, np.array([[1.0]], np.float32))
    assert prediction.label == pytest.approx(30 + SPREAD)
    assert type(prediction.label) is float
    assert prediction.score is None and prediction.scores == {}
    assert KIND.outputs(TASK) == 1


def test_spearman_by_hand():
    # Ranks 1 2 3 4 against 2 1 4 3: differences of 1 each, 1 - 6 * 4 / (4 * 15).
    assert spearman(np.array([0.2, 0.1, 0.9, 0.5]), np.array([1.0, 2.0, 3.0, 40.0])) == pytest.approx(0.6)


def test_pearson_by_hand():
    # Deviations (-1, 0, 1) and (-2, 1, 1): 3 / sqrt(2 * 6).
    assert pearson(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 4.0])) == pytest.approx(3 / math.sqrt(12))


def test_r2_by_hand():
    assert r2(np.array([10.0, 30.0, 50.0]), TARGETS) == pytest.approx(1 - (0 + 100 + 100) / 1400)
    assert r2(np.full(3, 30.0), TARGETS) == 0.0
    assert r2(TARGETS, TARGETS) == 1.0


def test_metrics_are_numbers_where_nothing_varies():
    constant = np.array([2.0, 2.0])
    for metric in (spearman, pearson):
        assert metric(constant, np.array([1.0, 2.0])) == 0.0
        assert metric(np.array([1.0, 2.0]), constant) == 0.0
        assert metric(np.array([1.0]), np.array([1.0])) == 0.0
    assert r2(np.array([1.0, 2.0]), constant) == 0.0


def test_spearman_comes_first_unless_the_task_names_another():
    logits = np.array([[-1.0], [0.0], [1.0]])
    assert list(KIND.score(TASK, logits, TARGETS)) == ["spearman", "pearson", "r2"]
    named = TASK.model_copy(update={"metric": "r2"})
    assert next(iter(KIND.score(named, logits, TARGETS))) == "r2"
    assert KIND.score(TASK, logits, TARGETS)["spearman"] == pytest.approx(100.0)


def test_another_models_numbers_are_put_on_this_ones_scale():
    kind = Regression()
    ours = Task(name="tone", kind="regression", text="t", label="l", fitted={"mean": 1.0, "spread": 2.0})
    theirs = ours.model_copy(update={"fitted": {"mean": 5.0, "spread": 4.0}})
    translated = kind.translate(ours, theirs, np.array([[0.0], [0.5]], np.float32))  # the numbers 5 and 7
    assert translated.tolist() == [[2.0], [3.0]]
    assert kind.divergence(torch.tensor([[2.0]]), torch.tensor([[5.0]])).tolist() == [9.0]


def test_a_decimal_comma_is_told():
    with pytest.raises(ValueError, match=r"has '0,5' where a number is needed\. Write numbers with a point: 1\.5\."):
        KIND.target({"price": "0,5"}, TASK, ())
