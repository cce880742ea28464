"""Exactly one label of a text or of a pair of texts: SST-2, MNLI, news topics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onepass.heads.base import Kind, Row
from onepass.prediction import Prediction
from onepass.tasks import Task

if TYPE_CHECKING:
    from torch import Tensor


def label_text(value: Any) -> str:
    """A cell as a label: 1, 1.0 and "1" are the same label, True is "true".

    >>> [label_text(v) for v in (1, 1.0, " yes ", True)]
    ['1', '1', 'yes', 'true']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def accuracy(answers: np.ndarray, targets: np.ndarray) -> float:
    return float((answers == targets).mean())


def macro_f1(answers: np.ndarray, targets: np.ndarray) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(targets, answers, average="macro", zero_division=0.0))


def f1(answers: np.ndarray, targets: np.ndarray) -> float:
    """F1 of the second label, the positive one of a two-label task ("0", "1"; "no", "yes")."""
    from sklearn.metrics import f1_score

    return float(f1_score(targets, answers, labels=[1], average="macro", zero_division=0.0))


def matthews(answers: np.ndarray, targets: np.ndarray) -> float:
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(targets, answers))


class Classification(Kind):
    """Exactly one label."""

    metrics = {"accuracy": accuracy, "macro_f1": macro_f1, "f1": f1, "matthews": matthews}

    def labels_in(self, task: Task, row: Row) -> Iterable[str]:
        return () if self.blank(task, row) else (label_text(row[task.label]),)

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> int:
        label = label_text(row[task.label])
        try:
            return labels.index(label)
        except ValueError:
            raise ValueError(f"has label {label!r}. Labels: {', '.join(labels)}.") from None

    def faults(self, task: Task, targets: np.ndarray) -> list[str]:
        seen = np.unique(targets)
        if len(seen) > 1:
            return []
        only = f"only {task.labels[int(seen[0])]!r}" if len(seen) else "none"
        return [f"Task {task.name!r} needs at least two labels to learn from; its training rows have {only}."]

    def outputs(self, task: Task) -> int:
        return len(task.labels)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return -logits.float().log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        log_p = logits.float().log_softmax(-1)
        return -(log_p.exp() * log_p).sum(-1) / math.log(logits.shape[-1])

    def probabilities(self, task: Task, logits: np.ndarray) -> np.ndarray:
        exp = np.exp(logits - logits.max(-1, keepdims=True))
        return np.asarray(exp / exp.sum(-1, keepdims=True))

    def decode(self, task: Task, logits: np.ndarray) -> list[Prediction]:
        probabilities = self.probabilities(task, logits)
        best = probabilities.argmax(-1)
        return [
            Prediction(task.labels[i], float(row[i]), dict(zip(task.labels, map(float, row), strict=True)))
            for i, row in zip(best, probabilities, strict=True)
        ]

    def answers(self, task: Task, logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits.argmax(-1))
