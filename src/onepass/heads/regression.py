"""A number for a text or a pair of texts: STS-B."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onepass.data.items import Reading
from onepass.heads.base import Kind, Row
from onepass.heads.cells import shown
from onepass.heads.options import wrong_option
from onepass.prediction import Prediction
from onepass.tasks import Task

if TYPE_CHECKING:
    from torch import Tensor

COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
LARGEST = 1e30  # float32, in which answers are computed, ends at 3e38


def correlation(answers: np.ndarray, targets: np.ndarray, statistic: str) -> float:
    """Zero where one side does not vary: nothing was ordered, and NaN would poison every average."""
    from scipy import stats

    if len(answers) < 2 or np.ptp(answers) == 0 or np.ptp(targets) == 0:
        return 0.0
    return float(getattr(stats, statistic)(answers, targets).statistic)


def spearman(answers: np.ndarray, targets: np.ndarray) -> float:
    return correlation(answers, targets, "spearmanr")


def pearson(answers: np.ndarray, targets: np.ndarray) -> float:
    return correlation(answers, targets, "pearsonr")


def r2(answers: np.ndarray, targets: np.ndarray) -> float:
    """The share of the targets' variance that is explained; 0 is what the mean of the targets reaches."""
    spread = float(((targets - targets.mean()) ** 2).sum())
    return 1.0 - float(((answers - targets) ** 2).sum()) / spread if spread else 0.0


class Regression(Kind):
    """A number; squared error on standardised targets.

    `standardise=False` learns the numbers as they are, as the papers do for STS-B. A range of thousands would then
    drown every other task's loss.
    """

    metrics = {"spearman": spearman, "pearson": pearson, "r2": r2}

    def __init__(self, *, standardise: bool = True, windows: int = 1, overlap: float = 0.25, pooling: str = "mean"):
        self.read_windows(windows, overlap, pooling)
        if type(standardise) is not bool:
            raise wrong_option("standardise", standardise, "true or false")
        self.standardise = standardise

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> float:
        value = row[task.label]
        try:
            number = float(value)
        except (TypeError, ValueError):
            advice = " Write numbers with a point: 1.5." if COMMA.fullmatch(str(value)) else ""
            raise ValueError(f"has {shown(value)} where a number is needed.{advice}") from None
        except OverflowError:  # a whole number of hundreds of digits
            number = math.inf
        if not np.isfinite(number):
            raise ValueError(f"has {shown(value)} where a finite number is needed.")
        if abs(number) > LARGEST:
            raise ValueError(f"has {value!r}, which is too large: give its logarithm. Possible: up to {LARGEST:g}.")
        return number

    def faults(self, task: Task, targets: np.ndarray) -> list[str]:
        if len(targets) and np.ptp(targets) > 0:
            return []
        found = f"all {targets[0]:g}" if len(targets) else "missing"
        return [f"Task {task.name!r} needs different numbers to learn from; those of its training rows are {found}."]

    def fit(self, task: Task, targets: np.ndarray) -> dict[str, Any]:
        if not self.standardise:
            return {"mean": 0.0, "spread": 1.0}
        return {"mean": float(targets.mean()), "spread": float(targets.std()) or 1.0}

    def outputs(self, task: Task) -> int:
        return 1

    def scale_targets(self, task: Task, targets: np.ndarray, readings: Sequence[Reading] | None = None) -> np.ndarray:
        return np.asarray((targets - task.fitted["mean"]) / task.fitted["spread"], dtype=np.float32)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (logits.float().squeeze(-1) - targets) ** 2

    def entropy(self, logits: Tensor) -> Tensor:
        # One output has no distribution to be unsure about; samplers that need one fall back on the task mean.
        return logits.new_zeros(len(logits))

    def divergence(self, logits: Tensor, others: Tensor) -> Tensor:
        return (logits.float() - others.float()).square().squeeze(-1)

    def translate(self, task: Task, other: Task, logits: np.ndarray) -> np.ndarray:
        """Both models standardise by the mean and spread of their own training rows."""
        return self.scale_targets(task, self.answers(other, logits))[:, None]

    def commonest(self, task: Task, targets: np.ndarray) -> np.ndarray:
        return np.asarray(targets.mean())

    def decode(self, task: Task, logits: np.ndarray, readings: Sequence[Reading] | None = None) -> list[Prediction]:
        return [Prediction(float(value)) for value in self.answers(task, logits)]

    def cells(self, task: Task) -> dict[str, Any]:
        return {"label": 1.0}

    def answers(self, task: Task, logits: np.ndarray) -> np.ndarray:
        return np.asarray(logits[:, 0] * task.fitted["spread"] + task.fitted["mean"])
