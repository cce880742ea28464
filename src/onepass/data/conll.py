"""Files with a word and its tag on each line and a blank line after each text, as of the CoNLL tasks."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from onepass.data.findings import numbered
from onepass.data.rows import Chunk, RowFaults, wanted
from onepass.data.text import Row, chunked, read_lines
from onepass.errors import DataError

BREAK = "-DOCSTART-"


def conll_names(path: Path) -> list[str]:
    """`tokens`, the first field of the lines, `tags`, the last, and between them column2, column3, ..."""
    for line in read_lines(path):
        if fields := _fields(line):
            return ["tokens", *(f"column{number}" for number in range(2, len(fields))), *(["tags"] * (len(fields) > 1))]
    raise DataError(f"{path} has no rows.")


def conll_chunks(path: Path, columns: Sequence[str] | None, size: int, faults: RowFaults) -> Iterator[Chunk]:
    names = conll_names(path)
    columns = wanted(path, columns, names)
    yield from chunked(_rows(path, names, faults), columns, size)


def _rows(path: Path, names: list[str], faults: RowFaults) -> Iterator[Row]:
    """A row for each text: a list of words, a list of tags."""
    row, first, words, broken = 1, 1, list[list[str]](), False
    for number, line in enumerate(chain(read_lines(path), [""]), 1):
        fields = _fields(line, len(names) if words else 0)
        if fields:
            first = first if words or broken else number
            if len(fields) == len(names):
                words.append(fields)
            elif not broken:
                broken = True
                faults.add(
                    row,
                    f"has {numbered(len(fields), 'field')} in line {number}, the first line has {len(names)}.",
                    first,
                )
        elif not line.strip() or line.startswith(BREAK):
            if words and not broken:
                yield row, first, {name: [fields[i] for fields in words] for i, name in enumerate(names)}
            row += bool(words or broken)
            words, broken = [], False


def _fields(line: str, inside: int = 0) -> list[str]:
    """The fields of a line; none of one between texts, and none of a comment.

    Comments stand before a text. `inside` one, whose lines have so many fields, # is a word if it has as many.
    """
    if not line.strip() or line.startswith(BREAK):
        return []
    line = line.rstrip("\r\n")
    # Not split(): a space that does not break, as in 10 000, is a part of a word.
    fields = line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]
    return [] if line.startswith("# ") and len(fields) != inside else fields
