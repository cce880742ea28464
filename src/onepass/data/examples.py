"""The tokenised rows of one task and one split, in flat arrays: a row costs about four bytes a token."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepass.data.items import Item, Reading, Tokens

_BLOCK = 8192  # rows


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


class Store:
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
        """Take more rows: what was read of each, its target, and its number in the file."""
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
