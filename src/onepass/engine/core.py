"""From word pieces to logits: batches, the method's runner, the heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from onepass.engine.graph import FAR
from onepass.engine.plan import batches, padded
from onepass.engine.ranges import Bounds
from onepass.engine.runner import KEPT, Runner
from onepass.inquiry import Pieces

MOST_NUMBERS = 2**24
"""Of the vectors of one call that are kept at a time: 64 MB"""


class Core:
    """Computes for one caller at a time. K tasks asked, B texts, G of them side by side, M tokens with padding."""

    def __init__(self, runner: Runner):
        self.runner = runner
        self.config = runner.encoder.config
        self._heads = lru_cache(KEPT)(self._stacked_heads)

    def logits(self, pieces: Sequence[Pieces], asked: Sequence[int]) -> list[np.ndarray]:
        """For each of `asked` the logits (B, C)."""
        tasks = tuple(asked)
        most = max(1, MOST_NUMBERS // (len(tasks) * self.config.width))
        parts = [self._logits(pieces[start : start + most], tasks) for start in range(0, len(pieces), most)]
        return [np.concatenate(values) for values in zip(*parts, strict=True)]

    def watch(self, pieces: Sequence[Pieces]) -> Iterator[Bounds]:
        """What goes into each linear layer, text by text, with all tasks asked."""
        find, asked = self.runner.watch(), tuple(range(len(self.runner.tasks)))
        for one in pieces:
            ids, types = (np.array([part], np.int32) for part in (one.ids, one.types))
            yield find(ids, types, np.zeros((1, 1, 1, len(one)), np.float32), asked)

    def _logits(self, pieces: Sequence[Pieces], asked: tuple[int, ...]) -> list[np.ndarray]:
        vectors: np.ndarray | None = None  # (K, B, H)
        for rows in batches([len(one) for one in pieces]):
            found = self.runner.vectors(*self._side_by_side([pieces[row] for row in rows]), asked)
            if vectors is None:
                vectors = np.empty((found.shape[0], len(pieces), found.shape[2]), np.float32)
            vectors[:, rows] = found
        assert vectors is not None  # there is at least one text
        vectors = self.runner.pooled(vectors, asked)
        logits: list[np.ndarray] = [np.empty(0)] * len(asked)
        for members, weight, bias in self._heads(asked):
            chosen = vectors if len(vectors) == 1 or len(members) == len(asked) else vectors[members]
            for place, values in zip(members, chosen @ weight + bias, strict=True):
                logits[place] = values
        return logits

    def _side_by_side(self, pieces: Sequence[Pieces]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Word pieces and types (G, M), padded, and the mask (G, 1, 1, M)."""
        longest = min(padded(max(map(len, pieces))), self.config.capacity)
        ids, types = (np.zeros((len(pieces), longest), np.int32) for _ in range(2))
        mask = np.full((len(pieces), 1, 1, longest), FAR, np.float32)
        for row, one in enumerate(pieces):
            ids[row, : len(one)] = one.ids
            types[row, : len(one)] = one.types
            mask[row, ..., : len(one)] = 0
        return ids, types, mask

    def _stacked_heads(self, asked: tuple[int, ...]) -> list[tuple[list[int], np.ndarray, np.ndarray]]:
        """The heads of equally many outputs side by side: places in `asked`, weights (k, H, C), biases (k, 1, C)."""
        groups: dict[int, list[int]] = {}
        for place, task in enumerate(asked):
            groups.setdefault(len(self.runner.tasks[task]["head.bias"]), []).append(place)
        return [
            (
                places,
                np.stack([self.runner.tasks[asked[place]]["head.weight"].T for place in places]),
                np.stack([self.runner.tasks[asked[place]]["head.bias"][None] for place in places]),
            )
            for places in groups.values()
        ]
