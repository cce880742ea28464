"""Thresholds: which answers are given, and how a threshold is chosen on rows that were not trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onepass.errors import ConfigError
from onepass.heads.options import wrong_option
from onepass.tasks import Task, label_text

LEAST_GIVEN = 10  # a precision over fewer answers says nothing
CAUTION = 1.0  # standard deviations by which a target is to be passed on validation, so that it holds elsewhere
GOALS = ("target_precision", "target_recall", "best")
POSSIBLE = (
    "a number between 0 and 1, or one of {target_precision: 0.9}, {target_recall: 0.9}, {best: f1}, "
    "with `per: label` or `label: NAME` beside it"
)


@dataclass(frozen=True)
class Rule:
    """How thresholds are chosen."""

    goal: str
    """One of GOALS"""
    value: float = 0.0
    per: str = "task"
    label: str | None = None
    """The one label that has a threshold"""

    def to_dict(self) -> dict[str, Any]:
        """The rule as a task file writes it."""
        found: dict[str, Any] = {self.goal: "f1" if self.goal == "best" else self.value}
        if self.label is not None:
            return {**found, "label": self.label}
        return {**found, "per": self.per} if self.per != "task" else found

    def __str__(self) -> str:
        return "the best F1" if self.goal == "best" else f"a {self.goal.removeprefix('target_')} of {self.value:g}"


def read_threshold(value: Any, *, labels_apart: bool = False) -> float | Rule | None:
    """The option `threshold` of a task; `labels_apart` for kinds whose labels have thresholds of their own anyway."""
    if value is None:
        return None
    if type(value) in (int, float) and 0 < value < 1:
        return float(value)
    if not isinstance(value, Mapping):
        raise wrong_option("threshold", value, POSSIBLE)
    goals = [key for key in value if key in GOALS]
    if len(goals) != 1 or any(key not in (*GOALS, "per", "label") for key in value):
        raise wrong_option("threshold", dict(value), POSSIBLE)
    goal, number = goals[0], value[goals[0]]
    if goal == "best":
        if number != "f1":
            raise wrong_option("threshold.best", number, "f1")
        number = 0.0
    elif type(number) not in (int, float) or not 0 < number <= 1:
        raise wrong_option(f"threshold.{goal}", number, "a number above 0, at most 1")
    per = value.get("per", "label" if labels_apart else "task")
    if per not in (("label",) if labels_apart else ("task", "label")):
        raise wrong_option("threshold.per", per, "label" if labels_apart else "task, label")
    label = value.get("label")
    if label is not None and "per" in value:
        raise ConfigError("threshold has both `per` and `label`; possible: one of them.")
    return Rule(goal, float(number), per, None if label is None else label_text(label))


def check_thresholds(task: Task) -> None:
    """Raise if what a task folder says about thresholds cannot be used."""
    known = task.fitted.get("thresholds", {})
    for value in known.values() if isinstance(known, dict) else [known]:
        if value is not None and (type(value) not in (int, float) or not 0 <= value <= 1):
            raise ConfigError(f"Task {task.name!r}: a threshold is {value!r}; possible: a number from 0 to 1, or null.")


@dataclass(frozen=True)
class Choice:
    """A threshold, and what it reached on the rows it was chosen on."""

    threshold: float | None
    """None: there is none with which the goal is reached"""
    precision: float | None = None
    """The share of the answers given that are right; None where none is given"""
    recall: float | None = None
    """The share of what there was to find that was given"""
    given: int = 0
    """Answers from this threshold on"""
    reason: str | None = None
    """Why there is no threshold"""

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "reason" or value is not None}


def choose(rule: Rule, scores: np.ndarray, right: np.ndarray, to_find: int) -> Choice:
    """The threshold that a rule asks for.

    scores: the probability of each possible answer, (I,). right: whether it would be right, (I,). to_find: how many
    right answers there are in all, those that are not possible answers included.
    A precision is reached by the lowest threshold that reaches it, a recall by the highest: as much of the other as
    can be had.
    """
    if not to_find:
        return Choice(None, reason=f"{rule} cannot be shown: no validation row has it")
    if not len(scores):
        return Choice(None, reason=f"{rule} cannot be shown: it is the likeliest of no validation row")
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order].astype(float)  # between two neighbours in float32 there is no number
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))  # equal scores are given together
    given = ends + 1
    hits = np.cumsum(right[order])[ends]
    precision, recall = hits / given, hits / to_find
    reason = None
    if rule.goal == "best":
        place = int(np.argmax(2 * hits / (given + to_find)))
    elif rule.goal == "target_recall":
        reached = np.flatnonzero(cautious(recall, to_find) >= rule.value)
        if not len(reached):  # of few rows even all are not surely so many: what was found has to do
            reached = np.flatnonzero(recall >= rule.value)
        place = int(reached[0]) if len(reached) else len(ends) - 1
        if recall[place] < rule.value:
            reason = f"{rule} is not reachable on validation: at most {recall[-1]:.3f}"
    else:
        enough = given >= LEAST_GIVEN
        reached = np.flatnonzero((cautious(precision, given) >= rule.value) & enough)
        if not len(reached):
            return Choice(None, reason=_unreached(rule, precision[enough], given[enough], int(given[-1])))
        place = int(reached[-1])
    # Half way to the next score, so that the last digit of a probability decides nothing.
    last = place == len(ends) - 1
    threshold = 0.0 if last else float((ordered[ends[place]] + ordered[ends[place] + 1]) / 2)
    return Choice(threshold, float(precision[place]), float(recall[place]), int(given[place]), reason)


def cautious(share: np.ndarray, of: np.ndarray | int) -> np.ndarray:
    """Shares a little lower than they were found, the more so the fewer they are of (Wilson's bound)."""
    z2 = CAUTION**2
    spread = CAUTION * np.sqrt(share * (1 - share) / of + z2 / (4 * of**2))
    return np.asarray((share + z2 / (2 * of) - spread) / (1 + z2 / of))


def _unreached(rule: Rule, precision: np.ndarray, given: np.ndarray, most: int) -> str:
    """Why no threshold reaches a precision; `precision` and `given` are those of thresholds with enough answers."""
    if not len(precision):
        return f"{rule} cannot be shown on validation: {most} answers are too few, {LEAST_GIVEN} are needed"
    best = int(cautious(precision, given).argmax())
    few = ", too few to rely on it" if precision[best] >= rule.value else ""
    return f"{rule} is not reachable on validation: at best {precision[best]:.3f} over {given[best]:,} answers{few}"


def chosen(rule: Rule, choices: Mapping[str, Choice], labels: Sequence[str] = ()) -> dict[str, Any]:
    """What `Kind.choose_thresholds` returns; the one choice of a whole task goes to all its `labels`.

    Where no threshold has the precision asked for, the label is never given. Where a label was not seen, neither its
    recall nor its F1 can be told, and it stays as it was.
    """
    values = {
        label: choice.threshold
        for label, choice in choices.items()
        if choice.threshold is not None or rule.goal == "target_precision"
    }
    return {
        "thresholds": {label: value for value in values.values() for label in labels} if labels else values,
        "reached": {label: choice.to_dict() for label, choice in choices.items()},
    }


def shown(labels: Sequence[str], limits: np.ndarray) -> dict[str, float | None]:
    """Limits for people and for JSON, which knows no infinity."""
    return {label: float(value) if value < math.inf else None for label, value in zip(labels, limits, strict=True)}


def limits(task: Task, default: float) -> np.ndarray:
    """What the probability of each label has to reach, (C,); infinite for a label that is never given."""
    own = task.fitted.get("thresholds", {})
    found = [own.get(label, default) for label in task.labels]
    return np.array([math.inf if value is None else value for value in found], float)
