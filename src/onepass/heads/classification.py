"""Exactly one label of a text or of a pair of texts: SST-2, MNLI, news topics."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from onepass.data.items import Item, Reading
from onepass.errors import first_of, unknown
from onepass.heads import scaling
from onepass.heads.base import Kind, Row, blank, label_cell
from onepass.heads.grouped import GROUPED, over_groups
from onepass.heads.metrics import accuracy, f1, macro_f1, matthews
from onepass.heads.options import checked_columns, wrong_option
from onepass.heads.thresholds import Rule, choose, chosen, limits, read_threshold, shown
from onepass.prediction import Prediction
from onepass.tasks import Task, label_text

if TYPE_CHECKING:
    from torch import Tensor


class Classification(Kind):
    """Exactly one label; cross-entropy.

    class_weights: factors of the loss of a row by its label, for labels of uneven size. `balanced` gives every label
        the same weight in all: rows / (labels * rows of the label). A mapping may leave labels out; they weigh 1.
    focal: the exponent gamma of the focal loss (arXiv:1708.02002, which uses 2): a row counts (1 - p) ** gamma, so that
        rows the model is sure about count little. 0 is the plain loss.
    label_smoothing: the share of the target that is spread evenly over all labels.
    threshold: a probability under which an answer is withheld, or how to choose one on validation: see
        `onepass.heads.thresholds.POSSIBLE`. With `label: NAME` only that label has one, and it is given from there on
        even where another is likelier.
    group_by: a column, or several, that rows of one question have in common, for the metrics f1a, f1m and group_match.
        A row where all of them are blank is a group of its own.
    windows, overlap: how many windows of a long text are read at most, and the share of one that the next reads again.
    pooling: what their logits become together: the `mean`, or the `max` of each label.
    """

    metrics = {"accuracy": accuracy, "macro_f1": macro_f1, "f1": f1, "matthews": matthews, "f1a": f1, **GROUPED}
    special_metrics = ("f1a", *GROUPED)
    rare_advice = "for rare labels use class_weights: balanced or another metric"

    def __init__(
        self,
        *,
        class_weights: str | Mapping[str, float] = "none",
        focal: float = 0.0,
        label_smoothing: float = 0.0,
        threshold: float | Mapping[str, Any] | None = None,
        group_by: str | Sequence[str] = (),
        windows: int = 1,
        overlap: float = 0.25,
        pooling: str = "mean",
    ):
        self.read_windows(windows, overlap, pooling)
        self.group_by = checked_columns("group_by", group_by)
        if isinstance(class_weights, Mapping):
            class_weights = {label_text(label): weight for label, weight in class_weights.items()}
            for label, weight in class_weights.items():
                if type(weight) not in (int, float) or not 0 < weight < math.inf:
                    raise wrong_option(f"class_weights.{label}", weight, "a number above 0")
        elif class_weights not in ("none", "balanced"):
            raise wrong_option("class_weights", class_weights, "none, balanced, {LABEL: WEIGHT, ...}")
        if type(focal) not in (int, float) or not 0 <= focal < math.inf:
            raise wrong_option("focal", focal, "a number from 0")
        if type(label_smoothing) not in (int, float) or not 0 <= label_smoothing < 1:
            raise wrong_option("label_smoothing", label_smoothing, "a number from 0 to below 1")
        self.threshold = read_threshold(threshold)
        self.class_weights = class_weights
        self.weighted = class_weights != "none"
        self.focal = focal
        self.label_smoothing = label_smoothing

    def unfit(self, task: Task) -> str:
        if task.metric not in GROUPED or self.group_by:
            return ""
        return f"the metric {task.metric!r} is over groups of rows. Needed: group_by, the column that names them."

    def columns(self, task: Task) -> list[str]:
        return list(dict.fromkeys([*super().columns(task), *self.group_by]))

    def item(self, task: Task, row: Row) -> Item | None:
        item = super().item(task, row)
        if item is None or not self.group_by or not all(column in row for column in self.group_by):
            return item  # a text to be answered needs no group
        cells = ["" if blank(row[column]) else str(row[column]) for column in self.group_by]
        return replace(item, group=str(cells) if any(cells) else "")  # as a list: "1 2", "3" is not "1", "2 3"

    def labels_in(self, task: Task, row: Row) -> Iterable[str]:
        return () if self.blank(task, row) else (label_cell(row[task.label]),)

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> int:
        label = label_cell(row[task.label])
        try:
            return labels.index(label)
        except ValueError:
            raise ValueError(f"has label {label!r}. Labels: {first_of(labels)}.") from None

    def named_faults(self, task: Task) -> list[str]:
        named = self.class_weights if isinstance(self.class_weights, Mapping) else {}
        faults = [
            f"class_weights: {unknown('label', label, task.labels)}" for label in named if label not in task.labels
        ]
        if self.named is not None and self.named not in task.labels:
            faults.append(f"threshold: {unknown('label', self.named, task.labels)}")
        return faults

    def faults(self, task: Task, targets: np.ndarray) -> list[str]:
        seen = np.unique(targets)
        if len(seen) > 1:
            return []
        only = f"only {task.labels[int(seen[0])]!r}" if len(seen) else "none"
        return [f"Task {task.name!r} needs at least two labels to learn from; its training rows have {only}."]

    def fit(self, task: Task, targets: np.ndarray) -> dict[str, Any]:
        if isinstance(self.class_weights, Mapping):
            return {"class_weights": {label: float(weight) for label, weight in self.class_weights.items()}}
        if not self.weighted:
            return {}
        # Labels without rows are not counted, so that the weights of the rows are 1 on average.
        seen, counts = np.unique(targets, return_counts=True)
        weights = len(targets) / (len(seen) * counts)
        return {"class_weights": {task.labels[i]: float(w) for i, w in zip(seen, weights, strict=True)}}

    def outputs(self, task: Task) -> int:
        return len(task.labels)

    def loss_key(self) -> tuple[Any, ...]:
        return (*super().loss_key(), self.weighted, self.focal, self.label_smoothing)

    def scale_targets(self, task: Task, targets: np.ndarray, readings: Sequence[Reading] | None = None) -> np.ndarray:
        """With class weights (R, 2), label and weight, so that tasks of different weights share a call of `loss`."""
        if not self.weighted:
            return targets
        weights = np.array([task.fitted["class_weights"].get(label, 1.0) for label in task.labels])
        return np.stack([targets, weights[targets]], axis=-1).astype(np.float32)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        from torch.nn.functional import nll_loss  # here: heads are read without torch

        log_p = logits.float().log_softmax(-1)
        plain = loss = nll_loss(log_p, targets[:, 0].long() if self.weighted else targets, reduction="none")
        if self.label_smoothing:
            loss = (1.0 - self.label_smoothing) * loss - self.label_smoothing * log_p.mean(-1)
        if self.focal:
            # 1 - p as -expm1(log p), which is exact near 0; at 0 itself, a gamma below 1 has an infinite gradient.
            loss = loss * (-(-plain).expm1()).clamp(min=1e-7) ** self.focal
        return loss * targets[:, 1] if self.weighted else loss

    def entropy(self, logits: Tensor) -> Tensor:
        log_p = logits.float().log_softmax(-1)
        return -(log_p.exp() * log_p).sum(-1) / math.log(logits.shape[-1])

    def divergence(self, logits: Tensor, others: Tensor) -> Tensor:
        log_p, log_q = logits.float().log_softmax(-1), others.float().log_softmax(-1)
        return (log_q.exp() * (log_q - log_p)).sum(-1)

    @property
    def named(self) -> str | None:
        """The one label that is to have a threshold."""
        return self.threshold.label if isinstance(self.threshold, Rule) else None

    def moved(self, task: Task) -> int | None:
        """The label that is given from its threshold on, even where another is likelier; none if none was found."""
        has_one = self.named in task.labels and self.named in task.fitted.get("thresholds", {})
        return task.labels.index(self.named) if has_one else None

    def log_probabilities(self, task: Task, logits: np.ndarray) -> np.ndarray:
        """Calibrated; the temperature of a row is that of its likeliest label, so that label stays the likeliest."""
        return scaling.log_softmax(logits / scaling.temperatures(task, logits.dtype)[logits.argmax(-1), None])

    def probabilities(self, task: Task, logits: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(self.log_probabilities(task, logits)))

    def limits(self, task: Task) -> np.ndarray | None:
        """What the probability of each label has to reach to be given, (C,); None if there are no thresholds."""
        if self.threshold is None or (isinstance(self.threshold, Rule) and "thresholds" not in task.fitted):
            return None
        return limits(task, self.threshold if isinstance(self.threshold, float) else 0.0)

    def decode(self, task: Task, logits: np.ndarray, readings: Sequence[Reading] | None = None) -> list[Prediction]:
        probabilities, limits = self.probabilities(task, logits), self.limits(task)
        limits_shown = self.shown_thresholds(task)
        best = logits.argmax(-1)
        if limits is not None and (moved := self.moved(task)) is not None:
            best = np.where(probabilities[:, moved] >= limits[moved], moved, best)
        predictions = []
        for i, row in zip(best, probabilities, strict=True):
            label, score = task.labels[i], float(row[i])
            scores = dict(zip(task.labels, map(float, row), strict=True))
            if limits is None:
                predictions.append(Prediction(label, score, scores))
                continue
            limit, reason = limits_shown[label], None
            if limit is None:
                reason = f"{label} is never given: {self.threshold} is not reached on validation by any threshold"
            elif score < limit:
                reason = f"{label} is the likeliest with {score:.3f}, under its threshold of {limit:.3f}"
            given = label if reason is None else None
            predictions.append(Prediction(given, score, scores, threshold=limit, reason=reason))
        return predictions

    def decodes_with(self, task: Task) -> Hashable | None:
        return (type(self), len(task.labels)) if self.threshold is None else None

    def decode_together(self, tasks: Sequence[Task], logits: np.ndarray) -> list[list[Prediction]]:
        """The same as `decode` without thresholds, as one computation: of 1,000 tasks each call would count."""
        best = logits.argmax(-1)  # (N, R)
        if any("calibration" in task.fitted for task in tasks):
            by_label = np.stack([scaling.temperatures(task, logits.dtype) for task in tasks])  # (N, C)
            logits = logits / np.take_along_axis(by_label, best, 1)[..., None]
        probabilities = np.exp(scaling.log_softmax(logits)).tolist()
        return [
            [
                Prediction(task.labels[i], row[i], dict(zip(task.labels, row, strict=True)))
                for i, row in zip(*own, strict=True)
            ]
            for task, *own in zip(tasks, best.tolist(), probabilities, strict=True)
        ]

    def answers(self, task: Task, logits: np.ndarray) -> np.ndarray:
        """The labels as if none were withheld, so that scores compare with those of other models."""
        limits, best = self.limits(task), logits.argmax(-1)
        moved = self.moved(task)
        if limits is None or moved is None:
            return np.asarray(best)
        others = np.where(np.arange(logits.shape[-1]) == moved, -math.inf, logits).argmax(-1)
        return np.where(self.probabilities(task, logits)[:, moved] >= limits[moved], moved, others)

    def commonest(self, task: Task, targets: np.ndarray) -> np.ndarray:
        return np.asarray(np.bincount(targets).argmax())

    def baseline(
        self, task: Task, known: np.ndarray, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> float | None:
        if task.metric not in GROUPED:
            return super().baseline(task, known, targets)
        if readings is None:
            return None
        answers = np.full_like(targets, self.commonest(task, known))
        groups = [reading.group for reading in readings]
        return 100.0 * over_groups(GROUPED[task.metric], answers, targets, groups)

    # --- trust --------------------------------------------------------------------------------------------------

    def calibrate(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, Any]:
        return scaling.fit_labels(logits, targets, np.arange(len(logits)), task.labels)

    def reliability(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        return scaling.label_reliability(self.log_probabilities(task, logits), targets)

    def choose_thresholds(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
        rule = self.threshold
        if not isinstance(rule, Rule):
            return {}
        p, best = self.probabilities(task, logits), logits.argmax(-1)
        if rule.label is not None:
            place = task.labels.index(rule.label)
            right = targets == place
            return chosen(rule, {rule.label: choose(rule, p[:, place], right, int(right.sum()))})
        top, right = p[np.arange(len(p)), best], best == targets
        if rule.per == "task":
            return chosen(rule, {"": choose(rule, top, right, len(targets))}, task.labels)
        choices = {}
        for place, label in enumerate(task.labels):
            own = best == place
            choices[label] = choose(rule, top[own], right[own], int((targets == place).sum()))
        return chosen(rule, choices)

    def shown_thresholds(self, task: Task) -> dict[str, float | None]:
        found = self.limits(task)
        return {} if found is None else shown(task.labels, found)

    def mentions(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, tuple[int, int]]:
        given, right = dict.fromkeys(task.labels, 0), dict.fromkeys(task.labels, 0)
        for answer, target in zip(self.decode(task, logits), targets, strict=True):
            if answer.label is not None:
                given[answer.label] += 1
                right[answer.label] += answer.label == task.labels[target]
        return {label: (given[label], right[label]) for label in task.labels}

    def given(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, float]:
        if self.limits(task) is None:
            return {}
        count, right = map(sum, zip(*self.mentions(task, logits, targets).values(), strict=True))
        return {"given": 100.0 * count / len(logits)} | ({"precision": 100.0 * right / count} if count else {})

    def score(
        self, task: Task, logits: np.ndarray, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        answers, scores = self.answers(task, logits), {}
        for name in self.metric_names(task):
            if name in GROUPED and readings is not None:
                groups = [reading.group for reading in readings]
                scores[name] = 100.0 * over_groups(GROUPED[name], answers, targets, groups)
            elif name not in GROUPED:
                scores[name] = 100.0 * self.metrics[name](answers, targets)
        return scores

    def metric_names(self, task: Task) -> list[str]:
        names = super().metric_names(task)
        return [name for name in names if self.group_by or name == task.metric or name not in self.special_metrics]
