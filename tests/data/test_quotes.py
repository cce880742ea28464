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


@pytest.mark.parametrize(
    "text",
    [
        'a\tb\n"x ""y"" z"\t"1"\n"plain"\t2\n"more"\t3\n"Hi" he said\t4\n',  # most rows are quoted
        'a\tb\n"x ""y"" z"\t1\n"plain"\t2\n"more"\t3\n"Hi" he said\t4\n',  # and a quote in one of them is doubled
        '"a"\t"b"\n"x ""y"" z"\t1\nplain\t2\nmore\t3\n"Hi" he said\t4\n',  # the header is
    ],
)
def test_in_a_file_that_is_quoted_a_wrong_quote_is_a_fault_of_its_row(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text(text)
    records = list(open_source(path).records(None))
    assert [list(row.values.values()) for row in records if isinstance(row, Row)] == [
        ['x "y" z', "1"],
        ["plain", "2"],
        ["more", "3"],
    ]
    (reject,) = [record for record in records if not isinstance(record, Row)]
    assert "quotes are wrong" in reject.reason


@pytest.mark.parametrize(
    "lines",
    [
        ['"Stop!" he said.\tpos', '"I will go."\tneg', '"I came."\tpos'],
        ['"Stop!" he said.\tpos', '"Stop!" they said.\tpos', '"I came."\tpos', '"Saw ""it""."\tneg', '"No."\tpos'],
    ],
)
def test_texts_that_are_quotations_do_not_make_a_file_a_quoted_one(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("a\tb\n" + "\n".join(lines) + "\n")
    assert cells(path) == [line.split("\t") for line in lines]


def test_quotes_within_cells_do_not_make_a_file_a_quoted_one(tmp_path: Path) -> None:
    lines = [f'He said "number {i}" twice\t{i}' for i in range(20)]
    lines[5:5] = ['"Hi" he said\tx', '"Never closed, she said\ty']
    path = tmp_path / "rows.tsv"
    path.write_text("a\tb\n" + "\n".join(lines) + "\n")
    assert cells(path) == [line.split("\t") for line in lines]


def test_a_quoted_header_behind_a_byte_order_mark_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text('"a"\t"b"\nx\t1\n', encoding="utf-8-sig")
    assert cells(path) == [["x", "1"]]
