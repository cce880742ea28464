"""The rows of a training's steps: drawn as the sampler says, chosen by what the model makes of them, and counted."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from onepass.data.samplers import Sampler
from onepass.data.stream import RowStream, token_batches
from onepass.model import Forward, Model
from onepass.training.sets import TaskSet
from onepass.where import pack

Pair = tuple[int, int]


class Draws:
    """The rows that each step of an epoch draws from, by the step's place; `trained` is how many it trains on."""

    def __init__(self, rows: Sequence[Any] | NDArray[Any], trained: Sequence[int]):
        self.rows, self.trained = rows, trained

    def __len__(self) -> int:
        return len(self.trained)

    def __getitem__(self, place: int) -> list[Pair]:
        return [(int(task), int(row)) for task, row in self.rows[place]]


def draw_epoch(
    sampler: Sampler,
    stream: RowStream,
    sets: Sequence[TaskSet],
    tasks: Sequence[int],
    epochs: tuple[int, int],
    limits: tuple[int, int],
    one_task: bool = False,
    processes: int = 1,
) -> Draws:
    """The epoch's rows, in order; every process draws the same.

    `epochs`: this one and how many there are. `limits`: most rows and most tokens of a step. `one_task`: every step has
    rows of one task. `processes`: how many take turns at the steps, see `in_rounds`.
    """
    max_rows, max_tokens = limits
    if sampler.candidates != 1:
        return _draw_candidates(sampler, stream, tasks, max_rows, processes)
    order = stream.epoch_order(sampler.counts(stream.sizes, *epochs), epochs[0])
    lengths = [sets[task].train.lengths for task in tasks]
    parts = by_task(order, max_rows) if one_task else [order]
    cut = (pairs for part in parts for pairs in token_batches(part, lengths, max_rows, max_tokens))
    batches = in_rounds([[(tasks[place], row) for place, row in pairs] for pairs in cut], processes)
    return Draws(batches, [len(batch) for batch in batches])


def by_task(order: NDArray[np.int64], max_rows: int) -> list[NDArray[np.int64]]:
    """An order of (task, row) pairs as parts of one task each, which come where their first rows stood.

    >>> [part.tolist() for part in by_task(np.array([[0, 5], [1, 7], [0, 6], [0, 8], [1, 9]]), 2)]
    [[[0, 5], [0, 6]], [[1, 7], [1, 9]], [[0, 8]]]
    """
    parts = []
    for task in np.unique(order[:, 0]):
        places = np.flatnonzero(order[:, 0] == task)
        parts += [places[start : start + max_rows] for start in range(0, len(places), max_rows)]
    return [order[part] for part in sorted(parts, key=lambda part: int(part[0]))]


def in_rounds(batches: Sequence[list[Any]], processes: int) -> list[list[Any]]:
    """Batches of which each of several processes has one in every round: those of the last round are cut in halves.

    A batch without partners would be left out, and of few rows that could be all there are.

    >>> in_rounds([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]], 2)
    [[1, 2, 3, 4], [5, 6, 7, 8], [9], [10]]
    """
    whole = len(batches) - len(batches) % processes
    last = list(batches[whole:])
    while 0 < len(last) < processes and len(largest := max(last, key=len)) > 1:
        place, half = last.index(largest), (len(largest) + 1) // 2
        last[place : place + 1] = [largest[:half], largest[half:]]
    return [*batches[:whole], *last]


def _draw_candidates(
    sampler: Sampler, stream: RowStream, tasks: Sequence[int], max_rows: int, processes: int = 1
) -> Draws:
    """As many rows of each task in every step; together several times what is trained on."""
    total = sum(stream.sizes)
    batches = [[None] * min(max_rows, total - start) for start in range(0, total, max_rows)]
    trained = [len(batch) for batch in in_rounds(batches, processes)]
    each = max(1, round((sampler.candidates or len(tasks)) * max_rows / len(tasks)))
    # (steps, tasks * each, 2) numbers rather than lists of pairs, which would be large.
    parts = []
    for place, task in enumerate(tasks):
        rows = stream.take(place, each * len(trained)).reshape(len(trained), each)
        parts.append(np.stack([np.full_like(rows, task), rows], -1))
    return Draws(np.concatenate(parts, 1).astype(np.int32), trained)


@torch.no_grad()
def choose_rows(
    sampler: Sampler,
    model: Model,
    sets: Sequence[TaskSet],
    drawn: Sequence[Pair],
    limits: tuple[int, int],
    autocast: Any,
    forward: Forward | None = None,
) -> list[Pair]:
    """Of the rows drawn those that the sampler wants, as far as rows and tokens of a step reach.

    The model answers as it is in training, with dropout, as in the released code of CA-MTL.
    """
    max_rows, max_tokens = limits
    entropies = np.zeros(len(drawn))
    places = [(0, place) for place in range(len(drawn))]
    lengths = [np.array([sets[task].train.length(row) for task, row in drawn])]
    with autocast:
        for part in token_batches(places, lengths, max_rows=len(drawn), max_tokens=4 * max_tokens):
            chosen = [place for _, place in part]
            rows = [(task, sets[task].train, row) for task, row in (drawn[place] for place in chosen)]
            batch, asked, where = pack(rows)
            for group in model(batch.to(model.device), asked, forward, where):
                own, logits = group.by_row(where)
                entropies[np.array(chosen)[own]] = group.kind.entropy(logits).float().cpu().numpy()
    wanted = sampler.choose(np.array([task for task, _ in drawn]), np.nan_to_num(entropies))[:max_rows]
    fits = np.cumsum(lengths[0][wanted]) <= max_tokens
    fits[0] = True
    return [drawn[place] for place in wanted[fits]]


class UsedRows:
    """Which training rows a step was made on."""

    def __init__(self, sizes: Sequence[int]):
        self.seen: list[NDArray[np.bool_]] = [np.zeros(size, np.bool_) for size in sizes]
        self.updates = 0

    def add(self, rows: Sequence[Pair]) -> None:
        for task, row in rows:
            self.seen[task][row] = True
        self.updates += len(rows)

    def join(self, state: Sequence[Any]) -> None:
        """Take in what another training used, as `state` tells it."""
        updates, seen = self.updates, [own.copy() for own in self.seen]
        self.restore(state)
        self.updates += updates
        for mine, before in zip(self.seen, seen, strict=True):
            mine |= before

    def gather(self, accelerator: Accelerator) -> None:
        """Put together what several processes used, each of which took its turns."""
        if accelerator.num_processes == 1:
            return
        self.updates = int(accelerator.reduce(torch.tensor(self.updates, device=accelerator.device), "sum"))
        for seen in self.seen:
            mine = torch.from_numpy(seen.astype(np.float32)).to(accelerator.device)
            seen[:] = accelerator.reduce(mine, "sum").cpu().numpy() > 0

    def report(self, names: Sequence[str]) -> dict[str, Any]:
        """The share of all rows that were used, by task too, and how many rows all steps had together."""
        total = sum(map(len, self.seen))
        return {
            "share": sum(int(seen.sum()) for seen in self.seen) / max(total, 1),
            "updates": self.updates,
            "tasks": {name: float(seen.mean()) for name, seen in zip(names, self.seen, strict=True) if len(seen)},
        }

    def state(self) -> list[Any]:
        return [self.updates, [base64.b64encode(np.packbits(seen).tobytes()).decode() for seen in self.seen]]

    def restore(self, state: Sequence[Any]) -> None:
        self.updates = state[0]
        for seen, packed in zip(self.seen, state[1], strict=True):
            bits = np.unpackbits(np.frombuffer(base64.b64decode(packed), np.uint8), count=len(seen))
            seen[:] = bits.astype(np.bool_)
