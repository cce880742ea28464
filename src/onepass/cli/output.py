"""Writing rows to a csv, tsv, jsonl or parquet file, chunk by chunk, whole or not at all."""

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TextIO

from onepass.errors import ConfigError, DataError

Columns = Mapping[str, Sequence[Any]]


class Sheet(Protocol):
    """A file being written."""

    def write(self, columns: Columns) -> None:
        """Add rows; every call brings the same columns."""

    def close(self) -> None: ...


class Csv:
    """Comma or tab separated; a list or a mapping in a cell is written as JSON."""

    def __init__(self, path: Path, names: Sequence[str], delimiter: str = ","):
        self.file = open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115
        self.writer = csv.writer(self.file, delimiter=delimiter, lineterminator="\n")
        self.writer.writerow(names)

    def write(self, columns: Columns) -> None:
        for row in zip(*columns.values(), strict=True):
            self.writer.writerow([_json(value) if isinstance(value, (list, dict)) else value for value in row])

    def close(self) -> None:
        _close(self.file)


class Jsonl:
    """One JSON object a line."""

    def __init__(self, path: Path):
        self.file = open(path, "w", encoding="utf-8")  # noqa: SIM115

    def write(self, columns: Columns) -> None:
        for row in zip(*columns.values(), strict=True):
            self.file.write(_json(dict(zip(columns, row, strict=True))) + "\n")

    def close(self) -> None:
        _close(self.file)


class Parquet:
    """One row group a chunk. The types are those of a parquet source, else those of the first rows."""

    def __init__(self, path: Path, source: Path):
        self.path = path
        self.known: dict[str, Any] = {}
        self.writer: Any = None
        if source.suffix.lower() == ".parquet":
            import pyarrow.parquet

            self.known = {field.name: field.type for field in pyarrow.parquet.read_schema(source)}

    def write(self, columns: Columns) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            if self.writer is None:
                types = {name: self.known.get(name) or pa.array(values).type for name, values in columns.items()}
                # A column that is still blank becomes one of texts.
                fields = [(name, pa.string() if pa.types.is_null(kind) else kind) for name, kind in types.items()]
                self.writer = pq.ParquetWriter(self.path, pa.schema(fields))
            self.writer.write_table(pa.table(dict(columns), schema=self.writer.schema))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(
                f"A column has values of several types ({reason}). Write to a .jsonl file instead."
            ) from error

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")


def check_output(path: Path, *, overwrite: bool) -> None:
    """Raise if the file cannot be written, before any work is done."""
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"{path} cannot be written: its ending says no format. Possible: {', '.join(ENDINGS)}.")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder. Give the name of a file.")
    if path.exists() and not overwrite:
        raise ConfigError(f"{path} exists already. Choose another output, or replace it with --force.")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"There is no folder {path.parent}. Make it first, or choose another output.")


@contextmanager
def new_sheet(path: Path, names: Sequence[str], source: Path) -> Iterator[Sheet]:
    """A file to fill; at the end of the block it stands at `path`, or after an error nothing does."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.new")
    sheet: Sheet | None = None
    try:
        ending = path.suffix.lower()
        if ending == ".parquet":
            sheet = Parquet(draft, source)
        elif ending in (".jsonl", ".ndjson"):
            sheet = Jsonl(draft)
        else:
            sheet = Csv(draft, names, "\t" if ending == ".tsv" else ",")
        yield sheet
        sheet.close()
        with open(draft, "rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _close(file: TextIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()
