"""Csv, tsv, jsonl and json files, which must be UTF-8.

All but json are read line by line; a json file is one value and so is held in memory as a whole.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from onepass.data.quotes import are_quoted
from onepass.data.rows import Chunk, RowFaults, unique, wanted
from onepass.data.utf8 import escaped_byte, not_utf8, nul_advice
from onepass.errors import DataError

MAX_LINE = 2**24  # characters of a line or a field; bounds memory when a quote is never closed
JUDGED_LINES = 50  # lines from which the separator is told where the header leaves it open
NEVER_CLOSED = "a quote is opened here and never closed."

_QUOTED = re.compile('"[^"]*"')
_SURROGATE = re.compile("[\ud800-\udfff]")

Row = tuple[int, int, Mapping[str, Any]]  # number, line, values
Columns = dict[str, list[Any]]


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


def jsonl_names(path: Path) -> list[str]:
    faults = RowFaults(path)
    names = dict.fromkeys(name for _, _, values in _json_rows(path, faults) for name in values)
    faults.check()
    return list(names)


def jsonl_chunks(path: Path, columns: Sequence[str] | None, size: int, faults: RowFaults) -> Iterator[Chunk]:
    columns = jsonl_names(path) if columns is None else list(dict.fromkeys(columns))
    seen: dict[str, None] = {}
    yield from chunked(_noted(_json_rows(path, faults), seen), columns, size)
    # A column may begin in the last row (a table of several tasks, one after the other), so only now it can be missed.
    if seen or not faults:
        wanted(path, columns, list(seen))


def _noted(rows: Iterable[Row], names: dict[str, None]) -> Iterator[Row]:
    for row in rows:
        names.update(dict.fromkeys(row[2]))
        yield row


def _json_rows(path: Path, faults: RowFaults) -> Iterator[Row]:
    row = 0
    for line, text in enumerate(read_lines(path), 1):
        if not text.strip():
            continue
        row += 1
        try:
            value = _json_value(text)
        except ValueError as error:
            faults.add(row, f"is not valid JSON ({getattr(error, 'msg', error)}).", line)
            continue
        if isinstance(value, dict):
            yield row, line, value
        else:
            faults.add(row, f"a row must be a JSON object, this is a {_json_type(value)}.", line)
    if row == 0:
        raise DataError(f"{path} has no rows.")


def json_names(path: Path) -> list[str]:
    faults = RowFaults(path)
    names = list(_json_columns(path, faults)[0])
    if not names:
        faults.check()
    return names


def json_chunks(path: Path, columns: Sequence[str] | None, size: int, faults: RowFaults) -> Iterator[Chunk]:
    table, broken = _json_columns(path, faults)
    if not table:
        return
    columns = wanted(path, columns, list(table))
    start, total = 0, len(next(iter(table.values())))
    while start < total:
        end = start
        while end < min(start + size, total) and end not in broken:
            end += 1
        if end > start:
            yield Chunk(start + 1, {name: table[name][start:end] for name in columns})
        start = end + (end in broken)


def _json_columns(path: Path, faults: RowFaults) -> tuple[Columns, set[int]]:
    """The columns of a list of objects, or of an object of columns; and the places of rows that are no objects, of
    which the columns hold nothing."""
    try:
        value = _json_value("".join(read_lines(path, longest=-1)))
    except json.JSONDecodeError as error:
        advice = " Are these JSON lines? Then name the file .jsonl." if error.msg == "Extra data" else ""
        raise DataError(f"{path}, line {error.lineno}: is not valid JSON ({error.msg}).{advice}") from None
    except ValueError as error:
        raise DataError(f"{path}: is not valid JSON ({error}).") from None
    broken: set[int] = set()
    if isinstance(value, list):
        columns, broken = _columns_of_rows(value, faults)
    elif isinstance(value, dict) and all(isinstance(column, (list, dict)) for column in value.values()):
        columns = _columns_alike(path, value)
    else:
        raise DataError(f"{path} is a JSON {_json_type(value)}. Needed: a list of objects, or an object of lists.")
    if not broken and not any(columns.values()):
        raise DataError(f"{path} has no rows.")
    return columns, broken


def _columns_of_rows(rows: list[Any], faults: RowFaults) -> tuple[Columns, set[int]]:
    broken: set[int] = set()
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            faults.add(place + 1, f"a row must be a JSON object, this is a {_json_type(row)}.")
            rows[place] = {}
            broken.add(place)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}, broken


def _columns_alike(path: Path, columns: Mapping[str, list[Any] | dict[str, Any]]) -> Columns:
    """Columns of the same rows; each is a list, or an object by row as of pandas."""
    rows = {tuple(column) if isinstance(column, dict) else len(column) for column in columns.values()}
    if len(rows) > 1:
        sizes = ", ".join(f"{name!r} {len(column)}" for name, column in columns.items())
        raise DataError(f"{path}: its columns do not have the same rows ({sizes}).")
    return {name: list(c.values()) if isinstance(c, dict) else c for name, c in columns.items()}


def _json_value(text: str) -> Any:
    """A JSON value; half a surrogate pair, which is no character and cannot be written as UTF-8, becomes U+FFFD."""
    try:
        value = json.loads(text)
        return _whole_characters(value) if "\\ud" in text or "\\uD" in text else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return value


def _json_type(value: Any) -> str:
    names = {str: "string", list: "list", dict: "object", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def chunked(rows: Iterable[Row], columns: Sequence[str], size: int) -> Iterator[Chunk]:
    """Gathers rows into chunks; where one was left out, a new chunk begins."""
    chunk, lines = Chunk(0, {}), [0] * 0
    for row, line, values in rows:
        if not lines or len(lines) == size or row != chunk.first_row + len(lines):
            if lines:
                yield chunk
            lines = []
            chunk = Chunk(row, {name: [] for name in columns}, lines)
        lines.append(line)
        for name, column in chunk.columns.items():
            column.append(values.get(name))
    if lines:
        yield chunk


def read_lines(path: Path, longest: int | None = None) -> Iterator[str]:
    """The lines of a file with their ends, or a DataError for the first that is no UTF-8 text or too long."""
    longest = longest or MAX_LINE
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        number = 0
        while line := file.readline(longest):
            number += 1
            if not line.isascii() and (byte := escaped_byte(line)) is not None:
                raise DataError(not_utf8(path, number, byte))
            if "\0" in line:
                raise DataError(f"{path}, line {number}: there is a NUL byte. {nul_advice(path)}")
            if len(line) == longest and line[-1] not in "\r\n":
                raise DataError(f"{path}, line {number}: longer than {longest:,} characters.")
            yield line
