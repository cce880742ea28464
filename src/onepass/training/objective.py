"""What a step makes smaller: the losses of the labels, and of what else the options ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.methods import States
from onepass.model import Answers, Model
from onepass.training.distillation import Lesson, Teaching, teachable
from onepass.training.options import TrainOptions


class Objective(nn.Module):
    """A model as a function from a batch to a loss for each of its texts; what is wrapped for several processes.

    B texts are asked K tasks each; the first is the text's own, which has a target.
    """

    def __init__(
        self,
        model: Model,
        forward: Callable[[Batch, Tensor], States] | None,
        options: TrainOptions,
        teaching: Teaching | None = None,
    ):
        super().__init__()
        self.model = model
        self.method = forward
        self.options = options
        self.teaching = teaching

    def forward(
        self,
        batch: Batch,
        asked: Tensor,
        targets: Sequence[Any],
        lesson: Lesson | None = None,
        kept: Tensor | None = None,
    ) -> Tensor:
        """The losses (B,); `targets` holds one target a text, as the kind scaled them.

        `kept` is what the method's cache has of the texts, if they were read before.
        """
        answers = self.answers(batch, asked, kept)
        losses = self.losses(answers, asked, targets, lesson)
        if self.options.rdrop:
            again = self.answers(batch, asked, kept)  # with other units dropped out
            losses = (losses + self.losses(again, asked, targets, lesson)) / 2
            losses = losses + self.options.rdrop * self.apart(answers, again, asked)
        return losses

    def losses(
        self, answers: Sequence[Answers], asked: Tensor, targets: Sequence[Any], lesson: Lesson | None
    ) -> Tensor:
        """What the labels and the teachers say about one pass, (B,)."""
        losses = self.model.losses_of(own_answers(answers, asked.shape[1]), targets, self.scale)
        if lesson is not None:
            share = torch.from_numpy(lesson.weights[:, 0]).to(losses.device, non_blocking=True)
            losses = (1.0 - share) * losses + self.taught(answers, lesson)
        return losses

    def scale(self, outputs: int) -> float:
        """The factor of the losses of tasks with so many outputs."""
        if self.options.loss_scale == "log_classes":
            return 1.0 / math.log(outputs) if outputs > 1 else 1.0
        return self.model.method.loss_scale(outputs)

    def apart(self, answers: Sequence[Answers], again: Sequence[Answers], asked: Tensor) -> Tensor:
        """How far two passes are from each other in their answers to the texts' own tasks, (B,); arXiv:2106.14448."""
        total = answers[0].logits.new_zeros(asked.shape[0], dtype=torch.float)
        for one, two in zip(own_answers(answers, asked.shape[1]), own_answers(again, asked.shape[1]), strict=True):
            if teachable(one.kind):
                far = one.kind.divergence(one.logits, two.logits) + one.kind.divergence(two.logits, one.logits)
                rows = torch.from_numpy(one.asks).to(far.device, non_blocking=True)
                total = total.index_add(0, rows, far / 2 * self.scale(one.logits.shape[-1]))
        return total

    def answers(self, batch: Batch, asked: Tensor, kept: Tensor | None) -> list[Answers]:
        if kept is None:
            return list(self.model(batch, asked, self.method))
        states = self.model.method.from_cache(kept, batch.layout, asked)
        return list(self.model(batch, asked, lambda *_: states))

    def taught(self, answers: Sequence[Answers], lesson: Lesson) -> Tensor:
        """How far the answers are from the teachers', summed over each text's asks by their weights, (B,)."""
        assert self.teaching is not None
        temperature, (num_texts, num_asked) = self.teaching.options.temperature, lesson.asked.shape
        tasks, weights = lesson.asked.numpy().reshape(-1), lesson.weights.reshape(-1)
        total = answers[0].logits.new_zeros(num_texts, dtype=torch.float)
        for group in answers:
            places = np.flatnonzero(weights[group.asks])
            if not len(places):
                continue
            asks, logits = group.asks[places], group.logits
            device = logits.device
            if len(places) < len(group.asks):
                logits = logits[torch.from_numpy(places).to(device, non_blocking=True)]
            rows = torch.from_numpy(asks // num_asked).to(device, non_blocking=True)
            wanted = torch.from_numpy(self.teaching.answers(tasks[asks], lesson.texts[asks // num_asked]))
            wanted = wanted.to(device, non_blocking=True)
            # Dividing logits by a temperature divides their gradient by its square.
            far = group.kind.divergence(logits / temperature, wanted / temperature) * temperature**2
            far = far * self.scale(logits.shape[-1])
            total = total.index_add(0, rows, far * torch.from_numpy(weights[asks]).to(device, non_blocking=True))
        return total


def own_answers(answers: Sequence[Answers], num_asked: int) -> list[Answers]:
    """Of answers to K asks a text those to the first, numbered by text."""
    if num_asked == 1:
        return list(answers)
    chosen = []
    for group in answers:
        places = np.flatnonzero(group.asks % num_asked == 0)
        if len(places):
            logits = group.logits[torch.from_numpy(places).to(group.logits.device, non_blocking=True)]
            chosen.append(replace(group, asks=group.asks[places] // num_asked, logits=logits))
    return chosen
