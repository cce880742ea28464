"""The lines of text files, which must be UTF-8, and chunks of the rows that they hold."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onepass.data.rows import Chunk
from onepass.data.utf8 import escaped_byte, not_utf8, nul_advice
from onepass.errors import DataError

MAX_LINE = 2**24  # characters of a line or a field; bounds memory when a quote is never closed

Row = tuple[int, int, Mapping[str, Any]]  # number, line, values


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
