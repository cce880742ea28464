"""A label for each word."""

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onepass.data.items import Reading
from onepass.heads.tagging import Tagging, span_f1, spans_of, words_of
from onepass.prediction import Span
from onepass.tasks import Task

KIND = Tagging()
TASK = Task(name="names", kind="tagging", text="tokens", label="tags", labels=["B-place", "I-place", "O"])


def reading(words: list[str], seen: list[int] | None = None) -> Reading:
    text, marks = words_of(words)
    numbers = np.array(range(len(words)) if seen is None else seen, np.int32)
    spans = np.array(marks, np.int32)
    return Reading([], text, spans[numbers], np.zeros(len(numbers), np.int32), numbers, spans)


def independent_f1(answers: list[list[str]], targets: list[list[str]]) -> float:
    """Another way to the same figure: every (row, first, last, label) for which conlleval's rules open and close."""

    def chunks(rows: list[list[str]]) -> set[tuple[int, int, int, str]]:
        found = set()
        for number, tags in enumerate(rows):
            padded = ["O", *tags, "O"]
            begins = []
            for place in range(1, len(padded)):
                before, now = padded[place - 1], padded[place]
                if before != "O" and (now == "O" or now[0] == "B" or now[2:] != before[2:]):
                    found.add((number, begins.pop(), place - 1, before[2:]))
                if now != "O" and (before == "O" or now[0] == "B" or now[2:] != before[2:]):
                    begins.append(place)
        return found

    one, other = chunks(answers), chunks(targets)
    if not one and not other:
        return 1.0
    precision = len(one & other) / len(one) if one else 0.0
    recall = len(one & other) / len(other) if other else 0.0
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"tokens": ["in", "Rome"], "tags": [None, "O"]}, "has a word without a tag"),
        ({"tokens": ["in", "Rome"], "tags": ["O", " "]}, "has a word without a tag"),
        ({"tokens": ["in", "Rome"], "tags": ["O", ["B-place"]]}, "has a list where one label is needed"),
        ({"tokens": ["in", None], "tags": ["O", "O"]}, "has nothing among its words"),
        ({"tokens": ["in", {"w": 1}], "tags": ["O", "O"]}, "has an object among its words"),
        ({"tokens": "in Rome", "tags": "['O', 'B-place'"}, "which does not parse, where tags are needed"),
    ],
)
def test_what_is_no_word_and_no_tag_is_refused(row: dict[str, Any], found: str) -> None:
    with pytest.raises(ValueError, match=found):
        KIND.target(row, TASK, TASK.labels)


def test_lists_as_pandas_writes_them_to_a_csv_file_are_lists() -> None:
    row = {"tokens": str(["in", "Rome", "it's", "10\xa0%"]), "tags": str(["O", "B-place", "O", "O"])}
    target = KIND.target(row, TASK, TASK.labels).value
    assert target.tolist() == [2, 0, 2, 2]
    item = KIND.item(TASK, row)
    assert item is not None
    (text,) = item.sequences[0]
    assert [text[start:end] for _, start, end in item.marks] == ["in", "Rome", "it's", "10\xa0%"]


def test_arrays_as_pandas_writes_them_to_a_csv_file_are_lists() -> None:
    """It reads a list of a parquet file as an array, which has no commas and goes on in the next line."""
    words = np.array(["in", "Rome", "it's"] * 10)
    row = {"tokens": str(words), "tags": str(np.array(["O", "B-place", "O"] * 10))}
    assert "\n" in row["tokens"] and KIND.target(row, TASK, TASK.labels).value.tolist() == [2, 0, 2] * 10
    item = KIND.item(TASK, row)
    assert item is not None and item.sequences[0] == (" ".join(words),)


@pytest.mark.parametrize(
    "words",
    [
        ["नमस्ते", "दुनिया", "!"],
        ["தமிழ்நாடு", ",", "ที่"],
        ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "!"],  # Persian, with a joiner in it
        ["Cafe\u0301", "Zu\u0308rich", "'", "rock-n-roll"],
    ],
)
def test_words_keep_their_accents_vowel_signs_and_joiners(words: list[str]) -> None:
    text = " ".join(words)
    assert [text[start:end] for start, end in words_of(text)[1]] == words


def test_a_mark_behind_a_sign_does_not_begin_the_word_behind_it() -> None:
    """Most hearts and suns are a sign and a mark that asks for colours."""
    text = "I \u2764\ufe0fLondon"
    assert [text[start:end] for start, end in words_of(text)[1]] == ["I", "\u2764\ufe0f", "London"]


tags = st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"])
rows = st.lists(st.lists(st.tuples(tags, tags), max_size=8), min_size=1, max_size=6)


@given(rows)
def test_span_f1_is_that_of_an_independent_scorer(pairs: list[list[tuple[str, str]]]) -> None:
    answers = [[one for one, _ in row] for row in pairs]
    targets = [[other for _, other in row] for row in pairs]
    assert span_f1(answers, targets) == pytest.approx(independent_f1(answers, targets))


def test_span_f1_by_hand() -> None:
    """Two of three answered spans are right, two of four were wanted and found: F1 is 4 / 7."""
    answers = [["B-a", "I-a", "O", "B-b"], ["O", "B-a"]]
    targets = [["B-a", "I-a", "O", "B-a"], ["O", "B-a"]]
    assert span_f1([*answers, ["O"]], [*targets, ["B-b"]]) == pytest.approx(4 / 7)


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        (["NOUN", "O", "VERB"], [("NOUN", 0, 1), ("VERB", 2, 3)]),
        (["NOUN", "NOUN"], [("NOUN", 0, 1), ("NOUN", 1, 2)]),
        (["B-a", "I-a", "E-a", "I-a", "S-b", "I-b"], [("a", 0, 3), ("a", 3, 4), ("b", 4, 5), ("b", 5, 6)]),
        (["B-a-b", "I-a-b"], [("a-b", 0, 2)]),
        ([], []),
    ],
)
def test_plain_tags_and_other_schemes_are_understood(tags: list[str], spans: list[Any]) -> None:
    assert spans_of(tags) == spans


def test_rows_are_read_as_lists_json_or_texts() -> None:
    for tokens, tags in (
        (["New", "York", "!"], ["B-place", "I-place", "O"]),
        ('["New", "York", "!"]', '["B-place", "I-place", "O"]'),
        ("New York !", "B-place I-place O"),
    ):
        row = {"tokens": tokens, "tags": tags}
        item = KIND.item(TASK, row)
        assert item is not None and item.sequences == [("New York !",)]
        assert [item.sequences[0][0][a:b] for _, a, b in item.marks] == ["New", "York", "!"]
        assert KIND.target(row, TASK, TASK.labels).value.tolist() == [0, 1, 2]
    assert KIND.item(TASK, {"tokens": [], "tags": []}) is None
    assert KIND.blank(TASK, {"tokens": ["a"], "tags": None})


def test_a_text_that_begins_with_a_bracket_is_a_text() -> None:
    text = "[AP]  Late   goal!"
    item = KIND.item(TASK, {"tokens": text, "tags": None})
    assert item is not None and item.sequences == [(text,)]
    assert [text[a:b] for _, a, b in item.marks] == ["[", "AP", "]", "Late", "goal", "!"]


def test_faults_of_rows_are_said() -> None:
    with pytest.raises(ValueError, match="has 3 words but 2 tags"):
        KIND.target({"tokens": ["New", "York", "!"], "tags": ["O", "O"]}, TASK, TASK.labels)
    with pytest.raises(ValueError, match=r"has tag 'B-plaice'\. Labels: B-place, I-place, O"):
        KIND.target({"tokens": ["York"], "tags": ["B-plaice"]}, TASK, TASK.labels)
    with pytest.raises(ValueError, match="where a list is needed"):
        KIND.target({"tokens": ["York"], "tags": 7}, TASK, TASK.labels)


def test_the_loss_is_the_mean_cross_entropy_of_a_rows_words() -> None:
    logits = torch.tensor([[[0.0, 0.0, 0.0], [0.0, math.log(2.0), 0.0]], [[0.0, 0.0, 0.0], [float("-inf")] * 3]])
    loss = KIND.loss(logits, torch.tensor([[0, 1], [2, -100]]))
    torch.testing.assert_close(loss, torch.tensor([(math.log(3) + math.log(2)) / 2, math.log(3)]))
    torch.testing.assert_close(KIND.entropy(logits)[1], torch.tensor(1.0))
    assert 0.9 < float(KIND.entropy(logits)[0]) < 1.0


def ragged(*targets: list[int]) -> np.ndarray:
    found = np.empty(len(targets), object)
    found[:] = [np.array(target) for target in targets]
    return found


def test_words_that_were_cut_off_are_not_learned_from() -> None:
    found = KIND.scale_targets(TASK, ragged([0, 1, 2], [1]), [reading(["a", "b", "c"], [0, 2]), reading(["d"])])
    assert [target.tolist() for target in found] == [[0, 2], [1]]


def test_answers_are_spans_with_the_characters_of_the_text() -> None:
    logits = np.array([[9.0, 0, 0], [0, 9, 0], [0, 0, 9], [9, 0, 0]])
    (found,) = KIND.decode(TASK, [logits], [reading(["New", "York", "beats", "Rome"])])
    assert found.label == [["New York", "place"], ["Rome", "place"]]
    score = 1 / (1 + 2 * math.exp(-9))
    assert found.spans == (
        Span("place", 0, 8, "New York", pytest.approx(score)),
        Span("place", 15, 19, "Rome", pytest.approx(score)),
    )
    assert found.to_dict()["spans"][1]["text"] == "Rome"


def test_words_that_were_not_read_are_outside() -> None:
    logits = np.array([[9.0, 0, 0]])
    (found,) = KIND.decode(TASK, [logits], [reading(["York", "or", "Rome"], [0])])
    assert found.label == [["York", "place"]]
    (nothing,) = KIND.decode(TASK, [np.zeros((0, 3))], [reading(["York"], [])])
    assert nothing.label == [] and nothing.spans == () and nothing.score == 1.0


def test_cut_off_spans_count_as_missed() -> None:
    logits = np.array([[9.0, 0, 0]])
    scores = KIND.score(TASK, [logits], ragged([0, 2, 0]), [reading(["York", "or", "Rome"], [0])])
    assert scores["recall"] == 50.0 and scores["precision"] == 100.0
    assert scores["word_accuracy"] == pytest.approx(200 / 3)


def test_bare_tags_mark_spans_that_are_named_as_the_task():
    task = Task(name="phrase", kind="tagging", text="tokens", label="tags", labels=["B", "I", "O"])
    words = ["late", "goal", "wins", "the", "cup"]
    logits = np.eye(3, dtype=np.float32)[[0, 1, 2, 2, 0]] * 9
    (found,) = KIND.decode(task, [logits], [reading(words)])
    assert [(span.text, span.label) for span in found.spans or ()] == [("late goal", "phrase"), ("cup", "phrase")]
    right, wrong = np.array([0, 1, 2, 2, 0]), np.array([0, 2, 2, 2, 0])  # the second span alone is right
    assert KIND.score(task, [logits], np.array([right]), [reading(words)])["span_f1"] == 100.0
    assert KIND.score(task, [logits], np.array([wrong]), [reading(words)])["span_f1"] == 50.0


@pytest.mark.parametrize("text", ["[[1, 2], [3]]", "[null]", '[{"a": 1}]', "[]", "[true]"])
def test_a_list_that_holds_no_words_is_a_text(text: str):
    found, marks = words_of(text)
    assert found == text and [text[start:end] for start, end in marks] == re.findall(r"\w+|\S", text)


@pytest.mark.parametrize(
    "cell",
    [
        [[3, 12, "place"], [14, 17, "time"]],
        '[[3, 12, "place"], [14, 17, "time"]]',
        [{"start": 14, "end": 17, "label": "time"}, {"start": 3, "end": 12, "label": "place", "token_start": 1}],
        [
            {"start": 3, "end": 12, "text": "Mill Road", "labels": ["place"]},
            {"start": 14, "end": 17, "labels": ["time"]},
        ],
        [
            {"id": 1, "start_offset": 3, "end_offset": 11, "label": "place"},
            {"start_offset": 14, "end_offset": 17, "label": "time"},
        ],
    ],
)
def test_spans_by_characters_are_tags_of_their_words(cell: Any):
    labels = ["B-place", "B-time", "I-place", "O"]
    task = Task(name="name", kind="tagging", text="text", label="spans", labels=labels)
    row = {"text": "At Mill Road, 9pm", "spans": cell}
    item = KIND.item(task, row)
    assert item is not None and [item.texts[0][a:b] for _, a, b in item.marks] == ["At", "Mill", "Road", ",", "9pm"]
    assert KIND.target(row, task, labels).value.tolist() == [3, 0, 2, 3, 1]
    assert sorted(set(KIND.labels_in(task, row))) == labels
    assert KIND.said(task, row, None) == "O B-place I-place O B-time"


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ([[0, 4, "a"], [2, 7, "b"]], r"has the span \[2, 7, 'b'\], which shares a word with another one"),
        ([[4, 5, "a"]], "in which no word stands"),
        ([[40, 50, "a"]], "in which no word stands"),
        ([[0, 4, "a"], [5, 9]], "has a list where one label is needed"),
    ],
)
def test_spans_that_do_not_fit_are_told(cell: Any, found: str):
    task = Task(name="name", kind="tagging", text="text", label="spans", labels=["O", "B-a", "I-a"])
    with pytest.raises(ValueError, match=found):
        KIND.target({"text": "Late goal", "spans": cell}, task, task.labels)


def test_a_text_without_spans_has_no_tags_but_the_one_of_nothing():
    task = Task(name="name", kind="tagging", text="text", label="spans", labels=["O", "B-a", "I-a"])
    assert KIND.target({"text": "Late goal!", "spans": []}, task, task.labels).value.tolist() == [0, 0, 0]


def test_a_tagged_list_with_something_else_among_its_words_is_a_fault_and_an_empty_one_says_nothing():
    task = Task(name="name", kind="tagging", text="tokens", label="tags", labels=["O", "B-a", "I-a"])
    for tokens in ('["Late", null, "goal"]', '["Late", ["x"], "goal"]', '["Late", {"a": 1}, "goal"]'):
        with pytest.raises(ValueError, match="among its words"):
            KIND.item(task, {"tokens": tokens, "tags": "O O B-a"})
    assert KIND.item(task, {"tokens": "[]", "tags": "[]"}) is None
