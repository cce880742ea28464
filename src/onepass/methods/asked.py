"""Which rows of a batch ask which task, laid out for batched products over tasks."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn


class Asked:
    """The asks of a batch, sorted by task.

    B texts ask K tasks each: ask number b * K + k. U different tasks are asked, the commonest M times.
    Built from Python-side numbers, so that it never waits for a GPU.
    """

    def __init__(self, asked: Tensor, device: torch.device | str = "cpu"):
        flat = asked.cpu().numpy().reshape(-1)
        tasks, of_ask = np.unique(flat, return_inverse=True)
        order = np.argsort(of_ask, kind="stable")  # asks, task by task
        counts = np.bincount(of_ask, minlength=len(tasks))
        rank = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)  # place among the asks of its task
        most = int(counts.max()) if len(counts) else 0
        slots = np.zeros((len(tasks), most), dtype=np.int64)  # free places repeat ask 0 and are never read back
        slots[of_ask[order], rank] = order
        places = np.empty(len(flat), dtype=np.int64)
        places[order] = of_ask[order] * most + rank

        self.shape = (asked.shape[0], asked.shape[1])  # (B, K)
        self.tasks: list[int] = tasks.tolist()
        self.counts: list[int] = counts.tolist()
        self.asks: list[np.ndarray] = np.split(order, np.cumsum(counts)[:-1]) if len(tasks) else []
        """The ask numbers of each task of `tasks`"""
        self.slots = torch.from_numpy(slots).to(device, non_blocking=True)  # (U, M)
        self.places = torch.from_numpy(places).to(device, non_blocking=True)  # (B * K,)
        self.of_ask = torch.from_numpy(of_ask.reshape(-1)).to(device, non_blocking=True)  # (B * K,) index into tasks

    def by_task(self, x: Tensor) -> Tensor:
        """(B, K, ...) -> (U, M, ...)"""
        return x.flatten(0, 1)[self.slots]

    def by_row(self, x: Tensor) -> Tensor:
        """(U, M, ...) -> (B, K, ...)"""
        return x.flatten(0, 1)[self.places].unflatten(0, self.shape)

    def per_ask(self, parameters: Sequence[Tensor]) -> Tensor:
        """Each ask's own parameter: U tensors of one shape (...) -> (B, K, ...)"""
        return torch.stack(list(parameters))[self.of_ask].unflatten(0, self.shape)

    def apply(self, x: Tensor, layers: Sequence[nn.Linear]) -> Tensor:
        """Each ask through its own task's linear layer, as one product: (B, K, H) -> (B, K, O)"""
        return self.by_row(linear_by_task(self.by_task(x), [layers[task] for task in self.tasks]))


def linear_by_task(x: Tensor, layers: Sequence[nn.Linear]) -> Tensor:
    """U linear layers of one shape at once: (U, M, H) -> (U, M, O)"""
    # Stacking only the layers that are asked leaves the gradient of every other task None: no update, no momentum, no
    # decay.
    weight = torch.stack([layer.weight for layer in layers])  # (U, O, H)
    bias = torch.stack([layer.bias for layer in layers])  # (U, O)
    return torch.baddbmm(bias.unsqueeze(1).to(x.dtype), x, weight.transpose(1, 2).to(x.dtype))
