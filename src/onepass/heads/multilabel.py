"""Any number of labels of a text or of a pair of texts, none included: GoEmotions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onepass.data.items import Reading
from onepass.errors import first_of, unknown
from onepass.heads import scaling
from onepass.heads.base import Kind, Row
from onepass.heads.cells import shown as shown_cell
from onepass.heads.cells import written_list
from onepass.heads.options import wrong_option
from onepass.heads.thresholds import POSSIBLE, Rule, choose, chosen, limits, read_threshold, shown
from onepass.prediction import Prediction
from onepass.tasks import SEPARATORS, Task, label_text

if TYPE_CHECKING:
    from torch import Tensor

HALF = 0.5
ADVICE = 'Write them as a JSON list, ["joy", "love"] or [], or with one of | ; , between them.'
_CHOICES = re.compile(r"\{\s*\"choices\"\s*:(?P<list>.*)\}", re.DOTALL)


def labels_of(cell: Any, separator: str | None = None) -> list[str]:
    """The labels that a cell holds, each once; ValueError if they cannot be told.

    A cell is a list, a list written out, or labels with a separator between them; without a given one, the first of
    | ; , that occurs in the cell is taken for it. Label Studio writes several labels as {"choices": [...]}.

    >>> [labels_of(cell) for cell in (["joy", 1], '["joy", "love"]', "joy | love", "joy", [])]
    [['joy', '1'], ['joy', 'love'], ['joy', 'love'], ['joy'], []]
    >>> labels_of('{"choices": ["joy", "love"]}')
    ['joy', 'love']
    """
    found = cell
    if isinstance(cell, str):
        text = cell.strip()
        choices = _CHOICES.fullmatch(text)
        found = written_list(choices["list"] if choices else text)
        if found is None and text[:1] in ("[", "{") and separator is None:
            raise ValueError(f"has {shown_cell(cell)}, which does not parse, where labels are needed. {ADVICE}")
        if found is None:
            mark = separator or next((mark for mark in SEPARATORS if mark in text), None)
            found = [part for part in (text.split(mark) if mark else [text]) if part.strip()]
    elif isinstance(cell, (bool, int, float)):
        found = [cell]
    elif isinstance(cell, dict) and list(cell) == ["choices"]:
        found = cell["choices"]
    if not isinstance(found, (list, tuple)):
        raise ValueError(f"has {shown_cell(cell)} where a list of labels is needed. {ADVICE}")
    for item in found:
        is_nan = isinstance(item, float) and item != item
        if not isinstance(item, (str, bool, int, float)) or is_nan or not str(item).strip():
            raise ValueError(
                f"has {shown_cell(item)} among its labels in {shown_cell(cell)}. Labels are texts or numbers."
            )
    labels = list(dict.fromkeys(map(label_text, found)))
    if len(labels) < len(found) and {*labels} <= {"0", "1", "true", "false"}:
        found_marks = (
            "has a list with a mark for each label, such as [0, 1, 0], where the labels themselves are needed."
        )
        raise ValueError(f"{found_marks} Write the names of those that are marked.")
    return labels


def macro_f1(answers: np.ndarray, targets: np.ndarray) -> float:
    """The mean of the labels' F1; 0 for a label that is in no answer and in no target, as in scikit-learn."""
    return float(_f1((answers * targets).sum(0), (answers + targets).sum(0)).mean())


def micro_f1(answers: np.ndarray, targets: np.ndarray) -> float:
    """F1 over all (row, label) pairs together."""
    return float(_f1((answers * targets).sum(), (answers + targets).sum()))


def subset_accuracy(answers: np.ndarray, targets: np.ndarray) -> float:
    """The share of rows whose labels are all right."""
    return float((answers == targets).all(-1).mean())


def _f1(right: np.ndarray, named: np.ndarray) -> np.ndarray:
    """F1 from how often a label is rightly named, and how often in answers and targets together."""
    return np.asarray(2.0 * right / np.maximum(named, 1.0))


class Multilabel(Kind):
    """Any number of labels, each with a probability of its own and a threshold that it must reach.

    threshold: the probability that a label has to reach, or how to choose one for each label on validation: see
        `onepass.heads.thresholds.POSSIBLE`. Labels without a chosen one, in `task.fitted["thresholds"]`, have 0.5.
    separator: what stands between the labels of a cell; without it the first of | ; , that occurs there. A blank cell
        says nothing about the task; the list [] says that none of the labels fits.
    """

    rare_advice = "for rare labels use threshold: {best: f1}"
    blank_advice = "A blank cell says nothing about a row: write [] where none of the labels fits."
    thresholds_decide = True
    metrics = {"macro_f1": macro_f1, "micro_f1": micro_f1, "subset_accuracy": subset_accuracy}

    def __init__(
        self,
        *,
        threshold: float | Mapping[str, Any] = 0.5,
        separator: str | None = None,
        windows: int = 1,
        overlap: float = 0.25,
        pooling: str = "mean",
    ):
        self.read_windows(windows, overlap, pooling)
        self.threshold = read_threshold(threshold, labels_apart=True)
        if self.threshold is None:
            raise wrong_option("threshold", threshold, POSSIBLE)
        if separator is not None and (not isinstance(separator, str) or not separator):
            raise wrong_option("separator", separator, 'the text between two labels of a cell, for example "|"')
        self.separator = separator

    def labels_in(self, task: Task, row: Row) -> Iterable[str]:
        return () if self.blank(task, row) else labels_of(row[task.label], self.separator)

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> np.ndarray:
        """1 for each of `labels` that the row has, else 0."""
        found = labels_of(row[task.label], self.separator)
        if strange := [label for label in found if label not in labels]:
            noun = "label" if len(strange) == 1 else "labels"
            raise ValueError(f"has {noun} {', '.join(map(repr, strange))}. Labels: {first_of(labels)}.")
        target = np.zeros(len(labels), np.float32)
        target[[labels.index(label) for label in found]] = 1.0
        return target

    def named_faults(self, task: Task) -> list[str]:
        named = self.threshold.label if isinstance(self.threshold, Rule) else None
        if named is None or named in task.labels:
            return []
        return [f"threshold: {unknown('label', named, task.labels)}"]

    def faults(self, task: Task, targets: np.ndarray) -> list[str]:
        rows = f"of its {len(targets):,} training rows"
        if not targets.any():
            return [f"Task {task.name!r} needs at least one label to learn from; none {rows} has one."]
        if (targets == targets[0]).all():
            only = ", ".join(repr(task.labels[place]) for place in np.flatnonzero(targets[0]))
            return [f"Task {task.name!r} needs rows that differ to learn from; each {rows} has {only}."]
        return []

    def fit(self, task: Task, targets: np.ndarray) -> dict[str, Any]:
        """How often each label is given, a little towards one half so that none is 0 or 1."""
        rates = (targets.sum(0) + 1.0) / (len(targets) + 2.0)
        return {"rates": dict(zip(task.labels, map(float, rates), strict=True))}

    def start_bias(self, task: Task) -> tuple[float, ...] | None:
        """Each label begins at its rate: else the first steps, at one half, would be spent on learning the rates."""
        rates = task.fitted.get("rates")
        if rates is None:
            return None
        return tuple(math.log(rate / (1.0 - rate)) for rate in (rates.get(label, 0.5) for label in task.labels))

    def outputs(self, task: Task) -> int:
        return len(task.labels)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return _cross_entropy(logits.float(), targets)

    def entropy(self, logits: Tensor) -> Tensor:
        logits = logits.float()
        return _cross_entropy(logits, logits.sigmoid()) / (math.log(2) * logits.shape[-1])

    def divergence(self, logits: Tensor, others: Tensor) -> Tensor:
        """The sum over labels, as in the loss."""
        others = others.float()
        wanted = others.sigmoid()
        return _cross_entropy(logits.float(), wanted) - _cross_entropy(others, wanted)

    def probabilities(self, task: Task, logits: np.ndarray) -> np.ndarray:
        """Calibrated; a temperature moves no probability across one half."""
        return np.asarray(np.exp(scaling.log_sigmoid(logits / scaling.temperatures(task, logits.dtype))))

    def thresholds(self, task: Task) -> np.ndarray:
        """What the probability of each label has to reach, (C,)."""
        return limits(task, self.threshold if isinstance(self.threshold, float) else HALF)

    def decode(self, task: Task, logits: np.ndarray, readings: Sequence[Reading] | None = None) -> list[Prediction]:
        """The labels that reach their thresholds, in the task's order.

        The score is the smallest probability among them; where there are none, the probability that not even the
        likeliest label fits.
        """
        probabilities, thresholds = self.probabilities(task, logits), self.thresholds(task)
        chosen_ones = self.shown_thresholds(task) if "thresholds" in task.fitted else None
        reason = None
        if not np.isfinite(thresholds).any():
            reason = f"no label is ever given: {self.threshold} is not reached on validation by any threshold"
        predictions = []
        for row, reached in zip(probabilities, probabilities >= thresholds, strict=True):
            score = row[reached].min() if reached.any() else 1.0 - row.max()
            labels = [label for label, is_reached in zip(task.labels, reached, strict=True) if is_reached]
            scores = dict(zip(task.labels, map(float, row), strict=True))
            predictions.append(Prediction(None if reason else labels, float(score), scores, chosen_ones, reason))
        return predictions

    def cells(self, task: Task) -> dict[str, Any]:
        return {"label": list(task.labels[:1]), "score": 1.0}

    def answers(self, task: Task, logits: np.ndarray) -> np.ndarray:
        return (self.probabilities(task, logits) >= self.thresholds(task)).astype(np.float32)

    def commonest(self, task: Task, targets: np.ndarray) -> np.ndarray:
        """The label that is right most often, and others that are right for half of the rows."""
        often = targets.mean(0)
        return np.asarray(often >= min(0.5, often.max()), np.float32)

    # --- trust --------------------------------------------------------------------------------------------------

    def calibrate(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, Any]:
        rows, labels = map(np.ravel, np.indices(logits.shape))
        signed = np.ravel(np.where(targets > 0, logits, -logits))  # -log sigmoid of it is the loss

        def losses(items: np.ndarray, temperatures: np.ndarray) -> np.ndarray:
            return -scaling.log_sigmoid(signed[items] / temperatures)

        return scaling.fit(losses, rows, labels, task.labels)

    def reliability(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        """Over all (row, label) pairs."""
        p = self.probabilities(task, logits)
        scaled = logits / scaling.temperatures(task, logits.dtype)
        return {
            "ece": 100.0 * scaling.calibration_error(p.ravel(), targets.ravel()),
            "brier": float(((p - targets) ** 2).mean()),
            "nll": float(-scaling.log_sigmoid(np.where(targets > 0, scaled, -scaled)).mean()),
        }

    def choose_thresholds(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
        rule = self.threshold
        if not isinstance(rule, Rule):
            return {}
        p = self.probabilities(task, logits)
        return chosen(
            rule,
            {
                label: choose(rule, p[:, place], targets[:, place] > 0, int(targets[:, place].sum()))
                for place, label in enumerate(task.labels)
                if rule.label in (None, label)
            },
        )

    def shown_thresholds(self, task: Task) -> dict[str, float | None]:
        return shown(task.labels, self.thresholds(task))

    def mentions(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, tuple[int, int]]:
        answers = self.answers(task, logits)
        counts = zip(answers.sum(0), (answers * targets).sum(0), strict=True)
        return {label: (int(given), int(right)) for label, (given, right) in zip(task.labels, counts, strict=True)}

    def given(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, float]:
        """The `recall` and the `precision` of the labels given, over all rows."""
        if "thresholds" not in task.fitted:
            return {}
        count, right = map(sum, zip(*self.mentions(task, logits, targets).values(), strict=True))
        found = {"recall": 100.0 * right / max(1.0, float(targets.sum()))}
        return found | ({"precision": 100.0 * right / count} if count else {})


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """The sum over labels of the binary cross-entropy, (R,); targets are probabilities."""
    zero = logits.new_zeros(())
    # -log sigmoid(x) is log(1 + exp(-x)), without a logarithm of a rounded 0.
    return (targets * (-logits).logaddexp(zero) + (1 - targets) * logits.logaddexp(zero)).sum(-1)
