"""What a check keeps of the rows it has seen: of each three 64-bit hashes and its number, 32 bytes in all."""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onepass.data.examples import text_hash
from onepass.data.files import RowFaults
from onepass.data.findings import Finding
from onepass.data.items import Item
from onepass.data.reading import Reader, Row
from onepass.tasks import Task

MAX_LABELS = 10_000  # different labels kept of a split: a column of texts, taken for labels, must not fill the memory
SHOWN = 5
SHOWN_FAULTS = 20

Hashes = NDArray[np.uint64]


class RowCount:
    """How many rows there are of a sort, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[int] = []

    def add(self, row: int) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(row)


class BrokenRows(RowFaults):
    """Rows that cannot be used, by what is wrong with them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sorts: dict[str, RowCount] = {}

    def add(self, row: int, what: str, line: int | None = None) -> None:
        self.count += 1
        what = what.rstrip(".")
        if what not in self.sorts and len(self.sorts) >= SHOWN_FAULTS:
            what = "has faults of other sorts"
        self.sorts.setdefault(what, RowCount()).add(row)

    def findings(self, task: str, sort: str, start: str = "") -> Iterator[Finding]:
        for what, rows in self.sorts.items():
            advice = "Correct or remove " + ("the row." if rows.count == 1 else f"these {rows.count:,} rows.")
            file = str(self.path)
            yield Finding("fault", task, sort, f"{start}{what}", advice, file, tuple(rows.first), rows.count)


class SplitRows:
    """What is kept of the rows of one task in one file."""

    def __init__(self, task: Task, name: str, path: Path, kind: Reader, max_characters: int) -> None:
        self.task = task
        self.name = name
        self.path = path
        self.kind = kind
        self.max_characters = max_characters * kind.windows.most
        self.complete = True  # False: a fault kept the file from being read to its end
        self.without_label = 0
        self.blank = RowCount()
        self.long = RowCount()
        self.broken = BrokenRows(path)
        self.labels: dict[str, RowCount] = {}
        self.answer = ""  # of the first row
        self._hashes, self._questions, self._answers, self._rows = (array("Q") for _ in range(4))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def has_all_labels(self) -> bool:
        """Whether no label was left out of `labels` because there were so many."""
        return len(self.labels) < MAX_LABELS

    def add(self, number: int, row: Row) -> None:
        """Note what training would read of a row, or what keeps it from doing so."""
        task, kind = self.task, self.kind
        try:
            if kind.blank(task, row):
                self.without_label += 1
                return
            item = kind.item(task, row)
            if item is None or item.blank:
                self.blank.add(number)
                return
            # Which labels are possible is known when all files are read; until then a row's own are.
            named = tuple(sorted(set(kind.labels_in(task, row))))
            target = kind.target(row, task, named)
        except ValueError as error:
            self.broken.add(number, str(error))
            return
        answer = kind.said(task, row, target)
        self.answer = self.answer or answer
        for label in named:
            if label in self.labels or len(self.labels) < MAX_LABELS:
                self.labels.setdefault(label, RowCount()).add(number)
        if any(len(text) > self.max_characters for text in item.texts):
            self.long.add(number)
        self._hashes.append(text_hash(item.texts))
        self._questions.append(_question(item) if kind.points == "marks" else self._hashes[-1])
        self._answers.append(hash(answer) % 2**64)
        self._rows.append(number)

    def freeze(self) -> None:
        """Makes arrays of what was gathered, when the last row is read."""
        self.hashes: Hashes = np.array(self._hashes, np.uint64)  # (N,)
        self.questions: Hashes = np.array(self._questions, np.uint64)  # (N,) equal for equal texts with equal marks
        self.answers: Hashes = np.array(self._answers, np.uint64)  # (N,) equal for equal labels or numbers
        self.rows: Hashes = np.array(self._rows, np.uint64)  # (N,)
        self._hashes, self._questions, self._answers, self._rows = (array("Q") for _ in range(4))

    def finding(
        self,
        severity: Literal["fault", "warning"],
        sort: str,
        found: str,
        advice: str,
        rows: Iterable[int] = (),
        count: int = 0,
    ) -> Finding:
        return Finding(severity, self.task.name, sort, found, advice, str(self.path), tuple(map(int, rows)), count)

    def warning(self, sort: str, found: str, advice: str, rows: Hashes | RowCount | None = None) -> Finding:
        if rows is None:
            return self.finding("warning", sort, found, advice)
        if isinstance(rows, RowCount):
            return self.finding("warning", sort, found, advice, rows.first, rows.count)
        return self.finding("warning", sort, found, advice, np.sort(rows)[:SHOWN], len(rows))


def _question(item: Item) -> int:
    """A hash of the texts and of which words of them are marked; like that of a text, it is blind to case and space."""
    marked = [part for text, start, end in item.marks for part in (item.texts[text][:start], item.texts[text][:end])]
    return text_hash((*item.texts, *marked))
