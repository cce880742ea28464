"""The tokenised rows of one task and one split, in flat arrays.

A file is read chunk by chunk and only its token ids are kept: texts are dropped as soon as they are tokenised, so that
a row costs about four bytes a token. What a row means is left to a `Reader`, which each kind of task implements.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onepass.data.encoding import Encodes, tokenise
from onepass.data.files import Chunk, RowFaults, read_chunks
from onepass.data.items import Item, Points, Reading, Tokens, Windows
from onepass.errors import ConfigError, DataError, listed
from onepass.tasks import Task

Row = dict[str, Any]
_BLOCK = 8192  # rows


class Reader(Protocol):
    """What a kind of task must say about its rows; the kinds in `heads/` implement it.

    The text of a ValueError continues the sentence "task 'tone' ...", for example
    "has label 'angri'. Labels: angry, calm, sad.". Rows with the same text are reported together.
    """

    def columns(self, task: Task) -> list[str]:
        """The columns that the task reads, text and label."""

    def blank(self, task: Task, row: Row) -> bool:
        """Whether the row has no label for this task, as in a wide table; such rows are passed over silently.

        Like `labels_in`, it may be given a row without the text columns.
        """

    def item(self, task: Task, row: Row) -> Item | None:
        """What the task reads, or None when there is nothing to read. ValueError: cells that do not go together."""

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> Any:
        """The label's index (int), a 0/1 array over labels, a float, or what else the kind can score.

        ValueError: a label that is not possible.
        """

    def labels_in(self, task: Task, row: Row) -> Iterable[str]:
        """The labels that this row names; none for kinds without labels."""

    def said(self, task: Task, row: Row, target: Any) -> str:
        """What the row says, in a form that is equal for equal answers."""

    @property
    def points(self) -> Points:
        """What the head reads of a row."""

    @property
    def windows(self) -> Windows:
        """How texts are read that are longer than the tokenizer's limit."""


@dataclass(frozen=True)
class Ragged:
    """A target whose size differs from row to row."""

    value: Any


@dataclass(frozen=True, eq=False)
class Examples:
    """Tokenised rows with their targets. N rows, S sequences, T tokens in all."""

    ids: NDArray[np.int32]  # (T,)
    offsets: NDArray[np.int64]  # (S + 1,) where each sequence's tokens begin in ids
    firsts: NDArray[np.int32]  # (S,) tokens of type 0; the rest of a sequence is of type 1
    targets: NDArray[Any]  # (N,), (N, labels) or (N,) of objects: what the kind's `target` returned
    rows: NDArray[np.int64]  # (N,) data rows of the file, from 1
    hashes: NDArray[np.uint64]  # (N,) text_hash of each row
    cut: NDArray[np.bool_]  # (N,) longer than the tokenizer's limit
    blank_rows: list[int] = field(default_factory=list)
    """Rows of the file that have a label but no text; they are not among the examples."""
    parts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """(N + 1,) where each row's sequences begin; by default every row has one"""
    readings: list[Reading] | None = None
    """Where the heads look, for kinds that read more of a row than its vector"""

    def __post_init__(self) -> None:
        if not len(self.parts):
            object.__setattr__(self, "parts", np.arange(len(self.rows) + 1))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row."""
        return np.diff(self.offsets[self.parts])

    @property
    def truncated(self) -> int:
        """How many rows lost tokens to the tokenizer's limit."""
        return int(self.cut.sum())

    def length(self, i: int) -> int:
        """Tokens of row i."""
        return int(self.offsets[self.parts[i + 1]] - self.offsets[self.parts[i]])

    def sequences(self, i: int) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Token ids and token types of the sequences of row i; the ids are views."""
        return [self.sequence(number) for number in range(self.parts[i], self.parts[i + 1])]

    def sequence(self, number: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Token ids and token types of one of the S sequences."""
        ids = self.ids[self.offsets[number] : self.offsets[number + 1]]
        types = np.ones(len(ids), np.int32)
        types[: self.firsts[number]] = 0
        return ids, types

    def take(self, indices: NDArray[np.int64]) -> "Examples":
        """These rows in this order, copied; blank_rows stay behind."""
        parts, sequences = _taken(self.parts, indices)
        lengths = np.diff(self.offsets)[sequences]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        moves = self.offsets[:-1][sequences] - offsets[:-1]
        ids = np.empty(offsets[-1], np.int32)
        # Block by block: the places of all tokens at once would need several times the memory of the ids.
        for start in range(0, len(sequences), _BLOCK):
            stop = min(start + _BLOCK, len(sequences))
            places = np.arange(offsets[start], offsets[stop])
            ids[offsets[start] : offsets[stop]] = self.ids[places + np.repeat(moves[start:stop], lengths[start:stop])]
        return Examples(
            ids=ids,
            offsets=offsets,
            firsts=self.firsts[sequences],
            parts=parts,
            targets=self.targets[indices],
            rows=self.rows[indices],
            hashes=self.hashes[indices],
            cut=self.cut[indices],
            readings=None if self.readings is None else [self.readings[i] for i in indices],
        )


def _taken(parts: NDArray[np.int64], indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the sequences of the chosen rows begin, and which they are."""
    counts = np.diff(parts)[indices]
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return begins, np.arange(begins[-1]) + np.repeat(parts[:-1][indices] - begins[:-1], counts)


def text_hash(texts: tuple[str, ...]) -> int:
    """64 bits that are equal for texts that differ only in case and white space.

    >>> text_hash(("Late  goal\\n",)) == text_hash(("late goal",))
    True
    """
    joined = "\x00".join(" ".join(text.casefold().split()) for text in texts)
    # Lone surrogates are valid in a Python string, and may stand in a JSON file.
    digest = hashlib.blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def find_labels(task: Task, source: str | Path, kind: Reader) -> tuple[str, ...]:
    """The labels of a task: those it names itself, else the distinct ones of a file, sorted, by number if all are."""
    if task.labels:
        return task.labels
    next(read_chunks(source, kind.columns(task), size=1), None)  # so that all missing columns are reported at once
    columns = [column for column in kind.columns(task) if column not in task.text]  # texts are most of a file
    found: set[str] = set()
    faults = RowFaults(source)
    for chunk in _checked_chunks(source, columns, faults):
        for number, row in chunk.rows():
            try:
                if not kind.blank(task, row):
                    found.update(kind.labels_in(task, row))
            except ValueError as error:
                _add_fault(faults, chunk, number, task, error)
    return tuple(_sorted_labels(found))


def read_examples(task: Task, source: str | Path, kind: Reader, tokenizer: Encodes, labels: Sequence[str]) -> Examples:
    """Read and tokenise the rows of a file that carry a label for the task; all faults are raised as one DataError."""
    store = _Store()
    faults = RowFaults(source)
    seen = 0
    for chunk in _checked_chunks(source, kind.columns(task), faults):
        items: list[Item] = []
        targets: list[Any] = []
        numbers: list[int] = []
        for number, row in chunk.rows():
            seen += 1
            try:
                if kind.blank(task, row):
                    continue
                item = kind.item(task, row)
                if item is None or item.blank:
                    store.blank_rows.append(number)
                    continue
                target = kind.target(row, task, labels)
            except ValueError as error:
                _add_fault(faults, chunk, number, task, error)
                continue
            items.append(item)
            targets.append(target)
            numbers.append(number)
        # After a fault the rows are only checked, so that the user does not wait for tokens that nobody will use.
        if items and not faults:
            tokens = tokenise(items, tokenizer, kind.points, kind.windows)
            for place in [place for place, one in enumerate(tokens) if one.empty][::-1]:
                store.blank_rows.append(numbers[place])  # what it has of a text makes no token
                del items[place], targets[place], numbers[place], tokens[place]
            if items:
                store.add(items, tokens, targets, numbers)
    if not store.rows:
        blank = f"; {len(store.blank_rows)} labelled rows have a blank text" if store.blank_rows else ""
        raise DataError(
            f"{source}: task {task.name!r} has no row to learn from ({seen} rows, column {task.label!r}{blank}). "
            "Give the column that holds its labels as `label` and the column of the text as `text`."
        )
    return store.examples()


def split(examples: Examples, share: float, seed: int) -> tuple[Examples, Examples]:
    """Part the rows into training and validation; every label keeps its share as nearly as whole rows allow.

    The choice depends on the texts and the seed alone, not on the order of the rows, and rows with the same text stay
    together. Every label keeps a row for training. Labels are integer targets, or the columns of two-dimensional ones.
    """
    if not 0 <= share < 1:
        raise ConfigError(f"validation: {share:g} is no share of the rows. Give a file, or a number from 0 to below 1.")
    hashes, text_of_row = np.unique(examples.hashes, return_inverse=True)
    ranks = _mixed(hashes, seed)
    chosen = np.zeros(len(hashes), np.bool_)  # texts that go to validation
    strata = sorted(_texts_by_label(examples.targets, text_of_row, len(hashes)), key=len)
    strata = [texts[np.argsort(ranks[texts])] for texts in strata]
    settled = np.zeros(len(hashes), np.bool_)
    # Rare labels choose first: a text with several labels is settled by its rarest, which has the least choice.
    for texts in strata:
        wanted = min(math.floor(share * len(texts) + 0.5), len(texts) - 1) - int(chosen[texts].sum())
        chosen[texts[~settled[texts]][: max(wanted, 0)]] = True
        settled[texts] = True
    _fill(chosen, strata, math.floor(share * len(hashes) + 0.5), share)
    for texts in strata:
        if chosen[texts].all():
            chosen[texts[-1]] = False
    in_validation = chosen[text_of_row]
    train, validation = (examples.take(np.flatnonzero(side)) for side in (~in_validation, in_validation))
    train.blank_rows.extend(examples.blank_rows)
    return train, validation


def _fill(chosen: NDArray[np.bool_], strata: list[NDArray[np.int64]], total: int, share: float) -> None:
    """Choose one more text of labels that rounding left short, until validation has its share of the whole.

    Without this, 150 labels of 4 texts each would leave a validation share of 0.1 empty.
    """
    missing = [share * len(texts) - int(chosen[texts].sum()) for texts in strata]
    for index in sorted(range(len(strata)), key=lambda index: -missing[index]):
        if missing[index] <= 0 or int(chosen.sum()) >= total:
            break
        left = strata[index][~chosen[strata[index]]]
        if len(left) > 1:
            chosen[left[0]] = True


def _texts_by_label(targets: NDArray[Any], text_of_row: NDArray[np.int64], texts: int) -> list[NDArray[np.int64]]:
    """The distinct texts of each label; texts without any label stand together as one more."""
    if targets.ndim == 2:
        rows, labels = np.nonzero(targets)
    elif targets.ndim == 1 and np.issubdtype(targets.dtype, np.integer):
        rows, labels = np.arange(len(targets)), targets
    else:
        rows = labels = np.zeros(0, np.int64)
    # One number for each (label, text) sorts the pairs by label, many times faster than np.unique(axis=...).
    pairs = np.unique(labels.astype(np.int64) * texts + text_of_row[rows])
    label, text = np.divmod(pairs, max(texts, 1))
    groups = np.split(text, np.flatnonzero(np.diff(label)) + 1)
    unlabelled = np.ones(texts, np.bool_)
    unlabelled[text] = False
    return [group for group in (*groups, np.flatnonzero(unlabelled)) if len(group)]


def _mixed(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """The hashes mixed with the seed, so that another seed orders the texts differently (splitmix64)."""
    z = hashes + np.uint64(((seed + 1) * 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _sorted_labels(found: set[str]) -> list[str]:
    try:
        numbers = {label: float(label) for label in found}
    except ValueError:
        return sorted(found)
    if not all(math.isfinite(number) for number in numbers.values()):  # "nan" and "inf" are words here
        return sorted(found)
    return sorted(found, key=lambda label: (numbers[label], label))


def _checked_chunks(source: str | Path, columns: Sequence[str], faults: RowFaults) -> Iterator[Chunk]:
    """The chunks of a file; after the last one, or where reading breaks off, all faults are raised together."""
    try:
        yield from read_chunks(source, columns, faults=faults)
    except DataError as error:
        raise DataError(listed([*faults.messages(), str(error)])) from None
    faults.check()


def _add_fault(faults: RowFaults, chunk: Chunk, number: int, task: Task, error: ValueError) -> None:
    line = chunk.lines[number - chunk.first_row] if chunk.lines else None
    faults.add(number, f"task {task.name!r} {error}", line)


class _Store:
    """Examples while they grow: one array a chunk, put together once at the end."""

    def __init__(self) -> None:
        self.ids: list[NDArray[np.int32]] = []
        self.lengths: list[NDArray[np.int64]] = []
        self.firsts: list[NDArray[np.int32]] = []
        self.counts: list[NDArray[np.int64]] = []
        self.targets: list[NDArray[Any]] = []
        self.rows: list[NDArray[np.int64]] = []
        self.hashes: list[NDArray[np.uint64]] = []
        self.cut: list[NDArray[np.bool_]] = []
        self.readings: list[Reading] = []
        self.blank_rows: list[int] = []

    def add(
        self,
        items: Sequence[Item],
        tokens: Sequence[Tokens],
        targets: Sequence[Any],
        numbers: Sequence[int],
    ) -> None:
        sequences = [sequence for one in tokens for sequence in one.sequences]
        self.ids.append(np.concatenate([np.asarray(ids, np.int32) for ids, _ in sequences]))
        self.lengths.append(np.array([len(ids) for ids, _ in sequences], np.int64))
        self.firsts.append(np.array([len(types) - sum(types) for _, types in sequences], np.int32))
        self.counts.append(np.array([len(one.sequences) for one in tokens], np.int64))
        self.targets.append(_as_array(targets))
        self.rows.append(np.array(numbers, np.int64))
        self.hashes.append(np.array([text_hash(item.texts) for item in items], np.uint64))
        self.cut.append(np.array([one.truncated for one in tokens], np.bool_))
        self.readings += [one.reading for one in tokens if one.reading is not None]

    def examples(self) -> Examples:
        return Examples(
            ids=np.concatenate(self.ids),
            offsets=_begins(self.lengths),
            firsts=np.concatenate(self.firsts),
            parts=_begins(self.counts),
            targets=np.concatenate(self.targets),
            rows=np.concatenate(self.rows),
            hashes=np.concatenate(self.hashes),
            cut=np.concatenate(self.cut),
            blank_rows=self.blank_rows,
            readings=self.readings or None,
        )


def _begins(counts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])


def _as_array(targets: Sequence[Any]) -> NDArray[Any]:
    """Targets as one array; those that a kind wrapped in `Ragged` as objects, whatever their sizes."""
    if not isinstance(targets[0], Ragged):
        return np.asarray(targets)
    found = np.empty(len(targets), object)
    for place, target in enumerate(targets):
        found[place] = target.value
    return found
