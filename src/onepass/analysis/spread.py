"""How scores lie across tasks: whether a method's gain reaches all of them or some at the cost of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

ROUNDING = 1e-9
"""Means of the same scores in another order differ by less"""


@dataclass(frozen=True)
class Spread:
    """Scores of one model over its tasks."""

    mean: float
    deviation: float
    """CA-MTL's Task sigma: the standard deviation of the scores across tasks"""
    worst: str
    best: str
    at_or_above: int | None = None
    """Tasks at or above the baseline (CA-MTL's "# tasks g.e. ST")"""
    gains: Mapping[str, float] | None = None
    """By task, against the baseline"""


def score_spread(scores: Mapping[str, float], baseline: Mapping[str, float] | None = None) -> Spread:
    """The spread of scores by task (or by task and metric, as CA-MTL counts them), against a baseline's if given.

    >>> found = score_spread({"a": 80.0, "b": 90.0}, {"a": 82.0, "b": 85.0})
    >>> found.mean, found.deviation, found.worst, found.at_or_above
    (85.0, 5.0, 'a', 1)
    """
    values = list(scores.values())
    gains = None if baseline is None else {name: scores[name] - baseline[name] for name in scores if name in baseline}
    return Spread(
        mean=float(np.mean(values)),
        deviation=float(np.std(values)),
        worst=min(scores, key=lambda name: scores[name]),
        best=max(scores, key=lambda name: scores[name]),
        at_or_above=None if gains is None else sum(gain >= -ROUNDING for gain in gains.values()),
        gains=gains,
    )
