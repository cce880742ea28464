"""Inputs that are alike, the tasks asked of them, and the sequences that have to be run to answer; without torch.

An input is a text, a pair of texts, or a row: a mapping with the columns that tasks read. All tasks that read the same
text of an input share its sequence, so that one pass answers them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepass.data.encoding import Encodes, tokenise
from onepass.data.items import Item, Reading, Tokens
from onepass.errors import DataError, listed
from onepass.heads import Kind
from onepass.heads.base import is_missing
from onepass.prediction import Prediction, Text
from onepass.tasks import Task

NOTHING = Reading()
Ranges = Mapping[int, Sequence[NDArray[np.int16]]]
"""By task that reads tokens, for each sequence the tokens that its head looks at, (m, 2)"""


@dataclass(frozen=True, eq=False)
class Pieces:
    """The word pieces of one sequence."""

    ids: Sequence[int]
    types: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)


Asked = tuple[int, Task, Kind]
"""A task that is asked, with its number and kind"""
Groups = tuple[int, ...]
"""Groups of tasks that read alike, by their places in `Inquiry.groups`; here those that share a sequence"""
Users = dict[int, tuple[int, int]]
"""By group that reads a sequence, the input and the part of it that it is there"""
Spot = tuple[Groups, int]
"""Where a sequence is run: for which groups together, and its place among theirs"""
Run = Callable[[Sequence[Pieces], Sequence[int], Ranges], Sequence[Any]]
"""From sequences and the tasks asked of all of them to logits by task: (S, C), or of token kinds a list of (P, C)"""


@dataclass(frozen=True)
class Form:
    """What inputs of one sort hold: so many texts, or a row with these columns."""

    num_texts: int = 0
    columns: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    """Those of the columns that have no value, as in a table with holes: None or NaN"""

    @classmethod
    def of(cls, given: Any, place: int) -> Form:
        if isinstance(given, Mapping):
            missing = (str(column) for column, value in given.items() if is_missing(value))
            return cls(columns=frozenset(map(str, given)), missing=frozenset(missing))
        parts = (given,) if isinstance(given, str) else given if isinstance(given, (tuple, list)) else ()
        if not parts or not all(isinstance(part, str) for part in parts):
            raise DataError(
                f"Text {place + 1} is {given!r:.80}. Give a string, two strings in a tuple for a pair, or a row: a "
                "mapping with the columns that tasks read."
            )
        return cls(len(parts))

    def fits(self, task: Task, kind: Kind) -> bool:
        """Whether a task can be asked of such an input."""
        if self.num_texts:
            return kind.num_texts(task) == self.num_texts
        return self.columns.issuperset(kind.inputs(task))

    def __str__(self) -> str:
        if not self.num_texts:
            return f"a row with {', '.join(map(repr, sorted(self.columns))) or 'no column'}"
        return "a single text" if self.num_texts == 1 else f"{self.num_texts} texts together"


class Inquiry:
    """Inputs of one form and the tasks asked of all of them."""

    def __init__(
        self,
        inputs: Sequence[Text],
        asked: Sequence[Asked],
        tokenizer: Encodes,
        places: Sequence[int] | None = None,
    ):
        """`asked`: number, task and kind of each; `places`: which texts of the user's the inputs are, for messages."""
        self.inputs = inputs
        self.places = list(range(len(inputs))) if places is None else places
        self.names = [task.name for _, task, _ in asked]
        self.groups: list[list[Asked]] = _alike(asked, isinstance(inputs[0], Mapping))
        self.tokens: list[list[Tokens]] = [self._read(*group[0][1:], tokenizer) for group in self.groups]
        """For each group of tasks that read alike, the tokens of all inputs"""

    def _read(self, task: Task, kind: Kind, tokenizer: Encodes) -> list[Tokens]:
        items, faults = [], []
        for place, given in zip(self.places, self.inputs, strict=True):
            try:
                items.append(_item(given, task, kind))
            except ValueError as error:
                faults.append(f"Text {place + 1}: task {task.name!r} {error}")
        if faults:
            raise DataError(listed(faults))
        return tokenise(items, tokenizer, kind.points, kind.windows)

    @property
    def truncated(self) -> list[bool]:
        """Whether a part of each input was left out."""
        return [any(one.truncated for one in row) for row in zip(*self.tokens, strict=True)]

    def answers(self, run: Run) -> list[dict[str, Prediction]]:
        """Every input's answers by task name."""
        found: list[dict[str, Prediction]] = [{} for _ in self.inputs]
        for group, tokens, logits in zip(self.groups, self.tokens, self._logits(run), strict=True):
            readings = [one.reading or NOTHING for one in tokens]
            for (_, task, _), predictions in zip(group, _decoded(group, logits, readings), strict=True):
                for answers, prediction in zip(found, predictions, strict=True):
                    answers[task.name] = prediction
        if len(self.groups) == 1:
            return found
        return [{name: answers[name] for name in self.names} for answers in found]

    def _logits(self, run: Run) -> list[list[Any]]:
        """For each group and each of its tasks the logits of all inputs: (R, C), or a list of (P, C)."""
        runs, where = self._share()
        parts: dict[Groups, list[Any]] = {}
        for groups, chosen in runs.items():
            numbers = [number for group in groups for number, _, _ in self.groups[group]]
            parts[groups] = list(run([piece for piece, _ in chosen], numbers, self._ranges(groups, chosen)))
        found = []
        for group, tasks in enumerate(self.groups):
            # A run has the logits of all its groups' tasks, one group after the other.
            firsts = {
                groups: sum(len(self.groups[g]) for g in groups if g < group) for groups in runs if group in groups
            }
            gather = _by_row(where[group])
            found.append(
                [
                    gather({groups: parts[groups][first + column] for groups, first in firsts.items()}, kind)
                    for column, (_, _, kind) in enumerate(tasks)
                ]
            )
        return found

    def _ranges(self, groups: Groups, chosen: Sequence[tuple[Pieces, Users]]) -> Ranges:
        """The tokens of these sequences at which the groups' tasks look, of those that read tokens."""
        ranges: dict[int, list[NDArray[np.int16]]] = {}
        for group in groups:
            tokens = self.tokens[group]
            for number in (number for number, _, kind in self.groups[group] if kind.reads_tokens):
                places = (users[group] for _, users in chosen)
                ranges[number] = [(tokens[place].reading or NOTHING).ranges[part] for place, part in places]
        return ranges

    def _share(self) -> tuple[dict[Groups, list[tuple[Pieces, Users]]], list[list[list[Spot]]]]:
        """The sequences to run, by the groups that read them, and for each group and input where its sequences are.

        A sequence comes with the groups that read it, each with the input and the part that it is there.
        """
        known: dict[Any, Users] = {}
        pieces: dict[Any, Pieces] = {}
        keys: list[list[list[Any]]] = []
        for group, tokens in enumerate(self.tokens):
            keys.append([])
            for place, one in enumerate(tokens):
                own = []
                for part, (ids, types) in enumerate(one.sequences):
                    key: tuple[Any, ...] = (place, tuple(ids), tuple(types))
                    while group in known.get(key, ()):  # the same words again: another window, or candidate
                        key = (*key, part)
                    known.setdefault(key, {})[group] = (place, part)
                    pieces.setdefault(key, Pieces(ids, types))
                    own.append(key)
                keys[-1].append(own)
        runs: dict[Groups, list[tuple[Pieces, Users]]] = {}
        at: dict[Any, Spot] = {}
        for key, users in known.items():
            groups = tuple(sorted(users))
            chosen = runs.setdefault(groups, [])
            at[key] = groups, len(chosen)
            chosen.append((pieces[key], users))
        return runs, [[[at[key] for key in own] for own in group] for group in keys]


def _alike(asked: Sequence[Asked], is_row: bool) -> list[list[Asked]]:
    """The tasks, those together that read an input in the same way."""
    groups: dict[Any, list[Asked]] = {}
    for number, task, kind in asked:
        plain = kind.points == "vector" and not kind.ragged
        columns = tuple(kind.inputs(task)) if is_row else ()
        groups.setdefault((columns, kind.windows) if plain else number, []).append((number, task, kind))
    return list(groups.values())


def _decoded(group: Sequence[Asked], logits: Sequence[Any], readings: Sequence[Reading]) -> list[list[Prediction]]:
    """Each task's answers about all inputs; tasks that can be are decoded together."""
    found: list[list[Prediction]] = [[] for _ in group]
    together: dict[Any, list[int]] = {}
    for place, (_, task, kind) in enumerate(group):
        if (key := kind.decodes_with(task)) is None:
            found[place] = kind.decode(task, logits[place], readings)
        else:
            together.setdefault(key, []).append(place)
    for places in together.values():
        tasks, kind = [group[place][1] for place in places], group[places[0]][2]
        decoded = kind.decode_together(tasks, np.stack([logits[place] for place in places]))
        for place, predictions in zip(places, decoded, strict=True):
            found[place] = predictions
    return found


def _by_row(where: Sequence[Sequence[Spot]]) -> Callable[[Mapping[Any, Any], Kind], Any]:
    """A function that gathers, for one task after the other, the logits of each input from those of its sequences."""
    single = all(len(own) == 1 for own in where)
    places = [own[0][1] for own in where] if single else []
    in_order = places == list(range(len(places)))

    def gather(values: Mapping[Any, Any], kind: Kind) -> Any:
        if not kind.ragged and single:
            if len(values) == 1:  # the most usual case by far: one sequence an input, all of them run together
                (logits,) = values.values()
                return logits if in_order and len(logits) == len(places) else logits[places]
            return np.stack([values[groups][place] for ((groups, place),) in where])
        rows = [[values[groups][place] for groups, place in own] for own in where]
        if not kind.ragged:
            return np.stack([kind.pool_row(np.stack(row)) for row in rows])
        return [np.concatenate([np.atleast_2d(logits) for logits in row]) for row in rows]

    return gather


def _item(given: Text, task: Task, kind: Kind) -> Item:
    """What a task reads of an input; a blank text is read as it is, but a missing one is none."""
    if isinstance(given, Mapping):
        item = kind.item(task, given)
        if item is None and (not kind.num_texts(task) or any(is_missing(given[column]) for column in task.text)):
            raise ValueError(f"has a blank text in {' or '.join(map(repr, task.text))}. Give one.")
        return item or Item([tuple(str(given[column]) for column in task.text)])
    texts = (given,) if isinstance(given, str) else tuple(given)
    return kind.item(task, dict(zip(task.text, texts, strict=True))) or Item([texts])
