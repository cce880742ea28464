"""The order in which rows are trained on, and their packing into batches.

A row is a pair (task, row): the task's place in the task file and the row's place in its examples.
Every permutation is drawn from (seed, task, round), so that two numbers a task say where a stream stands.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepass.errors import TrainingError

Pair = tuple[int, int]
Order = NDArray[np.int64] | Sequence[Pair]  # (N, 2)
Lengths = Sequence[NDArray[np.int64] | Sequence[int]]  # Lengths[task][row]: tokens

# First word of a generator's seed: one kind of draw must never repeat the numbers of another.
ROWS, MIX = 0, 1


class RowStream:
    """The rows of each task, shuffled anew in every round and repeated without end.

    A round passes once over a task's rows; an epoch may use part of a round or several.

    >>> stream = RowStream([3, 2], seed=0)
    >>> sorted(map(tuple, stream.epoch_order([3, 2], epoch=0).tolist()))
    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    """

    def __init__(self, sizes: Sequence[int], seed: int):
        self.sizes = [int(size) for size in sizes]
        self.seed = int(seed)
        self._rounds = [0] * len(self.sizes)
        self._positions = [0] * len(self.sizes)
        self._permutations: list[NDArray[np.int64] | None] = [None] * len(self.sizes)

    def take(self, task: int, count: int) -> NDArray[np.int64]:
        """The next rows of one task."""
        size = self.sizes[task]
        if count and not size:
            raise ValueError(f"task number {task} has no rows")
        parts = [np.zeros(0, np.int64)]
        while count > 0:
            permutation = self._permutations[task]
            if permutation is None:
                permutation = self._generator(ROWS, task, self._rounds[task]).permutation(size)
                self._permutations[task] = permutation
            part = permutation[self._positions[task] :][:count]
            parts.append(part)
            count -= len(part)
            self._positions[task] += len(part)
            if self._positions[task] == size:
                self._rounds[task] += 1
                self._positions[task] = 0
                self._permutations[task] = None
        return np.concatenate(parts)

    def epoch_order(self, counts: Sequence[int], epoch: int) -> NDArray[np.int64]:
        """So many rows of each task, shuffled over tasks: an array of (task, row) pairs, (N, 2)."""
        pairs = [np.zeros((0, 2), np.int64)]
        for task, count in enumerate(counts):
            rows = self.take(task, count)
            pairs.append(np.stack([np.full_like(rows, task), rows], axis=1))
        order = np.concatenate(pairs)
        return order[self._generator(MIX, epoch, 0).permutation(len(order))]

    def state(self) -> dict[str, Any]:
        """Where the stream stands, in plain numbers. Saved before `epoch_order`, it brings the same epoch again."""
        return {
            "seed": self.seed,
            "sizes": list(self.sizes),
            "rounds": list(self._rounds),
            "positions": list(self._positions),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a stream over the same rows stood."""
        for what, ours in ("seed", self.seed), ("sizes", self.sizes):
            if state[what] != ours:
                raise TrainingError(
                    f"The {what} of the training rows changed from {state[what]} to {ours}; the run cannot be resumed. "
                    "Restore the data and the seed, or start a new run."
                )
        self._rounds = list(state["rounds"])
        self._positions = list(state["positions"])
        self._permutations = [None] * len(self.sizes)

    def _generator(self, purpose: int, first: int, second: int) -> np.random.Generator:
        # Always four words: shorter seeds are filled with zeros, and would then be the same as longer ones.
        return np.random.Generator(np.random.PCG64([self.seed, purpose, first, second]))


def token_batches(order: Order, lengths: Lengths, max_rows: int, max_tokens: int) -> Iterator[list[Pair]]:
    """Cut an order into batches of at most so many rows and tokens; a longer row is a batch of its own."""
    if max_rows < 1 or max_tokens < 1:
        raise ValueError(f"a batch needs room: max_rows {max_rows}, max_tokens {max_tokens}")
    pairs = np.asarray(order, np.int64).reshape(-1, 2)
    batch: list[Pair] = []
    tokens = 0
    # Three flat lists of numbers, since iterating over numpy arrays is slow and a list for each pair is large.
    columns = pairs[:, 0].tolist(), pairs[:, 1].tolist(), _lengths_of(pairs, lengths).tolist()
    for task, row, length in zip(*columns, strict=True):
        if batch and (len(batch) == max_rows or tokens + length > max_tokens):
            yield batch
            batch, tokens = [], 0
        batch.append((task, row))
        tokens += length
    if batch:
        yield batch


def sorted_batches(lengths: NDArray[np.int64] | Sequence[int], max_rows: int, max_tokens: int) -> Iterator[list[int]]:
    """The numbers of rows, cut alike, longest first: for evaluation, where the order of rows does not matter.

    Too little memory shows in the first batch and not in the last.
    """
    longest_first = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    pairs = np.stack([np.zeros_like(longest_first), longest_first], 1)
    for batch in token_batches(pairs, [lengths], max_rows, max_tokens):
        yield [row for _, row in batch]


def _lengths_of(pairs: NDArray[np.int64], lengths: Lengths) -> NDArray[np.int64]:
    found = np.zeros(len(pairs), np.int64)
    for task in np.unique(pairs[:, 0]):
        here = pairs[:, 0] == task
        found[here] = np.asarray(lengths[task])[pairs[here, 1]]
    return found
