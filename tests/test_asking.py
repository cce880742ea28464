"""Asking, without a model: what is computed, and whose answer it becomes."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_overloads

import numpy as np
import pyarrow
import pytest

from onepass.asking import NO_RANGES, Asking
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import ConfigError, DataError
from onepass.heads import make_kind
from onepass.inquiry import Pieces, Ranges
from onepass.tasks import Task


class Lengths(Asking):
    """Answers every task with the number of word pieces, and notes how many texts it was given."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        number = {"mean": 0.0, "spread": 1.0}
        self.tasks = [
            Task(name="length", kind="regression", text="text", label="n", fitted=number),
            Task(name="both", kind="regression", text=["a", "b"], label="n", fitted=number),
        ]
        self.kinds = [make_kind(task) for task in self.tasks]
        self.given: list[int] = []

    def logits_of(
        self, encoded: Sequence[Pieces], asked: Sequence[int], ranges: Ranges = NO_RANGES
    ) -> list[np.ndarray]:
        self.given.append(len(encoded))
        return [np.array([[len(one)] for one in encoded], np.float32) for _ in asked]


@pytest.fixture
def lengths(encoder: Path) -> Lengths:
    return Lengths(Tokenizer.load(encoder / "tokenizer.json", 16))


def test_a_text_that_comes_twice_is_computed_once_and_answered_twice(lengths: Lengths):
    texts = ["goal", "late goal", "goal", "goal"]
    first, second, third, fourth = lengths.label(texts)
    assert lengths.given == [2]
    assert [found.tasks["length"].label for found in (first, second, third, fourth)] == [3, 4, 3, 3]
    first.tasks.clear()
    assert third.tasks  # one answer is not the other


def test_type_checkers_know_what_one_text_and_what_many_give():
    given = [function.__annotations__ for function in get_overloads(Asking.predict)]
    assert [(found["inputs"], found["return"]) for found in given] == [
        ("Text", "dict[str, Prediction]"),
        ("Iterable[Text]", "list[dict[str, Prediction]]"),
    ]


def test_texts_and_pairs_keep_their_places(lengths: Lengths):
    texts = ["goal", ("goal", "vote"), "late goal wins", ("goal", "vote"), ""]
    answers = [next(iter(found.items())) for found in lengths.predict(texts)]
    assert [(name, answer.label) for name, answer in answers] == [
        ("length", 3), ("both", 5), ("length", 5), ("both", 5), ("length", 2),
    ]  # fmt: skip


def test_texts_may_come_from_a_generator(lengths: Lengths):
    found = lengths.predict(text for text in ["goal", "late goal"])
    assert [answers["length"].label for answers in found] == [3, 4]


def test_columns_and_tables_are_lists_of_texts_and_of_rows(lengths: Lengths):
    column = pyarrow.array(["goal", "late goal"])
    assert [found["length"].label for found in lengths.predict(column)] == [3, 4]
    table = pyarrow.table({"text": ["goal", None], "a": [None, "goal"], "b": ["vote", "vote"], "n": [1, 2]})
    assert [{name: answer.label for name, answer in found.items()} for found in lengths.predict(table)] == [
        {"length": 3},
        {"both": 5},
    ]


@pytest.mark.parametrize(
    "times",
    [
        pyarrow.array([1_600_000_000_000_000_001, None], pyarrow.timestamp("ns")),
        pyarrow.array([2**60, None], pyarrow.timestamp("us")),  # long after the year 9999
    ],
)
def test_times_that_python_cannot_hold_are_in_nobodys_way(lengths: Lengths, times: Any):
    table = pyarrow.table({"text": ["goal", "late goal"], "when": times})
    for rows in (table, table.to_batches()[0], table.to_struct_array()):
        assert [found["length"].label for found in lengths.predict(rows)] == [3, 4]


class Frame:
    """As much of a table of pandas as is asked of it."""

    columns = ["text"]

    def __iter__(self):
        return iter(self.columns)

    def astype(self, kind: type) -> "Frame":
        return self

    def where(self, there: Any, other: Any) -> "Frame":
        return self

    def notna(self) -> None: ...

    def to_dict(self, form: str) -> list[dict[str, Any]]:
        return [{"text": "goal"}, {"text": "late goal"}]


def test_a_table_of_pandas_is_its_rows_and_not_its_names(lengths: Lengths):
    assert [found["length"].label for found in lengths.predict(Frame())] == [3, 4]


@pytest.mark.parametrize("hole", [None, float("nan"), np.float32("nan"), np.datetime64("NaT")])
def test_a_row_without_its_text_is_no_empty_text(lengths: Lengths, hole: Any):
    with pytest.raises(DataError, match=r"Text 2: task 'length' has a blank text in 'text'. Give one."):
        lengths.predict([{"text": "goal"}, {"text": hole}])


@pytest.mark.parametrize(
    "other",
    [
        Task(name="other", kind="words", text="text", label="n", labels=("a", "b"), options={"words": ["word"]}),
        Task(name="other", kind="choice", text="text", label="n", options={"choices": ["word", "second"]}),
    ],
    ids=lambda task: task.kind,
)
def test_a_hole_in_what_one_task_reads_costs_the_others_nothing(lengths: Lengths, other: Task):
    lengths.tasks.append(other)
    lengths.kinds.append(make_kind(other))
    row = {"text": "late goal", "word": None, "second": None}
    assert lengths.predict(row)["length"].label == 4
    with pytest.raises(DataError, match="other"):
        lengths.predict(row, tasks=["other"])


def test_of_a_row_with_a_blank_text_the_other_is_read_as_in_a_pair(lengths: Lengths):
    rows = [{"a": " ", "b": "late goal wins"}, {"a": "", "b": "goal"}]
    pairs = [tuple(row.values()) for row in rows]
    assert [found["both"].label for found in lengths.predict(rows, tasks=["both"])] == [6, 4]
    assert [found["both"].label for found in lengths.predict(pairs)] == [6, 4]


class Index:
    """As much of an index of pandas as is asked of it: it is no list, and neither true nor false."""

    def __init__(self, names: Sequence[str]):
        self.names = names

    def __iter__(self):
        return iter(self.names)

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an Index is ambiguous.")


def test_answers_have_the_order_that_was_asked_for_whatever_their_tasks_read(lengths: Lengths):
    row = {"text": "late goal", "a": "goal", "b": "vote"}
    assert list(lengths.predict(row)) == ["length", "both"]
    for asked in (["length", "both"], ["both", "length"]):
        assert list(lengths.predict(row, tasks=asked)) == asked


@pytest.mark.parametrize("given", [iter, np.array, Index, dict.fromkeys, set])
def test_names_of_tasks_may_be_given_in_anything_that_has_them(lengths: Lengths, given: Any):
    lengths.tasks.append(lengths.tasks[0].model_copy(update={"name": "again"}))
    lengths.kinds.append(lengths.kinds[0])
    assert set(lengths.predict("goal", tasks=given(["again", "length"]))) == {"again", "length"}
    rows = [{"text": "goal"}, {"text": "late goal", "a": "vote"}]
    found = lengths.predict(rows, tasks=given(["again", "length"]))
    assert [set(answers) for answers in found] == [{"again", "length"}] * 2
    with pytest.raises(ConfigError, match=r"Unknown task 'lenght'. Did you mean 'length'"):
        lengths.predict("goal", tasks=given(["lenght"]))
    with pytest.raises(ConfigError, match="No task is asked"):
        lengths.predict([], tasks=given([]))


def test_tasks_are_names_and_nothing_else(lengths: Lengths):
    for wrong in (5, ["length", ["both"]]):
        with pytest.raises(ConfigError, match=r"tasks is .*Possible: a list of names, such as both, length"):
            lengths.predict("goal", tasks=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, 5, b"goal"])
def test_what_is_no_text_is_refused(lengths: Lengths, given: Any):
    with pytest.raises(DataError, match=r"There is no text in .*Give a string"):
        lengths.predict(given)


def test_asking_needs_no_torch():
    code = "import sys, onepass.asking, onepass.encoder.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
