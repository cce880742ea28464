"""Which rows of a batch ask which task, laid out for batched products over tasks."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Numbers = NDArray[np.int64]


class Asked:
    """The asks of a batch, sorted by task.

    B texts ask K tasks each: ask number b * K + k. U different tasks are asked, the commonest M times.
    Built from Python-side numbers, so that it never waits for a GPU.
    """

    def __init__(self, asked: Tensor, device: torch.device | str = "cpu"):
        self.device = device
        self.shape = (asked.shape[0], asked.shape[1])  # (B, K)
        flat = asked.cpu().numpy().reshape(-1)
        tasks, of_ask = np.unique(flat, return_inverse=True)
        self.tasks: Numbers = tasks  # (U,) ascending
        self.counts: Numbers = np.bincount(of_ask, minlength=len(tasks))
        self.order: Numbers = np.argsort(of_ask, kind="stable")  # (B * K,) ask numbers, task by task
        self._of_ask: Numbers = of_ask.reshape(-1)
        self._most = int(self.counts.max()) if len(tasks) else 0

    @cached_property
    def asks(self) -> list[Numbers]:
        """The ask numbers of each task of `tasks`."""
        return np.split(self.order, np.cumsum(self.counts)[:-1]) if len(self.tasks) else []

    @cached_property
    def of_ask(self) -> Tensor:
        """(B * K,) each ask's task, as an index into `tasks`."""
        return self._tensor(self._of_ask)

    def by_task(self, x: Tensor) -> Tensor:
        """(B, K, ...) -> (U, M, ...)"""
        return x.flatten(0, 1)[self._slots]

    def by_row(self, x: Tensor) -> Tensor:
        """(U, M, ...) -> (B, K, ...)"""
        return x.flatten(0, 1)[self._places].unflatten(0, self.shape)

    def per_ask(self, parameters: Tensor) -> Tensor:
        """Each ask's own parameter: (U, ...) -> (B, K, ...)"""
        return parameters[self.of_ask].unflatten(0, self.shape)

    @cached_property
    def _rank(self) -> Numbers:
        """(B * K,) the place of each ask of `order` among the asks of its task."""
        return np.arange(len(self.order)) - np.repeat(np.cumsum(self.counts) - self.counts, self.counts)

    @cached_property
    def _slots(self) -> Tensor:
        """(U, M) the asks of each task; free places repeat ask 0 and are never read back."""
        slots = np.zeros((len(self.tasks), self._most), dtype=np.int64)
        slots[self._of_ask[self.order], self._rank] = self.order
        return self._tensor(slots)

    @cached_property
    def _places(self) -> Tensor:
        """(B * K,) where each ask is among the slots."""
        places = np.empty(len(self.order), dtype=np.int64)
        places[self.order] = self._of_ask[self.order] * self._most + self._rank
        return self._tensor(places)

    def _tensor(self, array: Numbers) -> Tensor:
        return torch.from_numpy(array).to(self.device, non_blocking=True)


def linear_by_task(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """U linear layers at once, weight (U, O, H) and bias (U, O): (U, M, H) -> (U, M, O)"""
    return torch.baddbmm(bias.unsqueeze(1).to(x.dtype), x, weight.transpose(1, 2).to(x.dtype))
