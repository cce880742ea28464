"""The forms in which rows are written: each piece becomes bytes that are added to a file."""

import base64
import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from onepass.data.scalars import Precise
from onepass.errors import ConfigError
from onepass.filejob.cells import safe

Cells = Mapping[str, Any]
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
GROUP_BYTES = 2**25  # of a parquet row group in memory
_AS_JSON, _AS_TEXTS = {b"as": b"json"}, {b"as": b"texts"}  # fields whose values are first made text, or lists of texts


class Format(Protocol):
    """How rows become bytes."""

    def header(self) -> bytes:
        """What the file begins with."""

    def encode(self, rows: Sequence[Cells]) -> bytes:
        """Some rows."""

    def finish(self, draft: Path) -> Path:
        """The file made out of all that was encoded: the draft itself, or another beside it."""


class Csv:
    """Comma or tab separated; a list or a mapping in a cell is written as JSON."""

    def __init__(self, names: Sequence[str], *, delimiter: str = ",", spreadsheet_safe: bool = False):
        self.names, self.delimiter, self.spreadsheet_safe = list(names), delimiter, spreadsheet_safe

    def header(self) -> bytes:
        return self._lines([self.names])

    def encode(self, rows: Sequence[Cells]) -> bytes:
        return self._lines([[_flat(row.get(name)) for name in self.names] for row in rows])

    def _lines(self, rows: Sequence[Sequence[Any]]) -> bytes:
        text = io.StringIO(newline="")
        plain, quoted = (
            csv.writer(text, delimiter=self.delimiter, lineterminator="\n", quoting=quoting)
            for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
        )
        for row in rows:
            cells = [safe(cell) for cell in row] if self.spreadsheet_safe else row
            # Before Python 3.13 a lone carriage return is not quoted, and ends the row for who reads it.
            has_return = any(isinstance(cell, str) and "\r" in cell for cell in cells)
            (quoted if has_return else plain).writerow(cells)
        return text.getvalue().encode("utf-8")

    def finish(self, draft: Path) -> Path:
        return draft


class Jsonl:
    """One JSON object a line, with the same keys in each."""

    def __init__(self, names: Sequence[str]):
        self.names = list(names)

    def header(self) -> bytes:
        return b""

    def encode(self, rows: Sequence[Cells]) -> bytes:
        return "".join(_json({name: row.get(name) for name in self.names}) + "\n" for row in rows).encode("utf-8")

    def finish(self, draft: Path) -> Path:
        return draft


class Parquet:
    """Pieces are kept as Arrow streams, one after the other, and put together as a parquet file at the end.

    A parquet file cannot be added to after a kill: its index is at its end.
    """

    def __init__(self, path: Path, schema: Any):
        self.path, self.schema = path, schema
        for field in schema:
            self._try(field, [])

    def header(self) -> bytes:
        return b""

    def encode(self, rows: Sequence[Cells]) -> bytes:
        import pyarrow as pa

        columns = []
        for field in self.schema:
            values = [row.get(field.name) for row in rows]
            if field.metadata == _AS_JSON:
                values = [value if value is None or isinstance(value, str) else _json(value) for value in values]
            elif field.metadata == _AS_TEXTS:
                values = [value if value is None else [_flat(item) for item in value] for value in values]
            exact = [_exact(value) for value in values]
            if "timestamp[s" in str(field.type):  # kept in milliseconds, which not every one fits into
                self._try(field, exact)
            columns.append(self._array(field, exact))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.schema) as stream:
            stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=self.schema))
        return sink.getvalue().to_pybytes()

    def _array(self, field: Any, values: Sequence[Any]) -> Any:
        """A column, in Arrow; a value that Arrow cannot take back for a type of its own ends the job in words."""
        import pyarrow as pa

        try:
            return pa.array(values, field.type)
        except pa.ArrowException as error:
            raise self._refused(field, error) from error

    def _try(self, field: Any, values: Sequence[Any]) -> None:
        """Raise if a column with these values cannot be written; at the end all the work would be lost."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table, sink = pa.table({field.name: self._array(field, values)}), pa.BufferOutputStream()
        try:
            pq.write_table(table, sink)
            # Arrow before 25 writes a time that does not fit as another one.
            if values and not pq.read_table(pa.BufferReader(sink.getvalue())).cast(table.schema, safe=False).equals(
                table
            ):
                raise pa.ArrowInvalid("a value would overflow")
        except (pa.ArrowException, OSError) as error:
            raise self._refused(field, error) from error

    def _refused(self, field: Any, error: Exception) -> ConfigError:
        why = str(error).strip().partition("\n")[0].rstrip(".")
        return ConfigError(
            f"{self.path} cannot hold the column {field.name!r} of the type {field.type} ({why}). "
            "Choose a .csv or .jsonl output."
        )

    def finish(self, draft: Path) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        made = draft.with_suffix(".parquet")
        end = draft.stat().st_size
        schema = self.schema.remove_metadata()
        with pa.OSFile(str(draft)) as source, pq.ParquetWriter(made, schema) as writer:
            batches: list[Any] = []
            while source.tell() < end:
                batches += pa.ipc.open_stream(source)
                if sum(batch.nbytes for batch in batches) >= GROUP_BYTES or source.tell() >= end:
                    writer.write_table(pa.Table.from_batches(batches).cast(schema))
                    batches = []
        return made


def make_format(path: Path, columns: Mapping[str, str], first: Cells, schema: Any, spreadsheet_safe: bool) -> Format:
    """The format of an output with the columns of the source (and their Arrow schema, if known) and the added ones."""
    names = [*columns, *first]
    ending = path.suffix.lower()
    if ending == ".parquet":
        return Parquet(path, _schema(columns, first, schema))
    if ending in (".jsonl", ".ndjson"):
        return Jsonl(names)
    return Csv(names, delimiter="\t" if ending == ".tsv" else ",", spreadsheet_safe=spreadsheet_safe)


def _schema(columns: Mapping[str, str], first: Cells, known: Any) -> Any:
    import pyarrow as pa

    types = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    fields = []
    for name, holds in columns.items():
        if known is not None:
            fields.append(pa.field(name, known.field(name).type))
        elif holds in types:
            fields.append(pa.field(name, types[holds]))
        else:
            fields.append(pa.field(name, pa.string(), metadata=_AS_JSON))
    for name, value in first.items():
        kind = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), int: pa.float64()}.get(type(value))
        if kind:
            fields.append(pa.field(name, kind))
        elif isinstance(value, list):
            fields.append(pa.field(name, pa.list_(pa.string()), metadata=_AS_TEXTS))
        else:
            fields.append(pa.field(name, pa.string(), metadata=_AS_JSON))
    return pa.schema(fields)


def _exact(value: Any) -> Any:
    """The value with what only Arrow has as it was; looks into lists, pairs of a map, and mappings."""
    if isinstance(value, Precise):
        return value.scalar
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    return type(value)(map(_exact, value)) if type(value) in (list, tuple) else value


def _flat(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return None  # a missing number of pandas; "nan" in a csv file would be a text
    if isinstance(value, bytes):
        return _as_text(value)
    return _json(value) if isinstance(value, (list, dict)) else value


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_as_text, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_as_text)


def _as_text(value: Any) -> str:
    """What has no form of its own in JSON and csv: bytes as the text that they are, or else in base64."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    return base64.b64encode(value).decode("ascii") if "\0" in text else text


def _finite(value: Any) -> Any:
    """The value with null for numbers that JSON has no words for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
