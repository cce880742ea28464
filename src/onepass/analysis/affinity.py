"""Task affinity: what training one task does to another.

Two measures. `affinity` looks one step ahead on a model as it stands (Fifty et al. 2021, arXiv:2109.04617): by which
share the loss of task B falls after a step on task A alone. `left_out` compares trainings: what B scores with A among
the tasks and without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn

from onepass.encoder.encoder import evaluating
from onepass.errors import ConfigError
from onepass.model import Model
from onepass.training.sets import TaskSet
from onepass.where import pack

SHARE, HALVINGS, BATCH_ROWS = 0.05, 20, 32


def affinity(model: Model, sets: Sequence[TaskSet], *, batches: int = 4) -> dict[str, dict[str, float]]:
    """By task A, then task B: 1 - (B's loss after a step on A) / (B's loss before), the mean over batches.

    Above 0 a step on A helps B. The step is along A's gradient, and as long as would take five percent off A's own loss
    if that fell as steeply all the way; half as long, and again, until half of what the slope promises comes true. Of
    a trained model, whose losses are small and their valleys narrow, a step of fixed length would leap over them.
    Weights of A's own do not move, so that the effect on A itself is comparable. The model is left as it was.
    """
    shared = shared_parameters(model)
    if not shared:
        raise ConfigError(f"method {model.choice.name!r} shares no weights that learn, so no task can move another.")
    names = model.names
    sums = np.zeros((len(sets), len(sets)))
    generator = np.random.default_rng(0)
    with evaluating(model):
        for _ in range(batches):
            rows = [generator.integers(0, len(item.train), BATCH_ROWS).tolist() for item in sets]
            before = [_loss(model, sets, task, rows[task]).item() for task in range(len(sets))]
            for one in range(len(sets)):
                gradients = torch.autograd.grad(_loss(model, sets, one, rows[one]), shared, allow_unused=True)
                fall = SHARE * before[one]
                for _ in range(HALVINGS):
                    with torch.no_grad(), _moved(shared, gradients, fall):
                        after = [_loss(model, sets, one, rows[one]).item()]
                        if after[0] <= before[one] - fall / 2:
                            after = [_loss(model, sets, task, rows[task]).item() for task in range(len(sets))]
                            break
                    fall /= 2
                else:
                    after = before  # no step helps: its loss is as low as it gets
                sums[one] += 1 - np.array(after) / np.array(before)
    return {one: dict(zip(names, (row / batches).tolist(), strict=True)) for one, row in zip(names, sums, strict=True)}


def shared_parameters(model: Model) -> list[nn.Parameter]:
    """What learns and is no task's own; nothing of an encoder that is frozen in every stage of the method's training.

    Of a training in several stages the last one counts.
    """
    stage = model.method.stages()[-1]
    own = {id(p) for part in (model.method.tasks, model.heads) for p in part.parameters()}
    frozen = {id(p) for p in stage.fixed} | (
        {id(p) for p in model.method.encoder_parameters()} if stage.freeze_encoder else set()
    )
    return [p for p in model.parameters() if p.requires_grad and id(p) not in own | frozen]


def left_out(together: Mapping[str, float], without: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """By task A, then task B: B's score with all tasks less its score in a training without A.

    >>> left_out({"a": 80.0, "b": 90.0}, {"a": {"b": 89.0}})
    {'a': {'b': 1.0}}
    """
    return {one: {other: together[other] - score for other, score in scores.items()} for one, scores in without.items()}


def _loss(model: Model, sets: Sequence[TaskSet], task: int, rows: Sequence[int]) -> torch.Tensor:
    item = sets[task]
    batch, asked, where = pack([(task, item.train, row) for row in rows])
    chosen = item.train.take(np.asarray(rows))
    targets = model.kinds[task].scale_targets(item.task, chosen.targets, chosen.readings)
    return model.losses(batch.to(model.device), asked, list(targets), None, where).mean()


class _moved:
    """Within the block weights are a step further; after it they are what they were."""

    def __init__(self, weights: Sequence[nn.Parameter], gradients: Sequence[torch.Tensor | None], fall: float):
        """`fall`: by how much the loss would fall along its slope."""
        self.pairs = [(w, g) for w, g in zip(weights, gradients, strict=True) if g is not None]
        slope = float(torch.stack([g.square().sum() for _, g in self.pairs]).sum()) if self.pairs else 0.0
        self.step = fall / slope if slope else 0.0
        self.kept = [w.detach().clone() for w, _ in self.pairs]

    def __enter__(self) -> None:
        for weight, gradient in self.pairs:
            weight.sub_(gradient, alpha=self.step)

    def __exit__(self, *_: object) -> None:
        for (weight, _gradient), kept in zip(self.pairs, self.kept, strict=True):
            weight.copy_(kept)
