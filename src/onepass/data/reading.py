"""From the rows of a file to examples.

A file is read chunk by chunk and only its token ids are kept: texts are dropped as soon as they are tokenised. What a
row means is left to a `Reader`, which each kind of task implements.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from onepass.data.encoding import Encodes, tokenise
from onepass.data.examples import Examples, Store
from onepass.data.files import Chunk, RowFaults, read_chunks
from onepass.data.items import Item, Points, Windows
from onepass.errors import DataError, listed
from onepass.tasks import Task

Row = dict[str, Any]


class Reader(Protocol):
    """What a kind of task must say about its rows; the kinds in `heads/` implement it.

    The text of a ValueError continues the sentence "task 'tone' ...", for example
    "has label 'angri'. Labels: angry, calm, sad.". Rows with the same text are reported together.
    """

    def columns(self, task: Task) -> list[str]:
        """The columns that the task reads, text and label."""

    def blank(self, task: Task, row: Row) -> bool:
        """Whether the row has no label for this task, as in a wide table; such rows are passed over silently."""

    def item(self, task: Task, row: Row) -> Item | None:
        """What the task reads, or None when there is nothing to read. ValueError: cells that do not go together."""

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> Any:
        """The label's index (int), a 0/1 array over labels, a float, or what else the kind can score.

        ValueError: a label that is not possible.
        """

    def labels_in(self, task: Task, row: Row) -> Iterable[str]:
        """The labels that this row names; none for kinds without labels."""

    def said(self, task: Task, row: Row, target: Any) -> str:
        """What the row says, in a form that is equal for equal answers."""

    def teaches_nothing(self, answer: str) -> bool:
        """Whether rows that all say this, as `said` has it, cannot be trained on."""

    def named_faults(self, task: Task) -> list[str]:
        """What is wrong with the labels that the task's options name, once its labels are known."""

    @property
    def blank_advice(self) -> str:
        """What to tell who leaves the label's cell blank, if anything."""

    @property
    def outside(self) -> str:
        """The label of what is to have none, for kinds with such a one."""

    @property
    def points(self) -> Points:
        """What the head reads of a row."""

    @property
    def windows(self) -> Windows:
        """How texts are read that are longer than the tokenizer's limit."""


def find_labels(task: Task, source: str | Path, kind: Reader) -> tuple[str, ...]:
    """The labels of a task: those it names itself, else the distinct ones of a file, sorted, by number if all are."""
    if task.labels:
        return task.labels
    found: set[str] = set()
    faults = RowFaults(source)
    for chunk in _checked_chunks(source, kind.columns(task), faults):
        for number, row in chunk.rows():
            try:
                if not kind.blank(task, row) and _is_read(task, row, kind):
                    found.update(kind.labels_in(task, row))
            except ValueError as error:
                _add_fault(faults, chunk, number, task, error)
    return tuple(_sorted_labels(found))


def _is_read(task: Task, row: Row, kind: Reader) -> bool:
    """Whether a row has something to read; what is wrong with it is told when it is read."""
    try:
        item = kind.item(task, row)
    except ValueError:
        return False
    return item is not None and not item.blank


def read_examples(task: Task, source: str | Path, kind: Reader, tokenizer: Encodes, labels: Sequence[str]) -> Examples:
    """Read and tokenise the rows of a file that carry a label for the task; all faults are raised as one DataError."""
    store = Store()
    faults = RowFaults(source)
    seen = 0
    for chunk in _checked_chunks(source, kind.columns(task), faults):
        items: list[Item] = []
        targets: list[Any] = []
        numbers: list[int] = []
        for number, row in chunk.rows():
            seen += 1
            try:
                if kind.blank(task, row):
                    continue
                item = kind.item(task, row)
                if item is None or item.blank:
                    store.blank_rows.append(number)
                    continue
                target = kind.target(row, task, labels)
            except ValueError as error:
                _add_fault(faults, chunk, number, task, error)
                continue
            items.append(item)
            targets.append(target)
            numbers.append(number)
        # After a fault the rows are only checked, so that the user does not wait for tokens that nobody will use.
        if items and not faults:
            tokens = tokenise(items, tokenizer, kind.points, kind.windows)
            for place in [place for place, one in enumerate(tokens) if one.empty][::-1]:
                store.blank_rows.append(numbers[place])  # what it has of a text makes no token
                del items[place], targets[place], numbers[place], tokens[place]
            if items:
                store.add(items, tokens, targets, numbers)
    if not seen:
        raise DataError(f"{source} has no rows.")
    if not store.rows:
        blank = f"; {len(store.blank_rows)} labelled rows have a blank text" if store.blank_rows else ""
        raise DataError(
            f"{source}: task {task.name!r} has no row to learn from ({seen} rows, column {task.label!r}{blank}). "
            "Give the column that holds its labels as `label` and the column of the text as `text`."
        )
    return store.examples()


def _sorted_labels(found: set[str]) -> list[str]:
    try:
        numbers = {label: float(label) for label in found}
    except ValueError:
        return sorted(found)
    if not all(math.isfinite(number) for number in numbers.values()):  # "nan" and "inf" are words here
        return sorted(found)
    return sorted(found, key=lambda label: (numbers[label], label))


def _checked_chunks(source: str | Path, columns: Sequence[str], faults: RowFaults) -> Iterator[Chunk]:
    """The chunks of a file; after the last one, or where reading breaks off, all faults are raised together."""
    try:
        yield from read_chunks(source, columns, faults=faults)
    except DataError as error:
        raise DataError(listed([*faults.messages(), str(error)])) from None
    faults.check()


def _add_fault(faults: RowFaults, chunk: Chunk, number: int, task: Task, error: ValueError) -> None:
    line = chunk.lines[number - chunk.first_row] if chunk.lines else None
    faults.add(number, f"task {task.name!r} {error}", line)
