"""Parquet, Arrow, Feather, json and CoNLL files: tables whose rows are known by their numbers alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onepass.data.files import RowFaults, column_names, read_chunks
from onepass.errors import DataError
from onepass.filejob.records import PIECE_CHARACTERS, PIECE_ROWS, Position, Precise, Record, Reject, Row


class _TableSource:
    """What tables share: the place is a row's number."""

    def __init__(self, path: Path):
        self.path = path
        self.columns = dict.fromkeys(column_names(path), "json")
        self.row = 0
        self.rows = 0
        """How many there are, where that is known before"""

    def position(self) -> Position:
        return {"row": self.row}

    def share(self) -> float:
        return self.row / self.rows if self.rows else 0.0

    def close(self) -> None:
        pass

    def records(self, start: Position | None) -> Iterator[Record]:
        self.row = start["row"] if start else 0
        try:
            for batch in self._batches(self.row):
                yield from self._rows(batch)
        except DataError:
            raise
        except Exception as error:
            # pyarrow raises its own errors, which derive from nothing in common, and built-in ones
            if not isinstance(error, (OSError, ValueError, TypeError, LookupError, MemoryError)) and not type(
                error
            ).__module__.startswith("pyarrow"):
                raise
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise DataError(f"{self.path}, after row {self.row} cannot be read: {reason}.") from error

    def _batches(self, done: int) -> Iterator[Any]:
        """Arrow batches of the rows after the first `done`."""
        raise NotImplementedError

    def _rows(self, batch: Any) -> Iterator[Record]:
        columns, faults = {}, dict[int, str]()
        for name in self.columns:
            columns[name] = _values(name, batch.column(name), faults)
        for place, values in enumerate(zip(*columns.values(), strict=True)):
            self.row += 1
            # Of the row alone: a resumed run reads other batches, and must end its pieces at the same rows.
            size = sum(len(value) for value in values if isinstance(value, str))
            if place in faults:
                yield Reject(self.row, None, faults[place], size=size)
            else:
                yield Row(self.row, None, dict(zip(columns, values, strict=True)), size)


def _values(name: str, column: Any, faults: dict[int, str]) -> list[Any]:
    try:
        column.validate(full=True)  # offsets of a damaged file may point outside of it
        return list(column.to_pylist())
    except Exception:  # noqa: BLE001  each value is tried again
        values: list[Any] = [None] * len(column)
        for place in range(len(column)):
            try:
                column.slice(place, 1).validate(full=True)
                values[place] = _value(column[place])
            except Exception as error:  # noqa: BLE001  the reason goes to the reject file
                reason = str(error).strip().partition("\n")[0].rstrip(".")
                faults[place] = f"column {name!r} cannot be read ({reason})."
        return values


def _value(scalar: Any) -> Any:
    """A value in Python, with the times in it that Python has no words for as Arrow has them."""
    import pyarrow as pa

    try:
        return scalar.as_py()
    except (ValueError, OverflowError):  # Python's times have no nanoseconds, and end with the year 9999
        kind, inner = scalar.type, getattr(scalar, "value", None)
        if isinstance(inner, pa.Scalar):  # of a dictionary, or of runs
            return _value(inner)
        if pa.types.is_struct(kind) and len(set(scalar)) == kind.num_fields:  # no dict has a name twice
            return {name: _value(scalar[name]) for name in scalar}
        if pa.types.is_map(kind):
            return [(_value(pair[0]), _value(pair[1])) for pair in scalar.values]
        if hasattr(kind, "value_field"):  # a list of any sort
            return [_value(item) for item in scalar.values]
        if not pa.types.is_temporal(kind):
            raise
        value = Precise(_text(scalar))
        value.scalar = scalar
        return value


def _text(time: Any) -> str:
    """A time as Arrow writes it."""
    import pyarrow as pa

    if getattr(time.type, "tz", None) is None:
        return str(time.cast("string"))
    # In a zone Arrow writes nonsense for times out of its range, and nothing if it does not know the zone.
    plain = str(time.cast(pa.timestamp(time.type.unit)).cast("string"))
    try:
        return plain if plain.startswith("<") else str(time.cast("string"))
    except pa.ArrowInvalid:
        return f"{plain}Z"


class ParquetSource(_TableSource):
    """A parquet file, row group by row group."""

    def __init__(self, path: Path):
        import pyarrow.parquet

        super().__init__(path)
        self.file = pyarrow.parquet.ParquetFile(path)
        self.schema = self.file.schema_arrow
        self.rows = self.file.metadata.num_rows

    def close(self) -> None:
        self.file.close()

    def _batches(self, done: int) -> Iterator[Any]:
        for group in range(self.file.num_row_groups):
            about = self.file.metadata.row_group(group)
            if done >= about.num_rows:
                done -= about.num_rows
                continue
            # Texts of a megabyte come in smaller batches.
            size = max(1, min(PIECE_ROWS, PIECE_CHARACTERS * about.num_rows // max(about.total_byte_size, 1)))
            for batch in self.file.iter_batches(batch_size=size, row_groups=[group]):
                if done < batch.num_rows:
                    yield batch.slice(done)
                done = max(0, done - batch.num_rows)


class ArrowSource(_TableSource):
    """An Arrow or Feather file, or an Arrow stream."""

    def __init__(self, path: Path):
        import pyarrow

        super().__init__(path)
        with pyarrow.memory_map(str(path)) as source:
            is_file = source.read(6) == b"ARROW1"
            source.seek(0)
            open_ipc = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
            self.schema = open_ipc(source).schema
        self.open_ipc = open_ipc

    def _batches(self, done: int) -> Iterator[Any]:
        import pyarrow

        with pyarrow.memory_map(str(self.path)) as source:
            reader = self.open_ipc(source)
            is_stream = not hasattr(reader, "num_record_batches")
            for batch in reader if is_stream else map(reader.get_batch, range(reader.num_record_batches)):
                size = max(1, min(PIECE_ROWS, PIECE_CHARACTERS * batch.num_rows // max(batch.nbytes, 1)))
                for start in range(done, batch.num_rows, size):
                    yield batch.slice(start, size)
                done = max(0, done - batch.num_rows)


class WholeSource(_TableSource):
    """A json or CoNLL file, which is read from its beginning whatever was read before; json is held in memory whole."""

    def records(self, start: Position | None) -> Iterator[Record]:
        self.row = start["row"] if start else 0
        for record in self._all():
            if record.number > self.row:
                self.row = record.number
                yield record

    def _all(self) -> Iterator[Record]:
        broken = _Broken(self.path)
        for chunk in read_chunks(self.path, list(self.columns), size=PIECE_ROWS, faults=broken):
            yield from broken.before(chunk.first_row)  # a chunk ends where a row was left out
            for number, values in chunk.rows():
                yield Row(number, None, values, sum(len(v) for v in values.values() if isinstance(v, str)))
        yield from broken.before(None)


class _Broken(RowFaults):
    """Rows that cannot be read, as rejects."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.rejects: list[Reject] = []

    def add(self, row: int, what: str, line: int | None = None) -> None:
        self.rejects.append(Reject(row, line, what))

    def before(self, row: int | None) -> list[Reject]:
        """Those before a row, or all, which are then forgotten: the reader is ahead by a chunk."""
        found = [reject for reject in self.rejects if row is None or reject.number < row]
        del self.rejects[: len(found)]
        return found
