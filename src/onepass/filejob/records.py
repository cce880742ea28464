"""The rows of a file as a job sees them: each is readable, or a reject with a reason."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

PIECE_ROWS = 1024  # rows read, labelled and committed together
PIECE_CHARACTERS = 2**22  # or fewer rows, where texts are long: this bounds memory
START = 200  # characters of a rejected row that are kept, to recognise it by
DEEPEST = 100
"""Lists and mappings of a row that lie in each other at most"""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Row:
    """A row that could be read."""

    number: int
    """From 1, without the header"""
    line: int | None
    """The line it starts in, for csv, tsv and jsonl"""
    values: dict[str, Any]
    size: int
    """About how many characters it has"""


@dataclass(frozen=True)
class Reject:
    """A row that could not be read or labelled."""

    number: int
    line: int | None
    reason: str
    start: str = ""
    """How the row begins"""
    size: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {"row": self.number, "line": self.line, "reason": self.reason, "start": self.start}


Record = Row | Reject
Position = dict[str, int]


class Source(Protocol):
    """A file that can be read from the row after which an earlier run stopped."""

    columns: dict[str, str]
    """Its columns, and what each holds: text, integer, number, boolean or json (anything else)"""

    def records(self, start: Position | None) -> Iterator[Record]:
        """The rows from a position on, or all."""

    def position(self) -> Position:
        """Behind the record that came last."""

    def share(self) -> float:
        """About which share of the file was read; 0 where that is not known."""

    def close(self) -> None: ...


def pieces(source: Source, start: Position | None) -> Iterator[list[Record]]:
    """The records in pieces whose ends depend on the file alone, so that a resumed run cuts as an unbroken one."""
    piece: list[Record] = []
    size = 0
    for record in source.records(start):
        piece.append(record)
        size += record.size
        if len(piece) == PIECE_ROWS or size >= PIECE_CHARACTERS:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def unwritable(value: Any) -> str | None:
    """Why a value of a row cannot be kept as text, if so; looks into lists and mappings."""
    if isinstance(value, str):
        if "\0" in value:
            return "holds a NUL character."
        if half := _SURROGATE.search(value):
            return f"holds half a surrogate pair (\\u{ord(half.group()):04x}), which is no character."
    elif isinstance(value, dict):
        return next((fault for pair in value.items() for item in pair if (fault := unwritable(item))), None)
    elif isinstance(value, (list, tuple)):
        return next((fault for item in value if (fault := unwritable(item))), None)
    return None


def too_deep(value: Any) -> str | None:
    """Why a row cannot be kept, if lists and mappings in it lie in each other too often."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, (list, tuple, dict))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return f"is nested too deeply (more than {DEEPEST} times)." if depth > DEEPEST else None


def shown(text: str) -> str:
    r"""The start of a row, with what is no character made visible, and bytes that are none as they were.

    >>> shown("17,caf\udce9\0")
    '17,caf\\xe9\\x00'
    """
    start = re.sub("[\0\udc80-\udcff]", lambda byte: f"\\x{ord(byte.group()) & 0xFF:02x}", text[:START])
    return start.encode("utf-8", "backslashreplace").decode().rstrip("\r\n")


def begins(values: Mapping[str, Any]) -> str:
    """The start of a row that is known by its values alone."""
    return shown(" | ".join(_brief(value) for value in values.values() if value is not None))


def _brief(value: Any) -> str:
    try:
        return str(value)[:START]
    except RecursionError:  # of a row that is rejected for its depth
        return "..."
