"""The best checkpoint of a training, over all tasks."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from onepass.tasks import Task
from onepass.training.options import Criterion, SelectOptions

Scores = Mapping[str, Mapping[str, Any]]
BELOW_ALL = 1000.0


def mean(scores: Scores, weights: Mapping[str, float]) -> float:
    return sum(result["score"] for result in scores.values()) / len(scores)


def worst(scores: Scores, weights: Mapping[str, float]) -> float:
    return float(min(result["score"] for result in scores.values()))


def weighted(scores: Scores, weights: Mapping[str, float]) -> float:
    return sum(weights[name] * result["score"] for name, result in scores.items()) / sum(
        weights[name] for name in scores
    )


CRITERIA: dict[str, Callable[[Scores, Mapping[str, float]], float]] = {
    "mean": mean,
    "worst": worst,
    "weighted": weighted,
}


def above_floor(
    criterion: Callable[[Scores, Mapping[str, float]], float], floor: float, baseline: Mapping[str, float]
) -> Callable[[Scores, Mapping[str, float]], float]:
    """A criterion among checkpoints where no task is more than `floor` under its baseline.

    One where some task is counts less than all of these, the less the further that task is under it.
    """

    def value(scores: Scores, weights: Mapping[str, float]) -> float:
        under = max(baseline[name] - result["score"] for name, result in scores.items())
        wanted = criterion(scores, weights)
        return wanted if under <= floor else wanted * 0.0 - BELOW_ALL - under  # not a number stays not a number

    return value


class Best:
    """Keeps a copy of the weights that learn, from the evaluation with the highest score so far."""

    def __init__(
        self, select: Criterion | SelectOptions, tasks: list[Task], baseline: Mapping[str, float] | None = None
    ):
        """`baseline` is what `baseline_of` found."""
        if isinstance(select, str):
            self.criterion = CRITERIA[select]
        else:
            self.criterion = above_floor(CRITERIA[select.by], select.floor, baseline or {})
        self.weights = {task.name: task.weight for task in tasks}
        self.score = float("-inf")
        self.epoch = 0.0
        self.since = 0
        """Evaluations since the best one"""
        self.kept: dict[str, Tensor] = {}

    @torch.no_grad()
    def offer(self, scores: Scores, model: nn.Module, epoch: float) -> bool:
        """Keep the model if it scores better than all before; True if so. A model that broke is never kept."""
        score = self.criterion(scores, self.weights)
        if not score > self.score or not all(p.isfinite().all() for p in model.parameters() if p.requires_grad):
            self.since += 1
            return False
        self.score, self.epoch, self.since = score, epoch, 0
        for name, parameter in model.named_parameters():
            if name in self.kept:  # what stopped learning meanwhile is kept as it is now, too
                self.kept[name].copy_(parameter)
            elif parameter.requires_grad:
                self.kept[name] = parameter.detach().clone()
        return True

    @torch.no_grad()
    def restore(self, model: nn.Module) -> None:
        """Put the kept weights back."""
        for name, parameter in model.named_parameters():
            if name in self.kept:
                parameter.copy_(self.kept[name])
