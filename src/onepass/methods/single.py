"""A whole fine-tuned model per task: what users have today, and what one pass is measured against."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder
from onepass.methods.asked import Asked
from onepass.methods.base import READOUTS, Method, Pooler, Stage, States


class OwnModel(nn.Module):
    """One task's encoder and pooler."""

    def __init__(self, encoder: Encoder):
        super().__init__()
        self.encoder = copy.deepcopy(encoder)
        self.pooler = Pooler(encoder.width)


class Single(Method):
    """Each task reads the text with an encoder of its own, trained on its own data, with its own best checkpoint."""

    one_pass = False
    cannot_choose = "every task is trained by itself, so there are no rows of others to choose from"

    def __init__(self, encoder: Encoder, *, readout: Literal["cls", "mean"] = "cls"):
        super().__init__(encoder)
        self.readout = READOUTS[readout]
        encoder.requires_grad_(False)  # only the tasks' copies learn

    def new_task(self) -> nn.Module:
        own = OwnModel(self.encoder)
        own.requires_grad_(True)
        return own

    def forward(self, batch: Batch, asked: Tensor) -> States:
        order = Asked(asked)
        per_task = []
        for task, asks in zip(order.tasks, order.asks, strict=True):
            texts = batch.select((asks // asked.shape[1]).tolist())
            own: OwnModel = self.tasks[task]
            per_task.append(own.pooler(self.readout(own.encoder(texts), texts)))
        vectors = torch.cat(per_task)  # asks, task by task
        back = torch.empty(asked.numel(), dtype=torch.long)
        back[torch.cat([torch.from_numpy(asks) for asks in order.asks])] = torch.arange(asked.numel())
        return States(vectors[back.to(vectors.device)].unflatten(0, order.shape))

    def stages(self) -> list[Stage]:
        return [Stage(f"task {i + 1} of {len(self.tasks)}", tasks=[i]) for i in range(len(self.tasks))]
