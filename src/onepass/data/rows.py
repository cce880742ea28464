"""What every file format shares: chunks of rows, faults of rows, the choice of columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onepass.errors import DataError, did_you_mean, listed

SHOWN_ROWS = 5
SHOWN_FAULTS = 20


@dataclass
class Chunk:
    """Some rows of a file, column by column."""

    first_row: int
    """The number of the first row, from 1 and without the header; the others follow without a gap."""
    columns: dict[str, list[Any]]
    lines: list[int] | None = None
    """The line in which each row starts, for csv, tsv and jsonl."""

    def __len__(self) -> int:
        return max(map(len, self.columns.values()), default=0)

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Each row's number and its values by column."""
        for row, values in enumerate(zip(*self.columns.values(), strict=True), self.first_row):
            yield row, dict(zip(self.columns, values, strict=True))


class RowFaults:
    """Faults found in rows of a file; the same fault in many rows becomes one line.

    >>> faults = RowFaults("a.csv")
    >>> for row in (17, 18, 40, 95):
    ...     faults.add(row, "there is no text.")
    >>> faults.messages()
    ['a.csv, row 17: there is no text. (and 3 more rows: 18, 40, 95)']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.count = 0
        self.broke_off = False
        """Whether rows behind a fault could not be read"""
        self._first: dict[str, str] = {}  # by fault: its first row, as the message shows it
        self._more: dict[str, list[int]] = {}  # the next few rows; memory must not grow with a bad file
        self._counts: dict[str, int] = {}

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, row: int, what: str, line: int | None = None) -> None:
        """Notes what is wrong with a row, and the line it starts in where a reader knows it."""
        self.count += 1
        if what in self._first:
            self._counts[what] += 1
            if len(self._more[what]) < SHOWN_ROWS:
                self._more[what].append(row)
        elif len(self._first) < SHOWN_FAULTS:
            self._first[what] = f"row {row}" if line is None else f"row {row} (line {line})"
            self._more[what], self._counts[what] = [], 1

    def messages(self) -> list[str]:
        """One line for each different fault, and one for those that are too many to show."""
        lines = []
        for what, first in self._first.items():
            line = f"{self.path}, {first}: {what}"
            if more := self._counts[what] - 1:
                rows = ", ".join(map(str, self._more[what])) + (", ..." if more > SHOWN_ROWS else "")
                line += f" (and {more} more {'rows' if more > 1 else 'row'}: {rows})"
            lines.append(line)
        if hidden := self.count - sum(self._counts.values()):
            lines.append(f"{self.path}: {hidden} more rows have other faults.")
        return lines

    def check(self) -> None:
        """Raises all faults as one DataError, if there are any."""
        if self:
            raise DataError(listed(self.messages()))


class PartFaults(RowFaults):
    """Faults of one file of several, noted with those of the others; rows are counted through."""

    def __init__(self, whole: RowFaults, before: int) -> None:
        self.whole = whole
        self.before = before
        self.last = before
        """The last row met so far"""

    def __bool__(self) -> bool:
        return bool(self.whole)

    @property
    def broke_off(self) -> bool:
        return self.whole.broke_off

    @broke_off.setter
    def broke_off(self, value: bool) -> None:
        self.whole.broke_off = value

    def add(self, row: int, what: str, line: int | None = None) -> None:
        self.last = max(self.last, self.before + row)
        self.whole.add(self.before + row, what)


def unique(path: Path, names: Sequence[str]) -> list[str]:
    """The names of the columns, if no two are the same."""
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise DataError(f"{path}: two columns are named {', '.join(map(repr, twice))}. Rename or remove one.")
    return list(names)


def wanted(path: Path, columns: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """The columns to read, each once, if the file has them."""
    if columns is None:
        return list(names)
    known = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    faults = []
    for column in dict.fromkeys(columns):
        if column not in names:
            faults.append(f"{path} has no column {column!r}.{did_you_mean(column, names)} Columns: {known}.")
    if faults:
        raise DataError(listed(faults))
    return list(dict.fromkeys(columns))
