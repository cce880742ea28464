"""Metrics of tasks with one label a row: functions of (answers, targets), both numbers of labels."""

import math

import numpy as np


def accuracy(answers: np.ndarray, targets: np.ndarray) -> float:
    return float((answers == targets).mean())


def counts(answers: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By label, how often it was answered, how often it was right to, and how often it was the target."""
    size = int(max(answers.max(initial=0), targets.max(initial=0))) + 1
    right = np.bincount(targets[answers == targets], minlength=size)
    return np.bincount(answers, minlength=size), right, np.bincount(targets, minlength=size)


def macro_f1(answers: np.ndarray, targets: np.ndarray) -> float:
    """The mean F1 of the labels that were answered or were targets."""
    answered, right, wanted = counts(answers, targets)
    seen = answered + wanted > 0
    return float((2.0 * right[seen] / (answered + wanted)[seen]).mean()) if seen.any() else 0.0


def f1(answers: np.ndarray, targets: np.ndarray) -> float:
    """F1 of the second label, the positive one of a two-label task ("0", "1"; "no", "yes")."""
    named = int((answers == 1).sum() + (targets == 1).sum())
    return 2.0 * int(((answers == 1) & (targets == 1)).sum()) / named if named else 0.0


def matthews(answers: np.ndarray, targets: np.ndarray) -> float:
    """The correlation of answers and targets, for any number of labels; 0 where one side does not vary."""
    answered, right, wanted = (found.astype(np.float64) for found in counts(answers, targets))
    rows = len(targets)
    spread = (rows**2 - (answered**2).sum()) * (rows**2 - (wanted**2).sum())
    return float((right.sum() * rows - answered @ wanted) / math.sqrt(spread)) if spread > 0 else 0.0
