import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onepass.data.items import Item, Windows
from onepass.data.reading import find_labels, read_examples
from onepass.errors import DataError
from onepass.tasks import Task


@dataclass
class Encoded:
    ids: list[int]
    types: list[int]
    truncated: bool


class WordTokenizer:
    """[CLS]=1 and [SEP]=2 around one id a word: its number of letters + 10. At most 8 tokens."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def encode(self, texts: Sequence[tuple[str, ...]]) -> list[Encoded]:
        self.calls.append(len(texts))
        return [self._one(text) for text in texts]

    def _one(self, text: tuple[str, ...]) -> Encoded:
        ids, types = [1], [0]
        for segment, part in enumerate(text):
            piece = [10 + len(word) for word in part.split()] + [2]
            ids += piece
            types += [segment] * len(piece)
        return Encoded(ids[:8], types[:8], len(ids) > 8)


class OneLabel:
    def columns(self, task: Task) -> list[str]:
        return [*task.text, task.label]

    def blank(self, task: Task, row: dict[str, Any]) -> bool:
        return row[task.label] is None

    points = "vector"
    windows = Windows()
    blank_advice = ""
    outside = ""

    def item(self, task: Task, row: dict[str, Any]) -> Item | None:
        texts = tuple(row[column] for column in task.text)
        return None if None in texts else Item([texts])

    def said(self, task: Task, row: dict[str, Any], target: Any) -> str:
        return str(target)

    def target(self, row: dict[str, Any], task: Task, labels: Sequence[str]) -> Any:
        if row[task.label] not in labels:
            raise ValueError(f"has label {row[task.label]!r}. Labels: {', '.join(labels)}.")
        return labels.index(row[task.label])

    def labels_in(self, task: Task, row: dict[str, Any]) -> Iterable[str]:
        return (row[task.label],)


class Number(OneLabel):
    def target(self, row: dict[str, Any], task: Task, labels: Sequence[str]) -> Any:
        return float(row[task.label])

    def labels_in(self, task: Task, row: dict[str, Any]) -> Iterable[str]:
        return ()


class ManyLabels(OneLabel):
    def target(self, row: dict[str, Any], task: Task, labels: Sequence[str]) -> Any:
        return np.isin(labels, row[task.label].split("|"))

    def labels_in(self, task: Task, row: dict[str, Any]) -> Iterable[str]:
        if "?" in row[task.label]:
            raise ValueError("has '?' among its labels.")
        return row[task.label].split("|")


def table(path: Path, columns: list[str], rows: Iterable[Sequence[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def tone(**changes: Any) -> Task:
    return Task(**{"name": "tone", "text": ("text",), "label": "label", **changes})


def test_rows_come_back_with_ids_types_and_targets(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], [["a bb", "no"], ["ccc", "yes"]])
    found = read_examples(tone(), source, OneLabel(), WordTokenizer(), ["no", "yes"])
    assert len(found) == 2
    assert [ids.tolist() for ids, _ in map(found.sequence, range(2))] == [[1, 11, 12, 2], [1, 13, 2]]
    assert found.ids.dtype == np.int32
    assert found.lengths.tolist() == [found.length(0), found.length(1)] == [4, 3]
    assert found.targets.tolist() == [0, 1]
    assert found.rows.tolist() == [1, 2]


def test_types_of_a_pair_are_rebuilt(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["one", "two", "label"], [["a b", "c", "no"]])
    found = read_examples(tone(text=("one", "two")), source, OneLabel(), WordTokenizer(), ["no"])
    assert found.sequence(0)[1].tolist() == [0, 0, 0, 0, 1, 1]


def test_rows_without_a_label_are_passed_over_and_those_without_a_text_are_noted(tmp_path: Path) -> None:
    rows = [["a", ""], ["", "no"], ["  \t", "no"], ["", ""], ["b", "no"]]
    source = table(tmp_path / "a.csv", ["text", "label"], rows)
    found = read_examples(tone(), source, OneLabel(), WordTokenizer(), ["no"])
    assert found.rows.tolist() == [5]
    assert found.blank_rows == [2, 3]


def test_rows_are_tokenised_chunk_by_chunk(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], ([f"w{i} " * (i % 3 + 1), "no"] for i in range(10_000)))
    tokenizer = WordTokenizer()
    found = read_examples(tone(), source, OneLabel(), tokenizer, ["no"])
    assert len(tokenizer.calls) > 1 and sum(tokenizer.calls) == len(found) == 10_000
    assert found.rows.tolist() == list(range(1, 10_001))
    assert found.sequence(9_999)[0].tolist() == [1, 15, 2]


def test_truncated_rows_are_counted(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], [["a b c d e f g h i", "no"], ["a", "no"]])
    assert read_examples(tone(), source, OneLabel(), WordTokenizer(), ["no"]).truncated == 1


def test_all_faults_are_reported_at_once_and_nothing_is_tokenised_after_the_first(tmp_path: Path) -> None:
    rows = [["a", "angri"], ["b", "calm"], ["c", "angri"], ["d", "sda"]]
    source = table(tmp_path / "a.csv", ["text", "label"], rows)
    tokenizer = WordTokenizer()
    with pytest.raises(DataError) as error:
        read_examples(tone(), source, OneLabel(), tokenizer, ["angry", "calm", "sad"])
    message = str(error.value)
    assert "row 1 (line 2): task 'tone' has label 'angri'. Labels: angry, calm, sad." in message
    assert "3" in message and "'sda'" in message and str(source) in message
    assert tokenizer.calls == []


def test_a_file_without_rows_is_told_as_such(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], [])
    with pytest.raises(DataError, match=r"a\.csv has no rows\."):
        read_examples(tone(), source, OneLabel(), WordTokenizer(), ["no"])


def test_a_file_without_a_labelled_row_is_an_error(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], [["a", ""], ["", "no"]])
    with pytest.raises(DataError, match=r"a\.csv: task 'tone' has no row to learn from \(2 rows, .* 1 .*blank text"):
        read_examples(tone(), source, OneLabel(), WordTokenizer(), ["no"])


def test_targets_may_be_numbers_or_arrays(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], [["a", "1.5"], ["b", "2"]])
    found = read_examples(tone(), source, Number(), WordTokenizer(), ())
    assert found.targets.tolist() == [1.5, 2.0]
    source = table(tmp_path / "b.csv", ["text", "label"], [["a", "x|y"], ["b", "z"]])
    found = read_examples(tone(), source, ManyLabels(), WordTokenizer(), ["x", "y", "z"])
    assert found.targets.tolist() == [[True, True, False], [False, False, True]]


@pytest.mark.parametrize(
    ("kind", "cells", "expected"),
    [
        (OneLabel(), ["sad", "calm", "", "sad"], ("calm", "sad")),
        (OneLabel(), ["10", "9", "-1", "1.5"], ("-1", "1.5", "9", "10")),
        (OneLabel(), ["10", "9", "few"], ("10", "9", "few")),
        (OneLabel(), ["10", "9", "nan"], ("10", "9", "nan")),
        (ManyLabels(), ["y|x", "z", ""], ("x", "y", "z")),
        (Number(), ["1.5", "2"], ()),
    ],
)
def test_labels_are_found_in_the_file(
    tmp_path: Path, kind: OneLabel, cells: list[str], expected: tuple[str, ...]
) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], [["a", cell] for cell in cells])
    assert find_labels(tone(), source, kind) == expected


def test_labels_that_the_task_names_are_kept_in_its_order(tmp_path: Path) -> None:
    assert find_labels(tone(labels=("sad", "calm")), tmp_path / "missing.csv", OneLabel()) == ("sad", "calm")


def test_a_label_of_rows_without_a_text_alone_is_none(tmp_path: Path) -> None:
    rows = [["a", "calm"], ["", "ghost"], ["b", "angry"], [" ", "ghost"]]
    assert find_labels(tone(), table(tmp_path / "a.csv", ["text", "label"], rows), OneLabel()) == ("angry", "calm")


def test_all_missing_columns_are_reported_at_once(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["txet", "lable"], [["a", "x"]])
    with pytest.raises(DataError, match=r"(?s)'text'.*'label'"):
        find_labels(tone(), source, OneLabel())


def test_faults_before_the_place_where_reading_breaks_off_are_reported_too(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], [["a", "angri"], *[["b", "calm"]] * 10_000])
    with source.open("ab") as file:
        file.write(b"\xff\xfe,calm\n")
    with pytest.raises(DataError, match=r"(?s)'angri'.*UTF-8"):
        read_examples(tone(), source, OneLabel(), WordTokenizer(), ["angry", "calm"])


def test_faults_in_labels_have_row_numbers(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", ["text", "label"], [["a", "x"], ["b", "x|?"]])
    with pytest.raises(DataError, match=r"row 2 \(line 3\): task 'tone' has '\?' among its labels"):
        find_labels(tone(), source, ManyLabels())
