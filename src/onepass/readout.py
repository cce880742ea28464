"""What heads read of the states of a pass, and the logits they make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch, on_device
from onepass.heads import Kind
from onepass.methods import States
from onepass.tasks import Task
from onepass.where import Where


class Head(nn.Linear):
    """The linear read-out of one task, with small random weights; its logits begin at `start`, by default 0."""

    def __init__(self, width: int, outputs: int, start: tuple[float, ...] | None = None):
        self.start = start
        super().__init__(width, outputs)

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.weight, std=0.02, a=-0.04, b=0.04)
        nn.init.zeros_(self.bias)
        if self.start is not None:
            with torch.no_grad():
                self.bias.copy_(torch.tensor(self.start))


@dataclass
class Answers:
    """The logits of all asks of one kind and size."""

    kind: Kind
    tasks: list[int]
    asks: np.ndarray  # (A,) ask numbers b * K + k, task by task
    logits: Tensor  # (P, C) of all points, ask by ask; one for each ask, unless the kind is ragged
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    """(A,) how many points each ask has; by default one"""

    def __post_init__(self) -> None:
        if not len(self.counts):
            self.counts = np.ones(len(self.asks), np.int64)

    def by_row(self, where: Where) -> tuple[np.ndarray, Tensor]:
        """The rows that asked, and their logits as the kind's loss and entropy want them: (R, C) or (R, P, C)."""
        row_of_point = np.repeat(where.row_of(self.asks), self.counts)
        rows, first, sizes = np.unique(row_of_point, return_index=True, return_counts=True)
        order = np.argsort(first)  # rows in the order of the asks
        rows, sizes = rows[order], sizes[order]
        if not self.kind.ragged and sizes.max(initial=1) == 1:
            return rows, self.logits
        places = np.repeat(np.arange(len(rows)), sizes)
        columns = np.arange(len(row_of_point)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        nothing = float("-inf") if self.kind.ragged else float("nan")
        padded = self.logits.new_full((len(rows), int(sizes.max()), self.logits.shape[-1]), nothing)
        index = tuple(on_device(part, padded.device) for part in (places, columns))
        padded = padded.index_put(index, self.logits)
        return rows, padded if self.kind.ragged else self.kind.pool(padded)


def stacked(targets: Sequence[Any], kind: Kind) -> np.ndarray:
    """Targets of rows as one array; of ragged kinds (R, P, ...), filled up where a row has fewer points."""
    if not kind.ragged:
        return np.stack(targets)
    found = np.full((len(targets), max(map(len, targets)), *targets[0].shape[1:]), kind.filler, targets[0].dtype)
    for row, target in enumerate(targets):
        found[row, : len(target)] = target
    return found


def points_of(
    kind: Kind, task: Task, states: States, asks: np.ndarray, batch: Batch, where: Where
) -> tuple[Tensor, np.ndarray]:
    """What the head reads for each point of these asks (P, n * H), ask by ask, and how many points each has."""
    assert states.tokens is not None
    lengths = np.asarray(batch.layout.lengths)[asks // states.vectors.shape[1]].tolist()
    given = [None if where.ranges is None else where.ranges[ask] for ask in asks]
    ranges = [kind.all_ranges(task, length) if own is None else own for own, length in zip(given, lengths, strict=True)]
    counts = np.array([len(found) for found in ranges], np.int64)
    flat = np.concatenate(ranges).astype(np.int64).reshape(-1, 2)
    sizes = flat[:, 1] - flat[:, 0]
    of_token = np.repeat(np.arange(len(flat)), sizes)
    places = np.arange(len(of_token)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(flat[:, 0], sizes)
    found = states.tokens.take(np.repeat(np.repeat(asks, counts), sizes), places)
    if len(found) != len(flat):  # the mean of each range
        index = on_device(of_token, found.device)
        shares = on_device(1.0 / np.repeat(sizes, sizes), found.device).to(found.dtype)
        found = found.new_zeros(len(flat), found.shape[-1]).index_add(0, index, found * shares.unsqueeze(1))
    if kind.ragged:
        return found, counts
    own = on_device(asks, found.device)
    beside = found.reshape(len(asks), -1)  # (A, m * H)
    return torch.cat([states.vectors.flatten(0, 1)[own].to(beside.dtype), beside], 1), np.ones_like(counts)
