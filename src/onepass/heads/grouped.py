"""Scores of rows that belong together, such as the answers to one question of MultiRC.

Khashabi et al. 2018: F1a is over all answers, F1m the harmonic mean of the questions' mean precision and mean recall,
and a question is matched if all of its answers are judged rightly. The second label is the positive one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Groups = Sequence[str]
Parts = Sequence[np.ndarray]  # one a group
Measure = Callable[[Parts, Parts], float]


def f1m(answers: Parts, targets: Parts) -> float:
    """Precision is 1 where nothing is answered, recall where nothing is right.

    >>> right, one = np.array([1, 1]), np.array([1, 0])
    >>> f1m([one, right], [right, one]), f1m([0 * one, right], [right, one])
    (0.75, 0.6)
    """
    right = [int(((own == 1) & (wanted == 1)).sum()) for own, wanted in zip(answers, targets, strict=True)]
    precision, recall = _mean_share(right, answers), _mean_share(right, targets)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _mean_share(right: Sequence[int], parts: Parts) -> float:
    """The mean over groups of what is right among what is positive there."""
    positive = [int((part == 1).sum()) for part in parts]
    return float(np.mean([own / count if count else 1.0 for own, count in zip(right, positive, strict=True)]))


def group_match(answers: Parts, targets: Parts) -> float:
    """The share of groups whose answers are all right."""
    return float(np.mean([(own == wanted).all() for own, wanted in zip(answers, targets, strict=True)]))


def over_groups(measure: Measure, answers: np.ndarray, targets: np.ndarray, groups: Groups) -> float:
    """A measure of answers that are told group by group; a row without a group ("") is one of its own.

    >>> over_groups(group_match, np.array([1, 0, 1]), np.array([1, 0, 0]), ["a", "a", "b"])
    0.5
    """
    names, of_row = np.unique(np.asarray(groups), return_inverse=True)
    alone = np.flatnonzero(np.asarray(groups) == "")
    of_row[alone] = len(names) + np.arange(len(alone))
    order = np.argsort(of_row, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(of_row[order])) + 1)
    return measure([answers[part] for part in parts], [targets[part] for part in parts])


GROUPED: dict[str, Measure] = {"f1m": f1m, "group_match": group_match}
