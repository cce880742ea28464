"""Reading data files: csv, tsv, jsonl, json, parquet, arrow, feather, conll.

Files are read in chunks of rows, so that memory does not grow with them (json is the exception: see objects.py).
Values of csv and tsv are text, and None where a field is empty; the other formats keep their types. Whatever is wrong
with a file is a DataError that names the row or the line.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onepass.data import columnar, conll, delimited, objects
from onepass.data.rows import Chunk, PartFaults, RowFaults
from onepass.errors import DataError, listed
from onepass.tasks.paths import ONCE, parts_of, similar

__all__ = ["FORMATS", "Chunk", "Format", "RowFaults", "column_names", "format_of", "read_chunks"]


@dataclass(frozen=True)
class Format:
    """How files of one format are read."""

    names: Callable[[Path], list[str]]
    chunks: Callable[[Path, Sequence[str] | None, int, RowFaults], Iterator[Chunk]]


_CSV = Format(delimited.csv_names, delimited.csv_chunks)
_JSONL = Format(objects.jsonl_names, objects.jsonl_chunks)
_CONLL = Format(conll.conll_names, conll.conll_chunks)
_ARROW = Format(columnar.arrow_names, columnar.arrow_chunks)

FORMATS = {
    ".csv": _CSV,
    ".tsv": _CSV,
    ".jsonl": _JSONL,
    ".ndjson": _JSONL,
    ".json": Format(objects.json_names, objects.json_chunks),
    ".parquet": Format(columnar.parquet_names, columnar.parquet_chunks),
    ".arrow": _ARROW,
    ".feather": _ARROW,
    ".conll": _CONLL,
    ".bio": _CONLL,
}

_TODO = {
    (".xlsx", ".xls", ".ods"): "Save the sheet as .csv.",
    (".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz"): "Unpack it.",
}

# How files begin that come under a wrong name; for those we read, the endings that are right.
_BEGINNINGS: tuple[tuple[bytes, str, tuple[str, ...]], ...] = (
    (b"\x1f\x8b", "gzip-compressed", ()),
    (b"BZh", "bzip2-compressed", ()),
    (b"\xfd7zXZ", "xz-compressed", ()),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed", ()),
    (b"PK\x03\x04", "a zip archive or an Excel file", ()),
    (b"FEA1", "Feather version 1", ()),
    (b"PAR1", "Parquet", (".parquet",)),
    (b"ARROW1", "Arrow", (".arrow", ".feather")),
)


def column_names(path: str | Path) -> list[str]:
    """The names of a file's columns; for jsonl and json those of all rows, so the whole file is read."""
    path = Path(path)
    try:
        return list(dict.fromkeys(name for part in parts_of(path) for name in format_of(part).names(part)))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_chunks(
    path: str | Path, columns: Sequence[str] | None = None, size: int = 4096, faults: RowFaults | None = None
) -> Iterator[Chunk]:
    """Reads a file in chunks of at most `size` rows, with the columns asked for (all by default).

    Of a name with a star, such as `train-*.parquet`, all the files are read, as if they were one.
    Rows that cannot be read are left out and noted in `faults`, for the caller to raise with its own. Without `faults`
    they are raised at the end of the file. What spoils the whole file is raised at once.
    """
    path = Path(path)
    found = RowFaults(path) if faults is None else faults
    try:
        parts = parts_of(path)
        if parts == [path]:
            yield from format_of(path).chunks(path, columns, size, found)
        else:
            yield from _joined(parts, columns, size, found)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except DataError as error:
        if faults is None and found:
            raise DataError(listed([*found.messages(), str(error)])) from None
        raise
    if faults is None:
        found.check()


def _joined(parts: Sequence[Path], columns: Sequence[str] | None, size: int, faults: RowFaults) -> Iterator[Chunk]:
    """The chunks of several files, with their rows counted through."""
    before = 0
    for part in parts:
        own = PartFaults(faults, before)
        for chunk in format_of(part).chunks(part, columns, size, own):
            chunk.first_row += before
            chunk.lines = None  # of which file, no message says
            own.last = max(own.last, chunk.first_row + len(chunk) - 1)
            yield chunk
        before = own.last


def format_of(path: Path) -> Format:
    """The format that the file's ending names, if there is such a file and its beginning does not speak against it."""
    if path.is_dir():
        raise DataError(f"{path} is a folder. Give a data file.")
    if not path.is_file():
        if path.exists():
            raise DataError(f"{path} {ONCE}")
        raise DataError(f"There is no file {path}.{similar(path)}")
    ending = path.suffix.lower()
    if ending not in FORMATS:
        found = f"the ending {path.suffix!r}" if ending else "no ending"
        todo = next((f" {text}" for endings, text in _TODO.items() if ending in endings), "")
        raise DataError(f"{path} has {found}. Possible: {', '.join(FORMATS)}.{todo}")
    with open(path, "rb") as file:
        start = file.read(8)
    if not start:
        raise DataError(f"{path} is empty (0 bytes).")
    for beginning, what, endings in _BEGINNINGS:
        if start.startswith(beginning) and ending not in endings:
            todo = f"Name it {endings[0]}." if endings else f"Unpack it, or save it as {ending[1:]}."
            raise DataError(f"{path} is {what}, not {ending[1:]}. {todo}")
    return FORMATS[ending]
