"""Temperatures that make probabilities mean what they say, and how far they are from that.

Logits are divided by a temperature before they become probabilities: one for the task, or one for each label
(arXiv:1706.04599, arXiv:2012.07923). Dividing never changes which label is the likeliest, so calibration changes no
answer. The paper's vector scaling can, so there is none here; in its place the temperature may depend on the label
that is answered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onepass.errors import ConfigError
from onepass.tasks import Task

LEAST_ROWS, MOST_ROWS = 50, 10_000
FOLDS, BINS = 5, 15
COLDEST, HOTTEST = 0.1, 10.0
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
PULL = 5.0  # how strongly a label's temperature is held to the task's, where the label has few rows
Losses = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From items (their numbers) and their temperatures to their losses"""


def temperatures(task: Task, dtype: Any = float) -> np.ndarray:
    """What the logits of each label are divided by, (C,); ones where the task was not calibrated.

    In the precision of the logits: more digits of a probability than that would be noise.
    """
    known = task.fitted.get("calibration", {})
    if "temperatures" in known:
        return np.array([known["temperatures"].get(label, 1.0) for label in task.labels], dtype)
    return np.full(len(task.labels), known.get("temperature", 1.0), dtype)


def temperature(task: Task, dtype: Any = float) -> np.ndarray:
    """What all logits are divided by, for kinds without labels; 1 where the task was not calibrated."""
    return np.asarray(task.fitted.get("calibration", {}).get("temperature", 1.0), dtype)


def check_calibration(task: Task) -> None:
    """Raise if what a task folder says about temperatures cannot be used."""
    known = task.fitted.get("calibration", {})
    values = [*known.get("temperatures", {}).values()] if isinstance(known, dict) else [known]
    values += [known["temperature"]] if isinstance(known, dict) and "temperature" in known else []
    for value in values:
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ConfigError(f"Task {task.name!r}: a temperature is {value!r}; possible: a number above 0.")


def not_calibrated(reason: str) -> dict[str, Any]:
    return {"form": "none", "reason": reason}


def fit(losses: Losses, rows: np.ndarray, groups: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """No temperature, one, or one a label: whichever has the least loss on rows it was not fitted on.

    An item is what has a probability: a row, or for multilabel a row and one of its labels.
    rows: the row of each item, (I,). groups: the number of the label whose temperature it gets, (I,).
    """
    count = len(np.unique(rows))
    if count < LEAST_ROWS:
        return not_calibrated(f"{count} validation rows are too few, {LEAST_ROWS} are needed")
    generator = np.random.default_rng(0)
    folds = generator.integers(0, FOLDS, rows.max() + 1)[rows]  # the rows of a file may be sorted by label
    if count > MOST_ROWS:
        chosen = generator.permutation(rows.max() + 1) < MOST_ROWS
        folds = np.where(chosen[rows], folds, -1)
    forms: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "none": lambda _: np.ones(len(labels)),
        "temperature": lambda items: np.full(len(labels), _one(losses, items)),
        "temperatures": lambda items: _each(losses, items, groups, len(labels)),
    }
    if len(labels) < 2:
        del forms["temperatures"]
    held_out = dict.fromkeys(forms, 0.0)
    for fold in range(FOLDS):
        learned, left = np.flatnonzero((folds != fold) & (folds >= 0)), np.flatnonzero(folds == fold)
        for name, fitted in forms.items():
            held_out[name] += float(losses(left, fitted(learned)[groups[left]]).sum())
    form = min(held_out, key=lambda name: held_out[name])
    if form == "none":
        return not_calibrated("no temperature lowered the loss on held-out validation rows")
    found = forms[form](np.flatnonzero(folds >= 0))
    values: Any = float(found[0])
    if form == "temperatures":
        values = dict(zip(labels, map(float, found), strict=True))
    return {"form": form, form: values, "rows": count}


def fit_labels(logits: np.ndarray, targets: np.ndarray, rows: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """`fit` for items that have one of the labels each: logits (I, C), targets (I,)."""

    def losses(items: np.ndarray, temperatures: np.ndarray) -> np.ndarray:
        log_p = log_softmax(logits[items] / temperatures[:, None])
        return -log_p[np.arange(len(items)), targets[items]]

    return fit(losses, rows, logits.argmax(-1), labels)


def label_reliability(log_p: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """How far (I, C) probabilities, as logarithms, are from the labels (I,) that there were."""
    if not len(log_p):
        return {}
    p, best, items = np.exp(log_p), log_p.argmax(-1), np.arange(len(log_p))
    wanted = np.arange(log_p.shape[-1]) == targets[:, None]
    return {
        "ece": 100.0 * calibration_error(p[items, best], best == targets),
        "brier": float(((p - wanted) ** 2).sum(-1).mean()),
        "nll": float(-log_p[items, targets].mean()),
    }


def _one(losses: Losses, items: np.ndarray, around: float = 1.0, pull: float = 1.0) -> float:
    """The temperature of least loss over items, held a little to another one."""

    def loss(log_t: float) -> float:
        return float(losses(items, np.full(len(items), math.exp(log_t))).sum()) + pull * (log_t - math.log(around)) ** 2

    return math.exp(_lowest(loss, math.log(COLDEST), math.log(HOTTEST)))


def _lowest(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is lowest, by golden-section search; importing scipy's takes longer than this.

    >>> round(_lowest(lambda x: (x - 0.3) ** 2, -1.0, 1.0), 2)
    0.3
    """
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    while high - low > 1e-3:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = value(right)
    return (low + high) / 2


def _each(losses: Losses, items: np.ndarray, groups: np.ndarray, num_groups: int) -> np.ndarray:
    """A temperature for each group, (G,); that of all items for groups without any."""
    common = _one(losses, items)
    found = np.full(num_groups, common)
    for group in np.unique(groups[items]):
        found[group] = _one(losses, items[groups[items] == group], common, PULL)
    return found


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))


def log_sigmoid(logits: np.ndarray) -> np.ndarray:
    return np.asarray(-np.logaddexp(0.0, -logits))


def calibration_error(probabilities: np.ndarray, happened: np.ndarray) -> float:
    """The expected calibration error: |mean probability - share that happened|, over 15 equally wide bins.

    >>> round(calibration_error(np.array([0.9, 0.9, 0.9, 0.9]), np.array([1, 1, 0, 0])), 3)
    0.4
    """
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    differences = np.bincount(bins, probabilities - happened, BINS)  # sums, so the bins are weighted by their rows
    return float(np.abs(differences).sum() / len(probabilities))
