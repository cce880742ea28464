"""Parquet, Arrow, Feather, json and CoNLL files: tables whose rows are known by their numbers alone."""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from onepass.data.columnar import check_values
from onepass.data.files import RowFaults, column_names, read_chunks
from onepass.data.scalars import python_value, python_values
from onepass.errors import DataError
from onepass.filejob.columns import surveyed
from onepass.filejob.records import (
    PIECE_CHARACTERS,
    PIECE_ROWS,
    Position,
    Record,
    Reject,
    Row,
    begins,
    too_deep,
    unwritable,
)

BATCH_ROWS = 16
"""Rows that are held at a time, in Arrow and in Python: few, since a small file may say a long text again and again"""


class _TableSource:
    """What tables share: the place is a row's number."""

    def __init__(self, path: Path):
        self.path = path
        names = column_names(path)
        self.misnamed = {name: fault for name in names if (fault := unwritable(name))}
        """Why some names of columns cannot be written: rows that have a value there are rejected, as of a jsonl file"""
        self.columns = dict.fromkeys((name for name in names if name not in self.misnamed), "json")
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
        # Once for the batch: a slice is checked with all values behind it, those of other rows too.
        sound = {name: _is_sound(batch.column(name)) for name in (*self.columns, *self.misnamed)}
        size = 1
        if all(sound.values()):  # to measure a list whose offsets point outside is a crash
            size = max(1, min(BATCH_ROWS, PIECE_CHARACTERS * batch.num_rows // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, size):
            yield from self._few(batch.slice(start, size), sound)

    def _few(self, batch: Any, sound: dict[str, bool]) -> Iterator[Record]:
        columns, faults = {}, dict[int, str]()
        for name, is_sound in sound.items():
            columns[name] = _values(name, batch.column(name), is_sound, faults)
        for place, values in enumerate(zip(*columns.values(), strict=True)):
            self.row += 1
            yield self._record(self.row, dict(zip(columns, values, strict=True)), faults.get(place))

    def _record(self, number: int, values: Mapping[str, Any], fault: str | None = None) -> Record:
        # Of the row alone: a resumed run reads other batches, and must end its pieces at the same rows.
        size = sum(len(value) for value in values.values() if isinstance(value, str))
        if fault := fault or self._fault_of(values):
            return Reject(number, None, fault, begins(values), size)
        return Row(number, None, {name: values[name] for name in self.columns}, size)

    def _fault_of(self, values: Mapping[str, Any]) -> str | None:
        """Why a row cannot be written again, if so: in a column that nobody is asked about, too."""
        if named := next((name for name in self.misnamed if values[name] is not None), None):
            return f"the name of column {named!r} {self.misnamed[named]}"
        found = ((name, unwritable(value)) for name, value in values.items())
        return too_deep(values) or next((f"column {name!r} {fault}" for name, fault in found if fault), None)


def _is_sound(column: Any) -> bool:
    """Whether all values can be read; offsets of a damaged file may point outside of it."""
    try:
        column.validate(full=True)
    except Exception:  # noqa: BLE001  each value is tried by itself, and says why
        return False
    return True


def _values(name: str, column: Any, sound: bool, faults: dict[int, str]) -> list[Any]:
    if sound:
        with suppress(Exception):  # each value is tried by itself: Python has no words for some times
            return python_values(column)
    values: list[Any] = [None] * len(column)
    for place in range(len(column)):
        try:
            if not sound:
                check_values(column.slice(place, 1))
            values[place] = python_value(column[place])
        except Exception as error:  # noqa: BLE001  the reason goes to the reject file
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            faults[place] = f"column {name!r} cannot be read ({reason})."
    return values


class ParquetSource(_TableSource):
    """A parquet file, row group by row group."""

    def __init__(self, path: Path):
        import pyarrow.parquet

        super().__init__(path)
        self.file = pyarrow.parquet.ParquetFile(path)
        self.schema = self.file.schema_arrow
        # A dictionary is read anew for each batch, and holds a long text once.
        is_dictionary = any(map(pyarrow.types.is_dictionary, self.schema.types))
        self.most = PIECE_ROWS if is_dictionary else BATCH_ROWS
        self.rows = self.file.metadata.num_rows

    def close(self) -> None:
        self.file.close()

    def _batches(self, done: int) -> Iterator[Any]:
        for group in range(self.file.num_row_groups):
            about = self.file.metadata.row_group(group)
            if done >= about.num_rows:
                done -= about.num_rows
                continue
            # Texts of a megabyte come one by one, unless a dictionary holds them once for all rows.
            size = max(1, min(self.most, PIECE_CHARACTERS * about.num_rows // max(about.total_byte_size, 1)))
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
                if done < batch.num_rows:
                    yield batch.slice(done)
                done = max(0, done - batch.num_rows)


class WholeSource(_TableSource):
    """A json or CoNLL file, which is read from its beginning whatever was read before; json is held in memory whole."""

    def __init__(self, path: Path, columns: dict[str, str] | None = None):
        super().__init__(path)
        self.columns = self.columns | surveyed(self._all()) if columns is None else columns

    def records(self, start: Position | None) -> Iterator[Record]:
        self.row = start["row"] if start else 0
        for record in self._all():
            if record.number > self.row:
                self.row = record.number
                yield record

    def _all(self) -> Iterator[Record]:
        broken = _Broken(self.path)
        for chunk in read_chunks(self.path, size=PIECE_ROWS, faults=broken):
            yield from broken.before(chunk.first_row)  # a chunk ends where a row was left out
            for number, values in chunk.rows():
                yield self._record(number, values)
        yield from broken.before(None)


class _Broken(RowFaults):
    """Rows that cannot be read, as rejects."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.rejects: deque[Reject] = deque()

    def add(self, row: int, what: str, line: int | None = None) -> None:
        self.rejects.append(Reject(row, line, what))

    def before(self, row: int | None) -> Iterator[Reject]:
        """Those before a row, or all, which are then forgotten: the reader is ahead by a chunk."""
        while self.rejects and (row is None or self.rejects[0].number < row):
            yield self.rejects.popleft()
