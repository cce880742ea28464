"""The stages of a training: those the method wants, and a warm-up before them if the options ask for one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from torch import nn

from onepass.encoder.encoder import Encoder
from onepass.methods import Method, Stage
from onepass.training.options import TrainOptions


def stages_of(method: Method, options: TrainOptions) -> list[Stage]:
    """What is trained, one after the other."""
    stages = []
    for stage in method.stages():
        if options.frozen_epochs and not stage.freeze_encoder and not stage.cached:
            name = f"{stage.name}, encoder fixed"
            stages.append(replace(stage, name=name, epochs=options.frozen_epochs, freeze_encoder=True, finish=None))
        stages.append(stage)
    return stages


def at_rate(options: TrainOptions, rate: float | None) -> TrainOptions:
    """The options with one rate for all that learns, if there is one.

    >>> at_rate(TrainOptions(), 1e-3).token_rate, at_rate(TrainOptions(), None).token_rate
    (0.001, 0.0003)
    """
    return options if rate is None else replace(options, encoder_rate=rate, token_rate=rate, head_rate=rate)


def fixed_parameters(method: Method, stage: Stage, options: TrainOptions) -> list[nn.Parameter]:
    """What would learn but is not to, in this stage."""
    fixed = list(stage.fixed)
    if stage.freeze_encoder:
        fixed += method.encoder_parameters()
    elif options.freeze == "embeddings":
        for encoder in (module for module in method.modules() if isinstance(module, Encoder)):
            fixed += encoder.embedding_parameters()
    return [parameter for parameter in fixed if parameter.requires_grad]


@contextmanager
def fixed(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Within the block these do not learn."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


class Finished:
    """Tasks that get no better: their own weights stop learning, and no longer learn by heart.

    Their rows stay in the batches, so that what all share goes on serving them.
    """

    def __init__(self, patience: int, tasks: Sequence[int], own: Callable[[int], list[nn.Parameter]]):
        self.patience, self.own = patience, own
        self.best = dict.fromkeys(tasks, float("-inf"))
        self.since = dict.fromkeys(tasks, 0)
        """Evaluations since each task's best"""
        self.ended: set[int] = set()
        """The finished tasks; a late rise makes none of them learn again"""
        self.fixed: list[nn.Parameter] = []

    def update(self, scores: Mapping[int, float]) -> list[int]:
        """Take in an evaluation's scores; the tasks that are finished since now."""
        for task, score in scores.items():
            self.since[task] = 0 if score > self.best[task] else self.since[task] + 1
            self.best[task] = max(score, self.best[task])
        ended = [t for t in scores if 0 < self.patience <= self.since[t] and t not in self.ended]
        self._fix(ended)
        return ended

    @property
    def everything(self) -> bool:
        return bool(self.patience) and all(since >= self.patience for since in self.since.values())

    def _fix(self, tasks: Sequence[int]) -> None:
        self.ended.update(tasks)
        # What a group of tasks shares goes on learning until the last of them is finished.
        shared = {id(parameter) for task in self.since if task not in self.ended for parameter in self.own(task)}
        found = [parameter for task in self.ended for parameter in self.own(task) if id(parameter) not in shared]
        for parameter in found:
            parameter.requires_grad_(False)
        self.fixed += found

    def release(self) -> None:
        """Let everything learn again, in the next stage."""
        for parameter in self.fixed:
            parameter.requires_grad_(True)

    def numbers(self) -> list[Any]:
        return [[task, self.best[task], self.since[task], task in self.ended] for task in self.best]

    def restore(self, numbers: Sequence[Any]) -> None:
        for task, best, since, _ in numbers:
            self.best[task], self.since[task] = best, since
        self._fix([task for task, _, _, ended in numbers if ended])
