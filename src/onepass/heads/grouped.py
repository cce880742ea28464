"""Scores of rows that belong together, such as the answers to one question of MultiRC.

Khashabi et al. 2018: F1a is over all answers, F1m the mean over questions of each one's F1, and a question is matched
if all of its answers are judged rightly. The second label is the positive one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Groups = Sequence[str]
Measure = Callable[[np.ndarray, np.ndarray], float]


def f1_or_match(answers: np.ndarray, targets: np.ndarray) -> float:
    """F1 of the positive label; where neither side has one, both agree."""
    named = int((answers == 1).sum() + (targets == 1).sum())
    return 2.0 * int(((answers == 1) & (targets == 1)).sum()) / named if named else 1.0


def whole(answers: np.ndarray, targets: np.ndarray) -> float:
    return float((answers == targets).all())


def over_groups(measure: Measure, answers: np.ndarray, targets: np.ndarray, groups: Groups) -> float:
    """The mean over groups of a measure within each.

    >>> over_groups(whole, np.array([1, 0, 1]), np.array([1, 0, 0]), ["a", "a", "b"])
    0.5
    """
    _, of_row = np.unique(np.asarray(groups), return_inverse=True)
    order = np.argsort(of_row, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(of_row[order])) + 1)
    return float(np.mean([measure(answers[part], targets[part]) for part in parts]))


GROUPED: dict[str, Measure] = {"f1m": f1_or_match, "group_match": whole}
