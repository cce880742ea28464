"""What a step makes smaller: the losses of the labels, and of what else the options ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch, on_device
from onepass.methods import States
from onepass.model import Model
from onepass.readout import Answers
from onepass.training.distillation import Lesson, Teaching, teachable
from onepass.training.options import TrainOptions
from onepass.where import PLAIN, Where


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
        self.nothing = nn.Parameter(torch.zeros((), device=model.device))
        """Gives losses a gradient where nothing learns, as of finished tasks on a fixed encoder: of several processes
        each takes part in every step"""

    def forward(
        self,
        batch: Batch,
        asked: Tensor,
        targets: Sequence[Any],
        lesson: Lesson | None = None,
        kept: Tensor | None = None,
        where: Where = PLAIN,
    ) -> Tensor:
        """The losses (R,); `targets` holds one target a row, as the kind scaled them. Most rows are one text each.

        `kept` is what the method's cache has of the texts, if they were read before.
        """
        answers = self.answers(batch, asked, kept, where)
        losses = self.losses(answers, asked, targets, lesson, where)
        # Kinds that could not learn from a teacher learn nothing from a second pass either.
        if self.options.rdrop and any(teachable(group.kind) for group in answers):
            again = self.answers(batch, asked, kept, where)  # with other units dropped out
            losses = (losses + self.losses(again, asked, targets, lesson, where)) / 2
            losses = losses + self.options.rdrop * self.apart(answers, again, asked, where)
        return losses + 0.0 * self.nothing

    def losses(
        self,
        answers: Sequence[Answers],
        asked: Tensor,
        targets: Sequence[Any],
        lesson: Lesson | None,
        where: Where = PLAIN,
    ) -> Tensor:
        """What the labels and the teachers say about one pass, (R,)."""
        losses = self.model.losses_of(own_answers(answers, asked.shape[1]), targets, self.scale, where)
        if lesson is not None:
            share = on_device(lesson.weights[:, 0], losses.device)
            losses = (1.0 - share) * losses + self.taught(answers, lesson, where)
        return losses

    def scale(self, classes: int) -> float:
        """The factor of the losses of tasks with so many classes."""
        if self.options.loss_scale == "log_classes":
            return 1.0 / math.log(classes) if classes > 1 else 1.0
        return self.model.method.loss_scale(classes)

    def apart(
        self,
        answers: Sequence[Answers],
        again: Sequence[Answers],
        asked: Tensor,
        where: Where = PLAIN,
    ) -> Tensor:
        """How far two passes are from each other in their answers to the rows' own tasks, (R,); arXiv:2106.14448."""
        num_rows = asked.shape[0] if where.rows is None else int(where.rows[-1]) + 1
        total = answers[0].logits.new_zeros(num_rows, dtype=torch.float)
        for one, two in zip(own_answers(answers, asked.shape[1]), own_answers(again, asked.shape[1]), strict=True):
            if teachable(one.kind):
                far = one.kind.divergence(one.logits, two.logits) + one.kind.divergence(two.logits, one.logits)
                rows = on_device(where.row_of(one.asks), far.device)
                total = total.index_add(0, rows, far / 2 * self.scale(one.kind.classes(one.logits.shape[-1])))
        return total

    def answers(self, batch: Batch, asked: Tensor, kept: Tensor | None, where: Where = PLAIN) -> list[Answers]:
        if kept is None:
            return list(self.model(batch, asked, self.method, where))
        states = self.model.method.from_cache(kept, batch.layout, asked)
        return list(self.model(batch, asked, lambda *_: states, where))

    def taught(self, answers: Sequence[Answers], lesson: Lesson, where: Where = PLAIN) -> Tensor:
        """How far the answers are from the teachers', summed over each row's asks by their weights, (R,)."""
        assert self.teaching is not None
        temperature, (num_texts, num_asked) = self.teaching.options.temperature, lesson.asked.shape
        tasks, weights = lesson.asked.numpy().reshape(-1), lesson.weights.reshape(-1)
        total = answers[0].logits.new_zeros(num_texts, dtype=torch.float)
        for group in answers:
            # Numbered as the asks of the rows: rows that have teachers are of one text each.
            of_row = where.row_of(group.asks // num_asked) * num_asked + group.asks % num_asked
            places = np.flatnonzero(weights[of_row])
            if not len(places):
                continue
            asks, logits = of_row[places], group.logits
            device = logits.device
            if len(places) < len(group.asks):
                logits = logits[on_device(places, device)]
            rows = on_device(asks // num_asked, device)
            wanted = on_device(self.teaching.answers(tasks[asks], lesson.texts[asks // num_asked]), device)
            # Dividing logits by a temperature divides their gradient by its square.
            far = group.kind.divergence(logits / temperature, wanted / temperature) * temperature**2
            far = far * self.scale(group.kind.classes(logits.shape[-1]))
            total = total.index_add(0, rows, far * on_device(weights[asks], device))
        return total


def own_answers(answers: Sequence[Answers], num_asked: int) -> list[Answers]:
    """Of answers to K asks a text those to the first, numbered by text."""
    if num_asked == 1:
        return list(answers)
    chosen = []
    for group in answers:
        places = np.flatnonzero(group.asks % num_asked == 0)
        if len(places):
            points = np.flatnonzero(np.repeat(group.asks % num_asked == 0, group.counts))
            logits = group.logits[on_device(points, group.logits.device)]
            asks, counts = group.asks[places] // num_asked, group.counts[places]
            chosen.append(replace(group, asks=asks, logits=logits, counts=counts))
    return chosen
