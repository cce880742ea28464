"""The texts that onepass predict is given on the command line or on stdin, and their answers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from json import loads
from typing import TYPE_CHECKING, Any

from onepass.cli.console import say
from onepass.data.findings import numbered
from onepass.errors import ConfigError, DataError

if TYPE_CHECKING:
    from onepass.asking import Asking
    from onepass.prediction import Labelled, Text

    Placed = tuple[str, Text]  # a text, and before it where it stands, for messages

ROWS = 1024  # most texts that are sorted by length and labelled together
PIECE = 2**20  # bytes of stdin that are taken at a time, if so many are there


def given(texts: Sequence[str], pair: bool, rows: bool) -> Iterator[Placed | None]:
    """The texts of the command line or of stdin, one by one or in twos, or rows; each with where it stands.

    None stands where stdin has no further text yet.
    """
    if list(texts) == ["-"]:
        for found in _stdin_lines():
            if found is None:
                yield None
                continue
            place, line = f"stdin, line {found[0]}", found[1]
            yield place, _row(place, line) if rows else _pair(place, line) if pair else line
    elif pair:
        if len(texts) % 2:
            raise ConfigError(f"--pair takes texts in twos, but there are {len(texts)}.")
        for number, two in enumerate(zip(texts[::2], texts[1::2], strict=True), 1):
            yield f"Pair {number}", two
    else:
        for number, text in enumerate(texts, 1):
            place = f"Text {number}"
            yield place, _row(place, text) if rows else text


def answers(model: Asking, placed: Iterable[Placed | None], names: Sequence[str] | None) -> Iterator[Labelled]:
    """The texts with their answers, in order; never more than a chunk of them in memory.

    Those that are there are answered before more are waited for: somebody types them, or a program writes one by one.
    """
    model.numbers(names)  # a wrong name is no text's fault
    for some in _chunks(placed):
        yield from _together(model, some, names)


def _chunks(placed: Iterable[Placed | None]) -> Iterator[list[Placed]]:
    """The texts that are there already, at most ROWS at a time."""
    some: list[Placed] = []
    try:
        for one in placed:
            if one is not None:
                some.append(one)
            if some and (one is None or len(some) == ROWS):
                yield some
                some = []
    except DataError:  # what stands before a line that cannot be read is answered
        if some:
            yield some
        raise
    if some:
        yield some


def _together(model: Asking, some: Sequence[Placed], names: Sequence[str] | None) -> Iterator[Labelled]:
    try:
        found = model.label([text for _, text in some], names)
    except (ConfigError, DataError):
        yield from _one_by_one(model, some, names)  # says which it was, and those before it are answered
    else:
        yield from found


def _one_by_one(model: Asking, some: Iterable[Placed], names: Sequence[str] | None) -> Iterator[Labelled]:
    for place, text in some:
        try:
            yield from model.label([text], names)
        except (ConfigError, DataError) as error:
            raise DataError(f"{place}: {str(error).removeprefix('Text 1: ')}") from None


def _row(place: str, text: str) -> dict[str, Any]:
    """A row that is written as a JSON object."""
    try:
        row = loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: {text[:80]!r} is not valid JSON ({error}). A row is an object of columns.") from None
    if not isinstance(row, dict):
        raise DataError(
            f'{place}: {text[:80]!r} is no row. A row is a JSON object of columns: {{"question": "...", ...}}.'
        )
    return row


def _pair(place: str, line: str) -> tuple[str, str]:
    parts = line.split("\t")
    if len(parts) != 2:
        raise DataError(f"{place}: {len(parts)} texts with tabs between them, but --pair needs 2.")
    return parts[0], parts[1]


def _stdin_lines() -> Iterator[tuple[int, str] | None]:
    """The lines of stdin that are not blank, with their numbers, and None where the next is not there yet.

    How many are blank is said at the end.
    """
    blank, number = 0, 0
    for line in _lines(sys.stdin.buffer):
        if line is None:
            yield None
            continue
        number += 1
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(f"stdin, line {number}: byte 0x{line[error.start]:02x} is not UTF-8.") from None
        if text.strip():
            yield number, text
        else:
            blank += 1
    if 0 < blank < number:
        say(f"{numbered(blank, 'blank line')} of stdin {'was' if blank == 1 else 'were'} passed over.")


def _lines(file: Any) -> Iterator[bytes | None]:
    """The lines of a file as they come, and None after those that were there."""
    begun: list[bytes] = []  # of a line, which may come in thousands of pieces
    while piece := file.read1(PIECE):
        end, *further = piece.split(b"\n")
        begun.append(end)
        if further:
            yield b"".join(begun)
            yield from further[:-1]
            begun = further[-1:]
        yield None
    if last := b"".join(begun):
        yield last
