"""From word pieces to logits: batches, the method's runner, the heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from onepass.asking import NO_RANGES
from onepass.engine.kept import Arrays, Kept
from onepass.engine.packing import packed
from onepass.engine.plan import batches
from onepass.engine.points import point_logits
from onepass.engine.ranges import Bounds, precision_of
from onepass.engine.runner import KEPT, Runner, most_bytes
from onepass.heads import Kind
from onepass.inquiry import Pieces, Ranges
from onepass.tasks import Task

MOST_NUMBERS = 2**24
"""Of the vectors of one call that are kept at a time: 64 MB"""


class Core:
    """Computes for one caller at a time. K tasks asked, B texts, G of them in a batch of T tokens."""

    def __init__(self, runner: Runner, tasks: Iterable[tuple[Task, Kind]] = ()):
        """`tasks` are the runner's; without them none reads tokens."""
        self.runner = runner
        self.config = runner.encoder.config
        self.precision = precision_of(runner.encoder.ranges)
        self.token_tasks = {number: (task, kind) for number, (task, kind) in enumerate(tasks) if kind.reads_tokens}
        # In less than 32 bits two graphs of the same layers round differently, so that an answer would depend on what
        # else is asked: there is one for all that is asked, as it was when ranges were found.
        self.whole = self.precision != "fp32" and (bool(self.token_tasks) or runner.whole)
        self._heads = Kept(self._stacked_heads, KEPT, most_bytes(runner.tasks, of_heads=True))
        self.read = self.computed = 0
        """Tokens of texts so far, and with their padding"""

    def logits(self, pieces: Sequence[Pieces], asked: Sequence[int], ranges: Ranges = NO_RANGES) -> list[Any]:
        """For each of `asked` the logits (B, C), or of ragged kinds that read tokens a list of (P, C)."""
        tasks = tuple(sorted(set(asked)))  # one order: the weights of tasks are laid out for each choice of them
        states = self.config.capacity if self.token_tasks.keys() & set(tasks) else 0
        most = max(1, MOST_NUMBERS // ((len(tasks) + states) * self.config.width))
        parts = []
        for start in range(0, len(pieces), most):
            own = {task: found[start : start + most] for task, found in ranges.items()}
            parts.append(self._logits(pieces[start : start + most], tasks, own))
        found = dict(zip(tasks, map(_joined, zip(*parts, strict=True)), strict=True))
        return [found[task] for task in asked]

    def watch(self, pieces: Sequence[Pieces]) -> Iterator[Bounds]:
        """What goes into each linear layer, text by text, with all tasks asked."""
        find, asked = self.runner.watch(bool(self.token_tasks)), tuple(range(len(self.runner.tasks)))
        for one in pieces:
            yield find(packed([one], self.config.capacity, exactly=True), asked)

    def _logits(self, pieces: Sequence[Pieces], asked: tuple[int, ...], ranges: Ranges) -> list[Any]:
        token_places = [place for place, task in enumerate(asked) if task in self.token_tasks]
        vectors, states = self._run(pieces, asked, keep_states=bool(token_places))
        logits: list[Any] = [None] * len(asked)
        heads = self._heads(asked)
        for outputs in {outputs for _, outputs in heads}:
            members = heads["places", outputs]
            chosen = vectors if len(vectors) == 1 or len(members) == len(asked) else vectors[members]
            found = chosen @ heads["weight", outputs] + heads["bias", outputs]
            for place, values in zip(members, found, strict=True):
                logits[place] = values
        for place in token_places:
            task, kind = self.token_tasks[asked[place]]
            read = ranges.get(asked[place]) or [kind.all_ranges(task, len(one)) for one in pieces]
            own = vectors[place if len(vectors) > 1 else 0]
            logits[place] = point_logits(self.runner.tasks[asked[place]], kind, own, states, read)
        return logits

    def _run(
        self, pieces: Sequence[Pieces], asked: tuple[int, ...], keep_states: bool
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The vectors (K, B, H), of one task if they are the same for all, and the states (tokens, H) of each text."""
        vectors: np.ndarray | None = None
        states: list[np.ndarray] = [np.empty(0)] * len(pieces)
        plan = batches([len(one) for one in pieces])
        for rows in plan:
            together = [pieces[row] for row in rows]
            text = packed(together, self.config.capacity)
            self.read, self.computed = self.read + sum(map(len, together)), self.computed + text["ids"].size
            found, tokens = self.runner.run(text, asked, keep_states or self.whole)
            if len(plan) == 1 and (rows[1:] > rows[:-1]).all():
                vectors = found  # as they lie: nothing writes over them before they are read
            else:
                if vectors is None:
                    vectors = np.empty((found.shape[0], len(pieces), found.shape[2]), np.float32)
                vectors[:, rows] = found
            if tokens is not None and keep_states:
                ends = np.cumsum([len(one) for one in together])
                for row, end in zip(rows, ends, strict=True):
                    states[row] = tokens[end - len(pieces[row]) : end].copy()
        assert vectors is not None  # there is at least one text
        return self.runner.pooled(vectors, asked), states

    def _stacked_heads(self, asked: tuple[int, ...]) -> Arrays:
        """The k heads of equally many outputs C side by side, by what they are and C.

        Their places in `asked` (k,), weights (k, H, C), biases (k, 1, C).
        """
        groups: dict[int, list[int]] = {}
        for place, task in enumerate(asked):
            if task not in self.token_tasks:
                groups.setdefault(len(self.runner.tasks[task]["head.bias"]), []).append(place)
        found: Arrays = {}
        for outputs, places in groups.items():
            own = [self.runner.tasks[asked[place]] for place in places]
            found["places", outputs] = np.array(places)
            found["weight", outputs] = np.stack([task["head.weight"].T for task in own])
            found["bias", outputs] = np.stack([task["head.bias"][None] for task in own])
        return found


def _joined(parts: Sequence[Any]) -> Any:
    """The logits of all texts from those of some: arrays, or lists of them."""
    if isinstance(parts[0], list):
        return [one for part in parts for one in part]
    return np.concatenate(parts)
