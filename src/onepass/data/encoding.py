"""From items to tokens: tokenising, cutting long texts into windows, finding the tokens of marked characters."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from onepass.data.items import Item, Points, Reading, Texts, Tokens, Windows
from onepass.data.windows import cut, owners, without_spaces


class Encoded(Protocol):
    """One tokenised text or pair."""

    @property
    def ids(self) -> Sequence[int]: ...
    @property
    def types(self) -> Sequence[int]: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def offsets(self) -> Sequence[tuple[int, int]]: ...
    @property
    def sequences(self) -> Sequence[int | None]: ...


class Encodes(Protocol):
    """What is needed of a tokenizer."""

    @property
    def max_length(self) -> int: ...
    def encode(self, texts: Sequence[Texts], /) -> Sequence[Encoded]: ...
    def pieces(self, text: str, /) -> NDArray[np.int64]: ...
    def special_tokens(self, num_texts: int, /) -> int: ...


CHARACTERS_PER_TOKEN = 16
"""Longer texts are cut to this for each token of their windows before the work starts"""
Slice = tuple[Texts, int, int, int]
"""A sequence of an item; which of its texts is only a part, and where that part begins and ends"""


def tokenise(items: Sequence[Item], tokenizer: Encodes, points: Points, windows: Windows) -> list[Tokens]:
    """The tokens of items of one task, and where its head looks."""
    first = tokenizer.encode([sequence for item in items for sequence in item.sequences])
    slices: list[list[Slice]] = []
    encoded: list[list[Encoded]] = []
    place = 0
    for item in items:
        own = list(first[place : place + len(item.sequences)])
        place += len(own)
        encoded.append(own)
        slices.append([(sequence, -1, 0, 0) for sequence in item.sequences])
        if windows.most > 1 and len(own) == 1 and own[0].truncated:
            slices[-1] = _windows(item.sequences[0], tokenizer, windows, last=points == "tokens")
            encoded[-1] = []  # read below, with those of all other long texts
    missing = [number for number, own in enumerate(encoded) if not own]
    parts = [part for number in missing for part, *_ in slices[number]]
    again = tokenizer.encode(parts) if parts else []
    place = 0
    for number in missing:
        encoded[number] = list(again[place : place + len(slices[number])])
        place += len(slices[number])
    return [_tokens(item, own, found, points) for item, own, found in zip(items, slices, encoded, strict=True)]


def _tokens(item: Item, slices: list[Slice], encoded: list[Encoded], points: Points) -> Tokens:
    sequences = [(one.ids, one.types) for one in encoded]
    whole = slices[-1][1] < 0 or slices[-1][3] >= len(item.sequences[0][slices[-1][1]])
    truncated = any(one.truncated for one in encoded)
    if (part := slices[0][1]) >= 0:
        others = [place for place in range(len(item.sequences[0])) if place != part]
        truncated = not whole or any(len(slices[0][0][i]) < len(item.sequences[0][i]) for i in others)
    if points == "vector":
        if not item.names and item.group is None:
            return Tokens(sequences, truncated, None)
        return Tokens(sequences, truncated, Reading(names=item.names, group=item.group or ""))
    if points == "tokens":
        return Tokens(sequences, truncated, _all_tokens(item, slices, encoded))
    marks = np.array([mark[1:] for mark in item.marks], np.int32).reshape(-1, 2)
    of_text = np.array([mark[0] for mark in item.marks], np.int32)
    if points == "marks":
        ranges = _ranges(encoded[0], marks, of_text)
        missing = ranges[:, 0] < 0
        ranges[missing] = (0, 1)  # cut off: what the first token knows of the text stands for it
        return Tokens(sequences, truncated or bool(missing.any()), Reading([ranges], marks=marks))
    return Tokens(sequences, truncated, _words(item, slices, encoded, marks))


def _words(item: Item, slices: list[Slice], encoded: list[Encoded], marks: NDArray[np.int32]) -> Reading:
    """Each mark at its first token, in the window that shows most around it."""
    windows = [(start, end) for _, part, start, end in slices if part >= 0]
    owner = owners(marks, windows) if windows else np.zeros(len(marks), np.int32)
    ranges, numbers, where = [], [], []
    for number, one in enumerate(encoded):
        begin = slices[number][2] if windows else 0
        own = np.flatnonzero(owner == number).astype(np.int32)
        found = _ranges(one, marks[own] - begin, np.zeros(len(own), np.int32))
        seen = found[:, 0] >= 0
        found = found[seen]
        found[:, 1] = found[:, 0] + 1
        ranges.append(found)
        numbers.append(own[seen])
        where.append(np.full(len(found), number, np.int32))
    points = np.concatenate(numbers)
    return Reading(ranges, item.sequences[0][0], marks[points], np.concatenate(where), points, marks)


def _all_tokens(item: Item, slices: list[Slice], encoded: list[Encoded]) -> Reading:
    """The first token, which stands for no span, and then each token of the last text, window by window."""
    ranges, spans, where = [], [], []
    for number, (one, (_, _, begin, _)) in enumerate(zip(encoded, slices, strict=True)):
        last = len(item.sequences[0]) - 1
        own = np.array([i for i, text in enumerate(one.sequences) if text == last], np.int16)
        offsets = without_spaces(np.asarray(one.offsets, np.int32).reshape(-1, 2)[own], slices[number][0][last]) + begin
        places = np.concatenate([np.zeros(1, np.int16), own])
        ranges.append(np.stack([places, places + 1], 1).astype(np.int16))
        spans.append(np.concatenate([np.full((1, 2), -1, np.int32), offsets]))
        where.append(np.full(len(places), number, np.int32))
    return Reading(ranges, item.sequences[0][-1], np.concatenate(spans), np.concatenate(where))


def _ranges(encoded: Encoded, marks: NDArray[np.int32], of_text: NDArray[np.int32]) -> NDArray[np.int16]:
    """The tokens (m, 2) that each mark touches, (-1, -1) where there is none."""
    found = np.full((len(marks), 2), -1, np.int16)
    offsets = np.asarray(encoded.offsets, np.int64).reshape(-1, 2)
    texts = np.array([-1 if text is None else text for text in encoded.sequences])
    for text in np.unique(of_text):
        own = np.flatnonzero(texts == text)  # in the order of the text
        here = np.flatnonzero(of_text == text)
        first = np.searchsorted(offsets[own, 1], marks[here, 0], "right")
        end = np.searchsorted(offsets[own, 0], marks[here, 1], "left")
        touched = first < end
        found[here[touched], 0] = own[first[touched]]
        found[here[touched], 1] = own[end[touched] - 1] + 1
    return found


def _windows(texts: Texts, tokenizer: Encodes, windows: Windows, last: bool) -> list[Slice]:
    """A sequence whose longest text, or the last, is cut into windows."""
    lengths = [len(text) for text in texts]
    part = len(texts) - 1 if last else int(np.argmax(lengths))
    room = tokenizer.max_length - tokenizer.special_tokens(len(texts))
    kept = list(texts)
    for other, text in enumerate(texts):
        if other != part:
            most = room // 2  # of a long question the end is cut, so that the text it is about has some room
            kept[other] = text[: CHARACTERS_PER_TOKEN * tokenizer.max_length]
            pieces = tokenizer.pieces(kept[other])
            if len(pieces) > most:
                kept[other] = text[: int(pieces[most - 1, 1])]
            room -= min(len(pieces), most)
    text = texts[part][: CHARACTERS_PER_TOKEN * tokenizer.max_length * windows.most]  # the rest would not be read
    found = []
    for start, end in cut(text, without_spaces(tokenizer.pieces(text), text), room, windows):
        sequence = tuple(text[start:end] if i == part else kept[i] for i in range(len(texts)))
        found.append((sequence, part, start, end))
    return found
