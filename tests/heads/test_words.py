"""A label about marked words."""

import random
import re
from difflib import SequenceMatcher
from typing import Any

import pytest

from onepass.errors import ConfigError
from onepass.heads import check_kinds
from onepass.heads.marking import LEAST_ALIKE, find_form, find_text
from onepass.heads.words import Words
from onepass.tasks import Task, TaskFile

ORDINARY = """The senate voted late on a budget that nobody wanted, and its members began to leave before they had
counted all votes, while outside people carried signs against taxes which were begun long ago by those who now opposed
them, so that in the end neither side could carry out what it had promised to voters when it began to govern."""
PAIR = Task(name="sense", kind="words", text=["one", "two"], label="same", labels=["no", "yes"])
SINGLE = Task(name="who", kind="words", text="text", label="same", labels=["no", "yes"])


def marked(kind: Words, task: Task, row: dict[str, Any]) -> list[tuple[int, str]]:
    item = kind.item(task, row)
    assert item is not None
    return [(text, item.sequences[0][text][start:end]) for text, start, end in item.marks]


def test_one_word_is_marked_in_both_texts() -> None:
    row = {"one": "The bank is closed", "two": "A riverBank", "word": "bank"}
    assert marked(Words(words="word"), PAIR, row) == [(0, "bank"), (1, "Bank")]
    assert Words(words="word").states(PAIR) == 3


def test_other_forms_are_found_if_asked_for() -> None:
    row = {"one": "It began early .", "two": "We begin", "word": "begin"}
    with pytest.raises(ValueError, match=r"marks 'begin', which is not in 'It began early \.'"):
        Words(words="word").item(PAIR, row)
    assert marked(Words(words="word", match="form"), PAIR, row) == [(0, "began"), (1, "begin")]
    with pytest.raises(ValueError, match=r"or give its characters \[start, end\]\.$"):  # form was tried
        marked(Words(words="word", match="form"), PAIR, {**row, "word": "zebra"})
    assert find_form("She carried it out", "carry out") == (4, 14)


def most_alike(text: str, word: str) -> tuple[int, int] | None:
    """What is most similar, with every place of the text compared."""
    parts, words = len(word.replace("-", " ").split()), list(re.finditer(r"\w+", text))
    best, found = LEAST_ALIKE, None
    for place, first in enumerate(words):
        span = first.start(), words[min(place + parts, len(words)) - 1].end()
        other = text[slice(*span)].lower()
        alike = SequenceMatcher(None, word.lower(), other).ratio() + 0.2 * (other[:1] == word[:1].lower())
        if alike > best:
            best, found = alike, span
    return found


def test_the_most_similar_form_is_found_as_if_every_place_were_compared() -> None:
    draw = random.Random(0)
    words = re.findall(r"\w+", ORDINARY)
    missed = 0
    for _ in range(400):
        text, count = " ".join(draw.choices(words, k=draw.choice([5, 30, 100]))), draw.choice([1, 1, 2, 3])
        letters = list(" ".join(draw.choices(words, k=count)))
        letters[draw.randrange(len(letters))] = draw.choice("aeinst-")
        word = "".join(letters).strip()
        if word and find_text(text, word) is None:
            assert find_form(text, word) == most_alike(text, word)
            missed += 1
    assert missed > 100


def test_a_text_and_a_phrase_made_to_be_compared_for_long_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = 0

    class Counted(SequenceMatcher[str]):
        def ratio(self) -> float:
            nonlocal pairs
            pairs += len(self.a) * len(self.b)
            return 0.0  # the next place could still be the one

    monkeypatch.setattr("onepass.heads.marking.SequenceMatcher", Counted)
    draw = random.Random(0)
    text = " ".join("".join(draw.sample("abababababab", 12)) for _ in range(1000))
    phrase = " ".join("".join(draw.sample("abababababab", 11)) for _ in range(16))
    assert find_form(text, phrase) is None
    assert 0 < pairs < 60 * len(text)


def test_words_are_given_by_characters_or_by_their_place() -> None:
    row = {"text": "he said he left", "a": [8, 10], "b": "he", "at": 2}
    assert marked(Words(words=["a", "b"]), SINGLE, row) == [(0, "he"), (0, "he")]
    item = Words(words=["b", "b2"], starts=["at", "none"], starts_in="words").item(
        SINGLE, row | {"b2": "left", "none": None}
    )
    assert item is not None and list(item.marks) == [(0, 8, 10), (0, 11, 15)]
    item = Words(words="b", starts="at").item(SINGLE, row)  # from the third character on
    assert item is not None and list(item.marks) == [(0, 8, 10)]


def test_the_form_at_the_given_place_is_marked_and_no_better_one_further_on() -> None:
    text = "He began early, but we begin late"
    kind = Words(words="word", starts="at", match="form")
    for start, place in ((3, (3, 8)), (0, (23, 28)), (23, (23, 28))):
        item = kind.item(SINGLE, {"text": text, "word": "begin", "at": start})
        assert item is not None and item.marks == [(0, *place)]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"a": [8, 40]}, "marks the characters 8 to 40 in 'a', outside of its text, which has 15"),
        ({"a": [5, 5]}, "marks the characters 5 to 5 in 'a', outside"),
        ({"a": None}, "has no marked word in 'a'"),
        ({"a": "she"}, "marks 'she', which is not in 'he said he left'"),
        ({"a": "he", "at": 99}, "has 99 as the start of 'he', which is no place in its text"),
    ],
)
def test_faults_of_rows_are_said(cells: dict[str, Any], message: str) -> None:
    kind = Words(words="a", starts="at")
    with pytest.raises(ValueError) as error:
        kind.item(SINGLE, {"text": "he said he left", "at": None} | cells)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (["one", "two"], {"words": ["a", "b", "c"]}, "words has 3 columns for two texts"),
        ("text", {"words": "a", "starts": ["b", "c"]}, "starts has 2 columns; needed: 1"),
        ("text", {"words": "a", "match": "near"}, "match is 'near'; possible: exact, form"),
    ],
)
def test_what_does_not_go_together_is_said_before_training(text: Any, options: dict[str, Any], message: str) -> None:
    from pathlib import Path

    task = Task(name="sense", kind="words", text=text, label="same", options=options)
    (fault,) = check_kinds(TaskFile(path=Path("tasks.yaml"), tasks={"sense": task}))
    assert message in fault


def test_options_of_classification_hold_too() -> None:
    assert Words(words="a", class_weights="balanced").weighted
    with pytest.raises(ConfigError, match="label_smoothing"):
        Words(words="a", label_smoothing=2)
