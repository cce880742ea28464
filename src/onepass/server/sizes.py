"""How much the tasks asked will read of a request's inputs: budgets, the queue and the learned speed go by that.

A plain text is read once, whatever is asked. A row is read in each of the ways that its tasks have, and candidate by
candidate: what a few letters can ask for that way must not be more than the longest texts are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onepass.data.items import Texts
from onepass.encoder.tokenizer import CHARACTERS_PER_TOKEN, Tokenizer
from onepass.heads import Kind, make_kind
from onepass.inquiry import Form
from onepass.server.body import strings
from onepass.server.replies import Refused, invalid
from onepass.tasks import Task

CHARACTERS_A_TOKEN = 5
FEWEST_TOKENS = 8  # that a sequence costs, however short it is
LONGEST_MARK, MOST_WORDS = 200, 16
Row = dict[str, Any]


class Reader:
    """How one version of the model reads inputs."""

    def __init__(self, tokenizer: Tokenizer, definitions: Iterable[Mapping[str, Any]]):
        self.tokenizer, self.max_length = tokenizer, tokenizer.max_length
        self.tasks = {task.name: (task, make_kind(task)) for task in (Task(**known) for known in definitions)}
        self.windows = max(kind.windows.most for _, kind in self.tasks.values())
        keep_short((kind for _, kind in self.tasks.values()), self.max_length)

    def measured(self, inputs: Sequence[Any], names: Sequence[str] | None, most: int) -> list[int]:
        """The tokens of each input; Refused if they are too much.

        That is more candidates in a row than `most`, or with those of all rows more than so many texts of full length.
        """
        plain = iter(self._plain([given for given in inputs if not isinstance(given, dict)]))
        ways: dict[Form, Ways] = {}
        sizes, texts = [], 0.0
        for place, given in enumerate(inputs):
            if not isinstance(given, dict):
                sizes.append(next(plain))
                texts += min(1.0, sizes[-1] / self.max_length)
                continue
            if (form := Form.of(given, place)) not in ways:
                ways[form] = Ways(self._asked(form, names))
            own = self._sizes(ways[form].sequences(given, place, most))
            texts += sum(max(FEWEST_TOKENS, size) for size in own) / (self.max_length * ways[form].most)
            if texts > most:
                raise Refused(
                    413,
                    "too_many",
                    f"With all of their candidates these rows are more than {most:,} texts of full length, the most "
                    "that is taken. Send fewer at once.",
                )
            sizes.append(max(1, sum(own)))
        return sizes

    def _plain(self, inputs: Sequence[Any]) -> list[int]:
        """The tokens of texts and pairs, about: a task that reads in windows reads more than one sequence."""
        parts = [strings(given) for given in inputs]
        encoded = iter(self.tokenizer.encode([(part,) for own in parts for part in own]))
        most = self.windows * self.max_length
        sizes = []
        for own in parts:
            size = 0
            for part in own:
                tokens = len(next(encoded))
                size += max(tokens, min(len(part) // CHARACTERS_A_TOKEN, most)) if self.windows > 1 else tokens
            sizes.append(max(1, size))
        return sizes

    def _asked(self, form: Form, names: Sequence[str] | None) -> list[tuple[Task, Kind]]:
        """The tasks that rows of a form are asked: if all are, those that they have values for."""
        chosen = self.tasks.values() if names is None else [self.tasks[name] for name in names if name in self.tasks]
        fitting = [(task, kind) for task, kind in chosen if form.fits(task, kind)]
        whole = [(task, kind) for task, kind in fitting if not kind.lacks(task, form.missing)]
        return whole if whole and names is None else fitting

    def _sizes(self, windows: Mapping[Texts, int]) -> list[int]:
        """The tokens of each sequence, or of so many windows of it."""
        parts = list({part for texts in windows for part in texts})
        encoded = self.tokenizer.encode([(part,) for part in parts])
        around = self.tokenizer.special_tokens
        tokens = {part: len(one) - around(1) for part, one in zip(parts, encoded, strict=True)}
        sizes = []
        for texts, most in windows.items():
            size = around(len(texts)) + sum(tokens[part] for part in texts)
            if most > 1 and size >= self.max_length:
                size = max(size, sum(map(len, texts)) // CHARACTERS_A_TOKEN)
            sizes.append(min(size, most * self.max_length))
        return sizes


def keep_short(kinds: Iterable[Kind], max_length: int) -> None:
    """Let kinds make and compare no longer texts than are read."""
    for kind in kinds:
        kind.keep_short(CHARACTERS_PER_TOKEN * max_length + 1)


class Ways:
    """How rows of one form are read by the tasks that they are asked."""

    def __init__(self, asked: Iterable[tuple[Task, Kind]]):
        self.plain: dict[Texts, int] = {}
        """The columns that are read together, and in how many windows at most"""
        self.choices: list[tuple[Task, Kind]] = []
        self.marked: list[str] = []
        """The columns of marked words"""
        for task, kind in asked:
            if kind.reads_candidates:
                self.choices.append((task, kind))
            else:
                self.plain[task.text] = max(self.plain.get(task.text, 0), kind.windows.most)
            self.marked += kind.marked

    @property
    def most(self) -> int:
        """How many sequences a row is at most that has one candidate for each choice."""
        return max(1, sum(self.plain.values()) + len(self.choices))

    def sequences(self, row: Row, place: int, most: int) -> dict[Texts, int]:
        """What is read of a row, and in how many windows; of what cannot be read nothing: its task will say so."""
        _check_marks(row, self.marked, place)
        found: dict[Texts, int] = {}
        for columns, windows in self.plain.items():
            texts = tuple(_joined(row[column]) for column in columns)
            found[texts] = max(windows, found.get(texts, 0))
        for task, kind in self.choices:
            try:
                if (count := len(kind.listed(row))) > most:
                    raise Refused(
                        413,
                        "too_many",
                        f"inputs[{place}] has {count:,} candidates for task {task.name!r}; at most {most:,} are taken.",
                        place=place,
                    )
                item = kind.item(task, row)
            except ValueError:
                continue
            for texts in item.sequences if item else ():
                found[texts] = max(1, found.get(texts, 0))
        return found


def _check_marks(row: Row, columns: Iterable[str], place: int) -> None:
    """Raise if a marked word is so long that it would take long to look for it."""
    for column in columns:
        word = str(row[column])
        if len(word) > LONGEST_MARK or len(word.split()) > MOST_WORDS:
            raise invalid(
                f"inputs[{place}] marks more than {LONGEST_MARK} characters or {MOST_WORDS} words in {column!r}. Give "
                "the characters [start, end] instead.",
                place=place,
            )


def _joined(cell: Any) -> str:
    return " ".join(map(str, cell)) if isinstance(cell, list) else str(cell)
