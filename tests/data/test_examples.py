import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepass.data.examples import Examples, find_labels, read_examples, split, text_hash
from onepass.data.items import Item, Windows
from onepass.errors import ConfigError, DataError
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


def examples_of(texts: Sequence[str], targets: Any) -> Examples:
    """Examples whose row i has i % 5 + 1 tokens, all of them i."""
    lengths = np.arange(len(texts)) % 5 + 1
    return Examples(
        ids=np.repeat(np.arange(len(texts), dtype=np.int32), lengths),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        firsts=np.ones(len(texts), np.int32),
        targets=np.asarray(targets),
        rows=np.arange(1, len(texts) + 1),
        hashes=np.array([text_hash((text,)) for text in texts], np.uint64),
        cut=np.zeros(len(texts), np.bool_),
        blank_rows=[99],
    )


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


def test_texts_are_not_read_to_find_labels(tmp_path: Path) -> None:
    class Nosy(OneLabel):
        def labels_in(self, task: Task, row: dict[str, Any]) -> Iterable[str]:
            return row

    assert find_labels(tone(), table(tmp_path / "a.csv", ["text", "label"], [["a", "x"]]), Nosy()) == ("label",)


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


def test_the_hash_ignores_case_and_white_space_but_not_where_a_pair_is_cut() -> None:
    assert text_hash(("Straße  AM\tMeer ",)) == text_hash(("strasse am meer",))
    assert text_hash(("a b", "c")) != text_hash(("a", "b c"))
    assert text_hash(("a", "b")) != text_hash(("a b",))
    assert 0 <= text_hash(("\ud800",)) < 2**64


def test_taken_rows_keep_their_tokens() -> None:
    examples = examples_of([f"text {i}" for i in range(20)], np.arange(20))
    part = examples.take(np.array([7, 3, 3, 19]))
    for place, row in enumerate([7, 3, 3, 19]):
        for ours, theirs in zip(part.sequence(place), examples.sequence(row), strict=True):
            assert ours.tolist() == theirs.tolist()
    assert part.targets.tolist() == [7, 3, 3, 19] and part.rows.tolist() == [8, 4, 4, 20]
    assert len(examples.take(np.zeros(0, np.int64))) == 0


labelled_rows = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 4)), min_size=1, max_size=80)


@given(labelled_rows, st.floats(0, 0.99), st.integers(0, 3), st.randoms())
def test_a_split_loses_nothing_and_keeps_equal_texts_together(
    rows: list[tuple[int, int]], share: float, seed: int, random: Any
) -> None:
    def parts(rows: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        examples = examples_of([f"text {text}" for text, _ in rows], [label for _, label in rows])
        return [sorted(rows[number - 1] for number in part.rows) for part in split(examples, share, seed)]

    train, validation = parts(rows)
    assert sorted(train + validation) == sorted(rows)
    assert not {text for text, _ in train} & {text for text, _ in validation}
    assert {label for _, label in train} == {label for _, label in rows}
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert parts(shuffled) == [train, validation]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.floats(0.01, 0.9), st.integers(0, 3))
def test_every_label_gets_its_share_of_the_validation_rows(sizes: list[int], share: float, seed: int) -> None:
    targets = np.repeat(np.arange(len(sizes)), sizes)
    _, validation = split(examples_of([f"text {i}" for i in range(len(targets))], targets), share, seed)
    found = Counter(validation.targets.tolist())
    for label, size in enumerate(sizes):
        assert abs(found[label] - min(share * size, size - 1)) <= 1
        if size >= 2 and share * size >= 0.5:
            assert found[label] >= 1


def test_many_small_labels_still_give_a_validation_set() -> None:
    targets = np.repeat(np.arange(150), 4)
    train, validation = split(examples_of([f"text {i}" for i in range(600)], targets), 0.1, 0)
    assert len(validation) == 60
    assert max(Counter(validation.targets.tolist()).values()) == 1
    assert set(train.targets) == set(range(150))


def test_another_seed_gives_another_split_and_the_same_seed_the_same() -> None:
    examples = examples_of([f"text {i}" for i in range(200)], np.zeros(200, np.int64))
    first, again, other = (split(examples, 0.2, seed)[1].rows.tolist() for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == len(other) == 40


def test_numbers_are_split_without_labels() -> None:
    train, validation = split(examples_of([f"text {i}" for i in range(100)], np.linspace(0, 5, 100)), 0.1, 0)
    assert (len(train), len(validation)) == (90, 10)


@given(st.lists(st.sets(st.integers(0, 3)), min_size=1, max_size=40), st.floats(0, 0.9))
def test_every_label_of_many_stays_in_training(labels: list[set[int]], share: float) -> None:
    targets = np.zeros((len(labels), 4), np.bool_)
    for row, found in enumerate(labels):
        targets[row, list(found)] = True
    train, _ = split(examples_of([f"text {i}" for i in range(len(labels))], targets), share, 0)
    assert train.targets.any(0).tolist() == targets.any(0).tolist()


def test_a_rare_label_of_many_reaches_validation() -> None:
    targets = np.zeros((100, 2), np.bool_)
    targets[:, 0] = True
    targets[:8, 1] = True
    _, validation = split(examples_of([f"text {i}" for i in range(100)], targets), 0.1, 0)
    assert validation.targets.sum(0).tolist() == [10, 1]


def test_blank_rows_stay_with_the_training_rows() -> None:
    train, validation = split(examples_of(["a", "b", "c"], [0, 0, 0]), 0.4, 0)
    assert (train.blank_rows, validation.blank_rows) == ([99], [])


@pytest.mark.parametrize("share", [-0.1, 1.0, 3.0, float("nan")])
def test_a_share_outside_zero_and_one_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="share"):
        split(examples_of(["a"], [0]), share, 0)


def test_the_same_text_is_mostly_on_the_same_side_in_two_tasks() -> None:
    texts = [f"text {i}" for i in range(400)]
    sides: dict[str, set[int]] = defaultdict(set)
    for targets in (np.arange(400) % 2, np.arange(400) % 3):
        validation = split(examples_of(texts, targets), 0.1, 0)[1]
        for row in validation.rows:
            sides[texts[row - 1]].add(len(np.unique(targets)))
    # Chance alone would put 4 of the 40 in both.
    assert sum(len(tasks) == 2 for tasks in sides.values()) > 25
