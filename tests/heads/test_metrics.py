"""Metrics of one label a row, with numbers by hand and beside scikit-learn's."""

import math

import numpy as np
import pytest

from onepass.heads.metrics import accuracy, f1, macro_f1, matthews

TARGETS = np.array([0, 0, 1, 1, 1, 2])
ANSWERS = np.array([0, 1, 1, 1, 0, 0])  # of the three labels: 1 of 3 right, 1 of 2 found; 2 of 3, 2 of 3; never said


def test_metrics_by_hand():
    assert accuracy(ANSWERS, TARGETS) == pytest.approx(3 / 6)
    bad, good = 2 * 1 / (3 + 2), 2 * 2 / (3 + 3)  # F1 = 2 * right / (said + there)
    assert macro_f1(ANSWERS, TARGETS) == pytest.approx((bad + good + 0) / 3)
    assert f1(ANSWERS, TARGETS) == pytest.approx(good)


def test_matthews_by_hand():
    targets, answers = np.array([1, 1, 1, 0, 0]), np.array([1, 1, 0, 0, 1])
    # 2 true positives, 1 true negative, 1 false positive, 1 false negative
    assert matthews(answers, targets) == pytest.approx((2 * 1 - 1 * 1) / math.sqrt(3 * 3 * 2 * 2))
    assert matthews(1 - targets, targets) == pytest.approx(-1.0)


@pytest.mark.parametrize("labels", [2, 5])
def test_metrics_are_those_of_scikit_learn(labels: int):
    from sklearn import metrics

    generator = np.random.default_rng(labels)
    targets = generator.integers(0, labels, 60)
    answers = np.where(generator.random(60) < 0.5, targets, generator.integers(0, labels, 60))
    assert macro_f1(answers, targets) == pytest.approx(metrics.f1_score(targets, answers, average="macro"))
    assert f1(answers, targets) == pytest.approx(metrics.f1_score(targets, answers, average=None)[1])
    assert matthews(answers, targets) == pytest.approx(metrics.matthews_corrcoef(targets, answers))


def test_metrics_of_answers_that_never_change_are_numbers():
    constant = np.zeros(4, np.int64)
    assert f1(constant, constant) == 0.0
    assert matthews(constant, constant) == 0.0
    assert macro_f1(constant, np.array([1, 1, 1, 1])) == 0.0
