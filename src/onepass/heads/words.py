"""A label about marked words inside a text or two: WiC, WSC."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepass.data.items import Item
from onepass.heads.base import Row, blank, texts_of
from onepass.heads.cells import listed_cell, shown, whole_number
from onepass.heads.classification import Classification
from onepass.heads.marking import find_form, find_text
from onepass.heads.metrics import accuracy, f1, macro_f1, matthews
from onepass.heads.options import checked_columns, wrong_option
from onepass.tasks import Task


class Words(Classification):
    """Exactly one label, from the method's vector and the mean state of each marked word beside it.

    words: the columns of the marked words. A cell is the word, or the characters [start, end] at which it stands. Of
        two texts each has its own column, or both have one, and the word is marked in both.
    starts: the columns of the places at which the words begin, where a word may stand there several times.
    starts_in: `characters`, or `words`, which are counted from 0 at white space.
    match: `exact` wants the word as it is, case aside; `form` takes the most similar word of the text where it is not
        there, so that "begin" is found in "it began".
    """

    metrics = {"accuracy": accuracy, "macro_f1": macro_f1, "f1": f1, "matthews": matthews}
    points = "marks"
    reads_tokens = True

    def __init__(
        self,
        *,
        words: str | Sequence[str] = (),
        starts: str | Sequence[str] = (),
        starts_in: str = "characters",
        match: str = "exact",
        class_weights: str | Mapping[str, float] = "none",
        focal: float = 0.0,
        label_smoothing: float = 0.0,
        threshold: float | Mapping[str, Any] | None = None,
    ):
        super().__init__(class_weights=class_weights, focal=focal, label_smoothing=label_smoothing, threshold=threshold)
        self.words, self.starts = checked_columns("words", words), checked_columns("starts", starts)
        if starts_in not in ("characters", "words"):
            raise wrong_option("starts_in", starts_in, "characters, words")
        if match not in ("exact", "form"):
            raise wrong_option("match", match, "exact, form")
        self.count_words, self.forms = starts_in == "words", match == "form"
        self.longest: int | None = None
        """In so many characters of a text similar words are looked for; None: in all"""

    def unfit(self, task: Task) -> str:
        if not self.words:
            return "words is missing. Needed: the columns of the marked words."
        if len(task.text) == 2 and len(self.words) not in (1, 2):
            return f"words has {len(self.words)} columns for two texts. Needed: one for both, or one for each."
        if self.starts and len(self.starts) != self.num_marks(task):
            return f"starts has {len(self.starts)} columns; needed: {self.num_marks(task)}, one for each marked word."
        return ""

    def num_marks(self, task: Task) -> int:
        """How many words are marked in a row."""
        return max(len(self.words), len(task.text))

    def inputs(self, task: Task) -> list[str]:
        return list(dict.fromkeys([*task.text, *self.words, *self.starts]))

    def lacks(self, task: Task, missing: Collection[str]) -> bool:
        return super().lacks(task, missing) or any(column in missing for column in self.words)

    def num_texts(self, task: Task) -> int:
        return 0

    @property
    def marked(self) -> tuple[str, ...]:
        return tuple(self.words)

    def keep_short(self, longest: int) -> None:
        self.longest = longest

    def find(self, text: str, word: str, begin: int = 0) -> tuple[int, int] | None:
        """The characters of a word behind a place of the text, or of a form of it."""
        return find_form(text, word, begin, self.longest) if self.forms else find_text(text, word, begin)

    def loss_key(self) -> tuple[Any, ...]:
        return (*super().loss_key(), self.points)

    def states(self, task: Task) -> int:
        return 1 + self.num_marks(task)

    def all_ranges(self, task: Task, length: int) -> NDArray[np.int16]:
        return np.tile(np.array([[0, length]], np.int16), (self.num_marks(task), 1))

    def item(self, task: Task, row: Row) -> Item | None:
        if (texts := texts_of(task, row)) is None:
            return None
        marks = []
        for mark in range(self.num_marks(task)):
            of_text = mark if len(texts) == 2 else 0
            column = self.words[mark if len(self.words) > 1 else 0]
            start = row[self.starts[mark]] if self.starts else None
            marks.append((of_text, *self._place(texts[of_text], row[column], start, column)))
        return Item([texts], marks)

    def _at(self, text: str, word: str, begin: int) -> tuple[int, int] | None:
        """The word, or what stands for it, that begins at this very place; further on a better match may follow."""
        many = r"\W+".join([r"\w+"] * max(1, len(re.findall(r"\w+", word))))
        here = re.compile(many).match(text, begin)
        found = self.find(here.group(), word) if here else None
        return (begin + found[0], begin + found[1]) if found and not found[0] else None

    def _place(self, text: str, cell: Any, start: Any, column: str) -> tuple[int, int]:
        """The characters of a marked word; ValueError if it is not in the text."""
        if blank(cell):
            raise ValueError(f"has no marked word in {column!r}. Give a word, or its characters [start, end].")
        if characters := _characters(cell):
            if not 0 <= characters[0] < characters[1] <= len(text):
                raise ValueError(
                    f"marks the characters {characters[0]} to {characters[1]} in {column!r}, outside of its text, "
                    f"which has {len(text)}."
                )
            return characters
        word, begin = str(cell).strip(), 0
        if not blank(start):
            number = whole_number(start)
            begins = [match.start() for match in re.finditer(r"\S+", text)] if self.count_words else range(len(text))
            if number is None or not 0 <= number < len(begins):
                raise ValueError(f"has {shown(start)} as the start of {word!r}, which is no place in its text.")
            begin = begins[number]
        found = None if blank(start) else self._at(text, word, begin)
        found = found or self.find(text, word, begin)
        if found is None:
            advice = "" if self.forms else "; match: form looks for other forms of the word"
            raise ValueError(
                f"marks {word!r}, which is not in {shown(text)}. Write it as it stands there, or give its characters "
                f"[start, end]{advice}."
            )
        return found


def _characters(cell: Any) -> tuple[int, int] | None:
    """The characters that a cell names, if it does: [4, 9]."""
    if isinstance(cell, str) and not cell.lstrip().startswith("["):
        return None
    try:
        numbers = [whole_number(part) for part in listed_cell(cell)]
    except ValueError:
        return None
    if len(numbers) == 2 and numbers[0] is not None and numbers[1] is not None:
        return numbers[0], numbers[1]
    return None
