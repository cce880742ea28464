"""Which rows of a batch ask which task, laid out for batched products over tasks."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onepass.encoder.batch import on_device

Numbers = NDArray[np.int64]


class Asked:
    """The asks of a batch, sorted by task.

    B texts ask K tasks each: ask number b * K + k. U different tasks are asked, the commonest M times.
    Built from Python-side numbers, so that it never waits for a GPU.
    """

    def __init__(self, asked: Tensor, device: torch.device | str = "cpu"):
        self.device = torch.device(device)
        self.shape = (asked.shape[0], asked.shape[1])  # (B, K)
        self.alike = _alike(asked)
        """Whether every text asks the same tasks, in ascending order: nothing has to be sorted then"""
        if self.alike:
            texts, count = self.shape
            self.tasks: Numbers = asked[0].cpu().numpy()
            self.counts: Numbers = np.full(count, texts)
            self.order: Numbers = np.arange(texts * count).reshape(texts, count).T.reshape(-1)
            self._of_ask: Numbers = np.tile(np.arange(count), texts)
            self._most = texts
            return
        flat = asked.cpu().numpy().reshape(-1)
        tasks, of_ask = np.unique(flat, return_inverse=True)
        self.tasks = tasks  # (U,) ascending
        self.counts = np.bincount(of_ask, minlength=len(tasks))
        self.order = np.argsort(of_ask, kind="stable")  # (B * K,) ask numbers, task by task
        self._of_ask = of_ask.reshape(-1)
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
        if self.alike:
            return x.transpose(0, 1)
        return x.flatten(0, 1).index_select(0, self._slots).unflatten(0, (len(self.tasks), self._most))

    def by_row(self, x: Tensor) -> Tensor:
        """(U, M, ...) -> (B, K, ...)"""
        if self.alike:
            return x.transpose(0, 1)
        return x.flatten(0, 1).index_select(0, self._places).unflatten(0, self.shape)

    def per_ask(self, parameters: Tensor) -> Tensor:
        """Each ask's own parameter: (U, ...) -> (B, K, ...)"""
        if self.alike:
            return parameters.expand(self.shape[0], *parameters.shape)
        return parameters.index_select(0, self.of_ask).unflatten(0, self.shape)

    @cached_property
    def _rank(self) -> Numbers:
        """(B * K,) the place of each ask of `order` among the asks of its task."""
        return np.arange(len(self.order)) - np.repeat(np.cumsum(self.counts) - self.counts, self.counts)

    @cached_property
    def _slots(self) -> Tensor:
        """(U * M,) the asks of each task; free places repeat ask 0 and are never read back."""
        slots = np.zeros((len(self.tasks), self._most), dtype=np.int64)
        slots[self._of_ask[self.order], self._rank] = self.order
        return self._tensor(slots.reshape(-1))

    @cached_property
    def _places(self) -> Tensor:
        """(B * K,) where each ask is among the slots."""
        places = np.empty(len(self.order), dtype=np.int64)
        places[self.order] = self._of_ask[self.order] * self._most + self._rank
        return self._tensor(places)

    def _tensor(self, array: Numbers) -> Tensor:
        return on_device(array, self.device)


def _alike(asked: Tensor) -> bool:
    """Whether one row of ascending tasks is repeated, as `expand` repeats it."""
    rows, count = asked.shape
    return rows > 1 and count > 0 and asked.stride(0) == 0 and bool((asked[0].diff() > 0).all())


def linear_by_task(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """U linear layers at once, weight (U, O, H) and bias (U, O): (U, M, H) -> (U, M, O)"""
    return torch.baddbmm(bias.unsqueeze(1).to(x.dtype), x, weight.transpose(1, 2).to(x.dtype))
