"""Rows that ask their tasks as one batch: where heads look in its sequences, and which sequences are of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onepass.data.examples import Examples
from onepass.encoder.batch import Batch

Ranges = NDArray[np.int16]  # (m, 2) first and end of the tokens of each mark or point


@dataclass(frozen=True)
class Where:
    """What B sequences with K asks each have to say beside their tokens; ask number b * K + k."""

    ranges: Sequence[Ranges | None] | None = None
    """For each ask the tokens that its head reads; None where it reads the vector alone"""
    rows: NDArray[np.int64] | None = None
    """(B,) the row that each sequence is of; by default every ask is a row"""

    def row_of(self, asks: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of asks, of which each sequence has one."""
        return asks if self.rows is None else self.rows[asks]

    def asking_more(self, asked: Tensor) -> tuple[Tensor, Where]:
        """The same sequences when K tasks are asked of each of the R rows (R, K), its own first: (B, K)"""
        assert self.rows is not None
        ranges = None
        if self.ranges is not None:
            ranges = [own if k == 0 else None for own in self.ranges for k in range(asked.shape[1])]
        return asked[torch.from_numpy(self.rows)], Where(ranges, self.rows)


PLAIN = Where()


def pack(chosen: Sequence[tuple[int, Examples, int]]) -> tuple[Batch, Tensor, Where]:
    """Rows of examples, each given with the number of its task; every row asks its own task only."""
    sequences: list[tuple[Any, Any]] = []
    ranges: list[Ranges | None] = []
    rows: list[int] = []
    asked: list[list[int]] = []
    for number, (task, examples, row) in enumerate(chosen):
        own = examples.sequences(row)
        found = [] if examples.readings is None else examples.readings[row].ranges
        sequences += own
        ranges += found or [None] * len(own)
        rows += [number] * len(own)
        asked += [[task]] * len(own)
    return Batch.of(sequences), torch.tensor(asked), Where(ranges, np.array(rows, np.int64))
