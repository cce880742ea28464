"""Jsonl files, read line by line, and json files, each of which is one value and so is held in memory as a whole."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onepass.data.rows import Chunk, RowFaults, wanted
from onepass.data.text import Row, chunked, read_lines
from onepass.errors import DataError

Columns = dict[str, list[Any]]

_SURROGATE = re.compile("[\ud800-\udfff]")


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
    value = _rows_in(value)
    if isinstance(value, list):
        columns, broken = _columns_of_rows(value, faults)
    elif isinstance(value, dict) and all(isinstance(column, (list, dict)) for column in value.values()):
        columns = _columns_alike(path, value)
    else:
        raise DataError(f"{path} is a JSON {_json_type(value)}. Needed: a list of objects, or an object of lists.")
    if not broken and not any(columns.values()):
        raise DataError(f"{path} has no rows.")
    return columns, broken


def _rows_in(value: Any) -> Any:
    """The rows that an object holds, if it is no object of columns: under one of its keys, in lists beside the names of
    the columns, or each under a key of its own, as pandas' `table`, `split` and `index` have them."""
    if not isinstance(value, dict):
        return value
    names, data = value.get("columns"), value.get("data")
    if isinstance(names, list) and _are_all(list, data) and all(len(row) == len(names) for row in data or ()):
        return [dict(zip(map(str, names), row, strict=True)) for row in data or ()]
    inside = [found for found in value.values() if _are_all(dict, found)]
    if len(inside) == 1 and (len(value) == 1 or not all(isinstance(other, list) for other in value.values())):
        return inside[0]
    if _are_all(dict, list(value.values())):
        keys = {key for row in value.values() for key in row}
        # A table has more rows than columns; pandas numbers the rows in an object of columns.
        if len(keys) < len(value) and not all(key.isdecimal() for key in keys):
            return list(value.values())
    return value


def _are_all(kind: type, values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(one, kind) for one in values)


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
