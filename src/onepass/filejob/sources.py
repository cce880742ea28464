"""Files to be labelled: csv, tsv and jsonl, which can be read on from any byte, and where the other formats are."""

import csv
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from onepass.data.delimited import csv_problem, csv_reader, miscounted, separator
from onepass.data.files import FORMATS, column_names, format_of
from onepass.data.quotes import are_quoted
from onepass.data.text import MAX_LINE
from onepass.data.utf8 import check_encoding
from onepass.errors import DataError
from onepass.filejob.columns import surveyed
from onepass.filejob.lines import Lines, TooLong
from onepass.filejob.records import DEEPEST, Position, Record, Reject, Row, Source, shown, too_deep, unwritable
from onepass.filejob.tables import ArrowSource, ParquetSource, WholeSource

_TOO_LONG = f"a line is longer than {MAX_LINE:,} characters."


def open_source(path: Path, columns: dict[str, str] | None = None) -> Source:
    """The rows of a file; `columns` as an earlier run found them spare a look through the whole of a file in JSON."""
    form = format_of(path)
    if form is FORMATS[".jsonl"]:
        return JsonlSource(path, columns)
    if form is FORMATS[".csv"]:
        return CsvSource(path)
    if form is FORMATS[".parquet"]:
        return ParquetSource(path)
    return ArrowSource(path) if form is FORMATS[".arrow"] else WholeSource(path, columns)


class _LineSource:
    """What csv and jsonl share: a place in bytes, lines and rows."""

    def __init__(self, path: Path):
        check_encoding(path)
        self.path = path
        self.lines = Lines(path)
        self.row = 0

    def position(self) -> Position:
        return {"offset": self.lines.offset, "line": self.lines.line, "row": self.row}

    def share(self) -> float:
        return self.lines.offset / max(self.lines.bytes, 1)

    def close(self) -> None:
        self.lines.close()

    def _go_to(self, start: Position) -> None:
        self.lines.go_to(start["offset"], start["line"])
        self.row = start["row"]


class CsvSource(_LineSource):
    """A csv or tsv file. A broken row costs that row: after wrong quotes over several lines, its second line is read.

    Columns without a name (an index of pandas) are kept, as unnamed_1 and so on.
    """

    def __init__(self, path: Path):
        column_names(path)  # raises if the header cannot be read
        super().__init__(path)
        self.delimiter = separator(path)
        self.quoted = are_quoted(path, self.delimiter)
        self.header = _named([field.strip() for field in next(fields for fields in self._reader() if fields)])
        self.columns = dict.fromkeys(self.header, "text")
        self._first = self.position()

    def _reader(self) -> Any:
        # It takes no more lines than the row has, so that the place behind a row is known.
        return csv_reader(self.lines, self.delimiter, self.quoted)

    def records(self, start: Position | None) -> Iterator[Record]:
        self._go_to(start or self._first)
        lines, reader = self.lines, self._reader()
        while True:
            lines.begin_row()
            line, offset = lines.line + 1, lines.offset
            fields: list[str] | None = []
            wrong_quotes = False
            try:
                fields = next(reader, None)
                fault = lines.fault
            except TooLong:
                fault = _TOO_LONG
            except csv.Error as error:
                fault, wrong_quotes = csv_problem(error), True
            if fields is None:
                return
            if not fields and not fault:  # a blank line
                continue
            self.row += 1
            begins, size = shown(lines.start), lines.offset - offset
            if wrong_quotes and lines.second:
                lines.go_to(*lines.second)  # the lines that an open quote took in are rows of their own
            fault = fault or miscounted(fields, self.header)
            if fault:
                yield Reject(self.row, line, fault, begins, size)
            else:
                named = zip(self.header, fields, strict=True)
                yield Row(self.row, line, {name: field or None for name, field in named}, size)


def _named(header: list[str]) -> list[str]:
    """The columns with a name for each that has none.

    >>> _named(["", "text", "unnamed_2", ""])
    ['unnamed_1', 'text', 'unnamed_2', 'unnamed_3']
    """
    free = (f"unnamed_{place}" for place in count(1) if f"unnamed_{place}" not in header)
    return [name or next(free) for name in header]


class JsonlSource(_LineSource):
    """A file of one JSON object a line. It is read through before, for the names and types of all its columns."""

    def __init__(self, path: Path, columns: dict[str, str] | None = None):
        super().__init__(path)
        self.columns = surveyed(self.records(None)) if columns is None else columns
        if not self.columns:
            raise DataError(f"{path} has no row that can be read: each line must be a JSON object, in UTF-8.")

    def records(self, start: Position | None) -> Iterator[Record]:
        self._go_to(start or {"offset": 0, "line": 0, "row": 0})
        lines = self.lines
        while True:
            lines.begin_row()
            offset, values = lines.offset, dict[str, Any]()
            try:
                text = next(lines)
                if not text.strip():
                    continue
                values, fault = _parsed(text)
                fault = lines.fault or fault
            except StopIteration:
                return
            except TooLong:
                fault = _TOO_LONG
            self.row += 1
            size = lines.offset - offset
            if fault:
                yield Reject(self.row, lines.line, fault, shown(lines.start), size)
            else:
                yield Row(self.row, lines.line, values, size)


def _parsed(text: str) -> tuple[dict[str, Any], str | None]:
    """The object in a line, or why there is none."""
    try:
        value = json.loads(text)
    except RecursionError:
        return {}, "is not valid JSON (nested too deeply)."
    except ValueError as error:
        return {}, f"is not valid JSON ({getattr(error, 'msg', error)})."
    if not isinstance(value, dict):
        return {}, "a row must be a JSON object."
    if text.count("[") + text.count("{") > DEEPEST and (fault := too_deep(value)):
        return {}, fault
    return value, unwritable(value) if "\\u" in text else None
