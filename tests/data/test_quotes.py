"""Quotes in tab-separated files: a way to write a cell, or a part of it."""

from pathlib import Path

import pytest

from onepass.data.files import read_chunks
from onepass.filejob.records import Row
from onepass.filejob.sources import open_source


def cells(path: Path) -> list[list[object]]:
    """The rows as they are trained on, which are those that are labelled."""
    read = [list(row.values()) for chunk in read_chunks(path, ["a", "b"]) for _, row in chunk.rows()]
    labelled = [list(row.values.values()) for row in open_source(path).records(None) if isinstance(row, Row)]
    assert labelled == read
    return read


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('"Hi," he said.\tx\n"never closed\ty\n', [['"Hi," he said.', "x"], ['"never closed', "y"]]),
        ('"one\tx\ntwo"\ty\n', [['"one', "x"], ['two"', "y"]]),  # by the rules of csv, one cell of two lines
        ('5"\tx\n"6\ty\nplain\tz\n', [['5"', "x"], ['"6', "y"], ["plain", "z"]]),
        ('"as ""csv"""\tx\ny\t"z"\n', [['as "csv"', "x"], ["y", "z"]]),
        ('"a\ttab"\tx\n"two\nlines"\ty\n', [["a\ttab", "x"], ["two\nlines", "y"]]),
        ('x\t"two\nlines"\n', [["x", "two\nlines"]]),
    ],
)
def test_quotes_that_break_the_rules_of_csv_are_characters(tmp_path: Path, text: str, rows: list[list[str]]) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("a\tb\n" + text)
    assert cells(path) == rows


def test_in_a_csv_file_quotes_always_mean_something(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a,b\n"one,x\ntwo",y\n')
    assert cells(path) == [["one,x\ntwo", "y"]]
