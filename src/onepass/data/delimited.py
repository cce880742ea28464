"""Csv and tsv files, read line by line."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from onepass.data.quotes import are_quoted
from onepass.data.rows import Chunk, RowFaults, unique, wanted
from onepass.data.text import MAX_LINE, Row, chunked, read_lines
from onepass.errors import DataError

JUDGED_LINES = 50  # lines from which the separator is told where the header leaves it open
NEVER_CLOSED = "a quote is opened here and never closed."

_QUOTED = re.compile('"[^"]*"')


def csv_names(path: Path) -> list[str]:
    return _header(path, _csv_reader(path))[1]


def csv_chunks(path: Path, columns: Sequence[str] | None, size: int, faults: RowFaults) -> Iterator[Chunk]:
    reader = _csv_reader(path)
    header, names = _header(path, reader)
    columns = wanted(path, columns, names)
    yield from chunked(_csv_rows(reader, header, columns, faults), columns, size)


def separator(path: Path) -> str:
    """What stands between columns: a comma, in a .tsv file a tab; another where the header has only that.

    Spreadsheets of many countries write semicolons into their .csv files. A header that has several (a;"b";c, d) is
    read as most of the first rows have as many fields as it; if that leaves a choice, names rather hold ", " than ",".
    """
    usual = "\t,;|" if path.suffix.lower() == ".tsv" else ",;\t|"
    header = _QUOTED.sub("", next((line for line in read_lines(path) if line.strip()), ""))
    found = [one for one in usual if one in header]
    if len(found) < 2:
        return found[0] if found else usual[0]
    lines = _first_lines(path)
    return max(found, key=lambda one: (_fitting(lines, one), f"{one} " not in header))


def _first_lines(path: Path) -> list[str]:
    lines: list[str] = []
    with suppress(DataError):  # it is told where rows are read
        lines.extend(islice(read_lines(path), JUDGED_LINES))
    return lines


def _fitting(lines: Sequence[str], delimiter: str) -> int:
    """How many rows have as many fields as the header."""
    rows = csv_reader(lines, delimiter)
    counts: list[int] = []
    with suppress(csv.Error):  # wrong quotes, or a row that is cut at the last line
        counts.extend(len(row) for row in rows if row)
    return counts[1:].count(counts[0]) if counts else 0


def _csv_reader(path: Path) -> Any:
    delimiter = separator(path)
    return csv_reader(read_lines(path), delimiter, are_quoted(path, delimiter))


def csv_reader(lines: Iterable[str], delimiter: str, quoted: bool = True) -> Any:
    """A reader of fields; it takes no more lines than a row has."""
    # The limit is one for the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
    if not quoted:
        return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
    return csv.reader(lines, delimiter=delimiter, strict=True)


def _header(path: Path, reader: Any) -> tuple[list[str], list[str]]:
    """All fields of the header, and the names among them: a column without one (often an index) cannot be asked for."""
    try:
        fields: list[str] = next((fields for fields in reader if fields), [])
    except csv.Error as error:
        raise DataError(f"{path}, line 1: the header: {csv_problem(error)}") from None
    header = [field.strip() for field in fields]
    if header and header[0].lower().startswith("sep="):
        raise DataError(
            f"{path}, line 1: {header[0]!r} is a word to Excel, where the columns are named. Remove the line."
        )
    names = unique(path, [name for name in header if name])
    if not names:
        raise DataError(f"{path} has no header. The first line must name the columns.")
    return header, names


def _csv_rows(reader: Any, header: list[str], columns: Sequence[str], faults: RowFaults) -> Iterator[Row]:
    picked = [(name, header.index(name)) for name in columns]
    row = 0
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            # With a wrong quote it is open which of the later quotes begin a field and which end one.
            faults.add(row + 1, f"{csv_problem(error)} The rows after it were not read.", line)
            faults.broke_off = True
            return
        if fields is None:
            return
        if not fields:  # a blank line
            continue
        row += 1
        if problem := miscounted(fields, header):
            faults.add(row, problem, line)
        else:
            yield row, line, {name: fields[index] or None for name, index in picked}


def miscounted(fields: Sequence[str], header: Sequence[str]) -> str | None:
    """What is wrong with the number of a row's fields, if so."""
    if len(fields) == len(header):
        return None
    advice = " Text with a separator in it needs quotes." if len(fields) > len(header) else ""
    found = f"{len(fields)} field{'s' if len(fields) > 1 else ''}"
    return f"has {found}, the header has {len(header)}.{advice}"


def csv_problem(error: csv.Error) -> str:
    """What is wrong with a row's quotes."""
    if "unexpected end" in str(error) or "field limit" in str(error):
        return NEVER_CLOSED
    return f"quotes are wrong ({error}). A quote inside a quoted field is written twice."
