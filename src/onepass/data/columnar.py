"""Parquet, Arrow and Feather files, read batch by batch; values keep their types, but labels with names become words.

pyarrow is imported when such a file is read: text files do without it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onepass.data.classlabels import in_words, label_names
from onepass.data.rows import Chunk, RowFaults, unique, wanted
from onepass.data.scalars import python_value, python_values
from onepass.errors import DataError
from onepass.extras import advice

# pyarrow's own errors are these or plain ArrowExceptions; MemoryError: a damaged length asks for terabytes
_BUILT_IN = (OSError, ValueError, TypeError, LookupError, OverflowError, NotImplementedError, MemoryError)


def parquet_names(path: Path) -> list[str]:
    with _opened_parquet(path) as file:
        return _names(path, file.schema_arrow)


def parquet_chunks(path: Path, columns: Sequence[str] | None, size: int, faults: RowFaults) -> Iterator[Chunk]:
    with _opened_parquet(path) as file:
        names = wanted(path, columns, _names(path, file.schema_arrow))
        known = label_names(file.schema_arrow)
        yield from _chunks(path, file.iter_batches(batch_size=size, columns=names), names, size, known)


def arrow_names(path: Path) -> list[str]:
    with _opened_arrow(path) as reader:
        return _names(path, reader.schema)


def arrow_chunks(path: Path, columns: Sequence[str] | None, size: int, faults: RowFaults) -> Iterator[Chunk]:
    names = wanted(path, columns, arrow_names(path))
    with _opened_arrow(path, names) as reader:
        is_stream = not hasattr(reader, "num_record_batches")
        batches = reader if is_stream else map(reader.get_batch, range(reader.num_record_batches))
        yield from _chunks(path, batches, names, size, label_names(reader.schema))


def _names(path: Path, schema: Any) -> list[str]:
    with _as_data_error(str(path)):  # a damaged name is not UTF-8
        names = list(schema.names)
    return unique(path, names)


@contextmanager
def _opened_parquet(path: Path) -> Iterator[Any]:
    with _as_data_error(str(path)):
        import pyarrow.parquet

        file = pyarrow.parquet.ParquetFile(path)
    with file:
        yield file


@contextmanager
def _opened_arrow(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """A reader of an Arrow file, or of an Arrow stream (what Hugging Face datasets keeps in its .arrow files)."""
    with _as_data_error(str(path)):
        import pyarrow

        source = pyarrow.memory_map(str(path))
    with source:
        is_file = source.read(6) == b"ARROW1"
        open_ipc = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
        with _as_data_error(str(path)):
            source.seek(0)
            reader = open_ipc(source)
            if columns is not None:  # the others are then not even decompressed
                fields = [reader.schema.get_field_index(name) for name in columns]
                source.seek(0)
                reader = open_ipc(source, options=pyarrow.ipc.IpcReadOptions(included_fields=fields))
        yield reader


def _chunks(
    path: Path, batches: Iterable[Any], columns: Sequence[str], size: int, labels: Mapping[str, list[str]]
) -> Iterator[Chunk]:
    row = 1
    left = iter(batches)
    while True:
        with _as_data_error(f"{path}, after row {row - 1}"):
            batch = next(left, None)
        if batch is None:
            return
        for start in range(0, batch.num_rows, size):
            part = batch.slice(start, size)
            found = {name: _values(path, name, row, part.column(name)) for name in columns}
            for name in labels.keys() & found.keys():
                found[name] = in_words(found[name], labels[name])
            yield Chunk(row, found)
            row += part.num_rows


def _values(path: Path, name: str, first_row: int, column: Any) -> list[Any]:
    try:
        with _as_data_error(""):
            column.validate(full=True)  # offsets of a damaged file may point outside of it
            return python_values(column)
    except DataError:
        found = []
        for row in range(len(column)):
            with _as_data_error(f"{path}, row {first_row + row}, column {name!r}"):
                check_values(column.slice(row, 1))
                found.append(python_value(column[row]))
        return found


def check_values(column: Any) -> None:
    """Raise if a value cannot be read. Arrow alone would look at all values behind a slice, those of other rows too."""
    import pyarrow as pa

    if isinstance(column, pa.ExtensionArray):
        check_values(column.storage)
    elif isinstance(column, pa.StructArray):
        column.validate()
        for field in column.flatten():
            check_values(field)
    elif isinstance(column, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):  # a map is a ListArray too
        for place in range(len(column)):
            one = column.slice(place, 1)
            one.validate()  # of one list it sees whether its offsets point outside; to follow these is a crash
            if (values := one[0].values) is not None:
                check_values(values)
    elif isinstance(column, pa.DictionaryArray):
        column.validate()
        for index in column.indices.drop_null().to_pylist():
            if not 0 <= index < len(column.dictionary):
                raise ValueError(f"index {index} is out of bounds")
            check_values(column.dictionary.slice(index, 1))
    else:
        column.validate(full=True)


@contextmanager
def _as_data_error(where: str) -> Iterator[None]:
    """Makes what pyarrow raises a DataError: its own errors derive from these or from Exception alone."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise DataError(f"{where} cannot be read: {advice(error, 'Reading it') or error}") from None
    except Exception as error:
        if not isinstance(error, _BUILT_IN) and not type(error).__module__.startswith("pyarrow"):
            raise
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise DataError(f"{where} cannot be read: {reason}.") from error
