"""Texts read once per ask, for methods that cannot answer several tasks in one pass."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from onepass.encoder.batch import Batch, on_device
from onepass.methods.asked import Asked


def once_per_ask(batch: Batch, asked: Tensor) -> Batch:
    """Each text as often as it is asked a task, in the order of the asks: B texts to B * K"""
    num_asked = asked.shape[1]
    return batch if num_asked == 1 else batch.select([row for row in range(len(batch)) for _ in range(num_asked)])


class Folded:
    """Each text as often as it is asked a task, task after task.

    The tokens of a task then lie side by side in the packed batch: its weights see a slice, and nothing is computed
    for another task's tokens.
    """

    def __init__(self, batch: Batch, asks: Asked):
        order = np.concatenate(asks.asks)  # ask numbers, task by task
        self.tasks = asks.tasks
        self.batch = batch.select((order // asks.shape[1]).tolist())
        ends = np.cumsum(asks.counts)
        lengths = np.asarray(self.batch.layout.lengths)
        self.tokens = [int(lengths[end - count : end].sum()) for end, count in zip(ends, asks.counts, strict=True)]
        """How many tokens of the batch are each task's"""
        self.shape = asks.shape
        starts = np.zeros(len(order), np.int64)
        starts[order] = np.cumsum(lengths) - lengths
        self.starts = starts
        """(B * K,) where the tokens of each ask begin"""
        self._back = on_device(np.argsort(order), batch.ids.device)

    def apply(self, parts: Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Tensor:
        """Each token through its own task's part, one part for each of `tasks`: (T, ...) -> (T, ...)"""
        if len(parts) == 1:
            return parts[0](x)
        return torch.cat([part(own) for part, own in zip(parts, x.split(self.tokens), strict=True)])

    def unfold(self, vectors: Tensor) -> Tensor:
        """One vector a folded text (B * K, H) back to the order of the asks: (B, K, H)"""
        return vectors[self._back].unflatten(0, self.shape)
