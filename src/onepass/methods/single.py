"""A whole fine-tuned model per task: what users have today, and what one pass is measured against."""

from __future__ import annotations

import copy
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder
from onepass.methods.asked import Asked
from onepass.methods.base import READOUTS, Method, Pooler, Stage, States, TokenStates, starts_of


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
    gives_tokens = True

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
        reading = self.reading_tokens(asked)
        per_task, tokens, starts, length = [], [], np.zeros(asked.numel(), np.int64), 0
        for task, asks in zip(order.tasks.tolist(), order.asks, strict=True):
            texts = batch.select((asks // asked.shape[1]).tolist())
            own: OwnModel = self.tasks[task]
            states = own.encoder(texts)
            per_task.append(own.pooler(self.readout(states, texts.layout)))
            if task in reading:
                tokens.append(states)
                starts[asks] = length + starts_of(texts.layout)
                length += len(states)
        vectors = torch.cat(per_task)  # asks, task by task
        back = torch.empty(asked.numel(), dtype=torch.long)
        back[torch.cat([torch.from_numpy(asks) for asks in order.asks])] = torch.arange(asked.numel())
        vectors = vectors[back.to(vectors.device)].unflatten(0, order.shape)
        return States(vectors, TokenStates(torch.cat(tokens), starts) if tokens else None)

    def stages(self) -> list[Stage]:
        return [Stage(f"task {i + 1} of {len(self.tasks)}", tasks=[i]) for i in range(len(self.tasks))]
