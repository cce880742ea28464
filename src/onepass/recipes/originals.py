"""Reading files as their authors wrote them: tables without quotes, JSON, texts in folders."""

import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onepass.errors import DataError
from onepass.recipes.recipe import Row

ENCODINGS = {"utf-8-sig": "UTF-8", "cp1252": "Windows-1252"}


def lines(path: Path, encoding: str = "utf-8-sig") -> Iterator[tuple[int, str]]:
    """The lines of a file, or of a .gz file, with their numbers."""
    try:
        opened = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # noqa: SIM115
        with opened, io.TextIOWrapper(opened, encoding=encoding, newline="\n") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte 0x{error.object[error.start]:02x} is not {ENCODINGS[encoding]}.") from None
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def old_lines(path: Path) -> list[str]:
    """The lines of a file of the time of Windows-1252, or of the copy in UTF-8 that somebody has made of it."""
    try:
        return [line for _, line in lines(path)]
    except DataError:
        return [line for _, line in lines(path, "cp1252")]


def table(
    *columns: str, header: bool = True, make: Callable[[Row], Row | None] | None = None, short_lines: bool = False
) -> Callable[[Path], Iterator[Row]]:
    """Reads a file with tabs between the columns, in which quotes mean nothing.

    columns: names of the columns, in order, of a file without a header; else those it must have.
    make: our row from the file's, or None to leave it out.
    short_lines: leave out lines with too few fields.
    """

    def read(path: Path) -> Iterator[Row]:
        found = lines(path)
        names: Sequence[str] = columns
        if header:
            names = [name.strip() for name in next(found, (1, ""))[1].split("\t")]
            if missing := [column for column in columns if column not in names]:
                raise DataError(
                    f"{path}: the header has no {', '.join(map(repr, missing))}. Found: {', '.join(names)}."
                )
        for number, line in found:
            if not line.strip():
                continue
            fields = line.split("\t")
            if len(fields) < len(names):
                if short_lines:
                    continue
                raise DataError(f"{path}, line {number}: {len(fields)} fields, but {len(names)} are needed.")
            row: Row | None = dict(zip(names, fields, strict=False))
            row = _made(make, row, f"{path}, line {number}")
            if row is not None:
                yield row

    return read


def json_lines(make: Callable[[Row], Row | Sequence[Row] | None]) -> Callable[[Path], Iterator[Row]]:
    """Reads a file of one JSON object a line; `make` gives our row, several, or none."""

    def read(path: Path) -> Iterator[Row]:
        for number, line in lines(path):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: is not valid JSON ({error}).") from None
            made = _made(make, value, f"{path}, line {number}")
            if isinstance(made, dict):
                yield made
            else:
                yield from made or ()

    return read


def json_file(make: Callable[[Any], Iterator[Row]]) -> Callable[[Path], Iterator[Row]]:
    """Reads a file that is one JSON value."""

    def read(path: Path) -> Iterator[Row]:
        try:
            value = json.loads("\n".join(line for _, line in lines(path)))
        except ValueError as error:
            raise DataError(f"{path}: is not valid JSON ({error}).") from None
        try:
            yield from make(value)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise DataError(f"{path} is not as expected: {_missing(error)}.") from None

    return read


def _made(make: Callable[[Row], Any] | None, row: Any, where: str) -> Any:
    try:
        return row if make is None else make(row)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise DataError(f"{where} is not as expected: {_missing(error)}.") from None


def _missing(error: Exception) -> str:
    return f"there is no {error.args[0]!r}" if isinstance(error, KeyError) else str(error)
