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
    return find_all_labels([task], source, [kind])[0]


def find_all_labels(tasks: Sequence[Task], source: str | Path, kinds: Sequence[Reader]) -> list[tuple[str, ...]]:
    """The labels of tasks that read one file, which is read once."""
    found: list[set[str]] = [set() for _ in tasks]
    faults = RowFaults(source)
    wanted = [one for one in zip(tasks, kinds, found, strict=True) if not one[0].labels]
    columns = _columns((task, kind) for task, kind, _ in wanted)
    for chunk in _checked_chunks(source, columns, faults) if wanted else ():
        for number, row in chunk.rows():
            for task, kind, own in wanted:
                try:
                    if not kind.blank(task, row) and _is_read(task, row, kind):
                        own.update(kind.labels_in(task, row))
                except ValueError as error:
                    _add_fault(faults, chunk, number, task, error)
    return [task.labels or tuple(_sorted_labels(own)) for task, own in zip(tasks, found, strict=True)]


def _columns(readers: Iterable[tuple[Task, Reader]]) -> list[str]:
    return list(dict.fromkeys(column for task, kind in readers for column in kind.columns(task)))


def _is_read(task: Task, row: Row, kind: Reader) -> bool:
    """Whether a row has something to read; what is wrong with it is told when it is read."""
    try:
        item = kind.item(task, row)
    except ValueError:
        return False
    return item is not None and not item.blank


def read_examples(task: Task, source: str | Path, kind: Reader, tokenizer: Encodes, labels: Sequence[str]) -> Examples:
    """Read and tokenise the rows of a file that carry a label for the task; all faults are raised as one DataError."""
    return read_all_examples([task], source, [kind], tokenizer, [labels])[0]


def read_all_examples(
    tasks: Sequence[Task],
    source: str | Path,
    kinds: Sequence[Reader],
    tokenizer: Encodes,
    labels: Sequence[Sequence[str]],
) -> list[Examples]:
    """The same for tasks that read one file, which is read once: a wide table may have columns for hundreds."""
    faults = RowFaults(source)
    readers = [_Rows(*one) for one in zip(tasks, kinds, labels, strict=True)]
    seen = 0
    for chunk in _checked_chunks(source, _columns(zip(tasks, kinds, strict=True)), faults):
        for number, row in chunk.rows():
            seen += 1
            for reader in readers:
                try:
                    reader.read(number, row)
                except ValueError as error:
                    _add_fault(faults, chunk, number, reader.task, error)
        for reader in readers:
            # After a fault the rows are only checked, so that the user does not wait for tokens that nobody will use.
            reader.keep(None if faults else tokenizer)
    if not seen:
        raise DataError(f"{source} has no rows.")
    if lacking := [reader.lack(seen) for reader in readers if not reader.store.rows]:
        raise DataError(listed([f"{source}: {lack}" for lack in lacking]))
    return [
        readers.pop(0).store.examples() for _ in tasks
    ]  # taken off, so that no task's rows are there twice for long


class _Rows:
    """The rows of one task, while its file is read."""

    def __init__(self, task: Task, kind: Reader, labels: Sequence[str]) -> None:
        self.task, self.kind, self.labels = task, kind, labels
        self.store = Store()
        self.items: list[Item] = []  # of this chunk
        self.targets: list[Any] = []
        self.numbers: list[int] = []

    def read(self, number: int, row: Row) -> None:
        if self.kind.blank(self.task, row):
            return
        item = self.kind.item(self.task, row)
        if item is None or item.blank:
            self.store.blank_rows.append(number)
            return
        self.targets.append(self.kind.target(row, self.task, self.labels))
        self.items.append(item)
        self.numbers.append(number)

    def keep(self, tokenizer: Encodes | None) -> None:
        """Tokenise what was read of a chunk, and forget its texts."""
        items, targets, numbers = self.items, self.targets, self.numbers
        self.items, self.targets, self.numbers = [], [], []
        if tokenizer is None or not items:
            return
        tokens = tokenise(items, tokenizer, self.kind.points, self.kind.windows)
        for place in [place for place, one in enumerate(tokens) if one.empty][::-1]:
            self.store.blank_rows.append(numbers[place])  # what it has of a text makes no token
            del items[place], targets[place], numbers[place], tokens[place]
        if items:
            self.store.add(items, tokens, targets, numbers)

    def lack(self, seen: int) -> str:
        blank = f"; {len(self.store.blank_rows)} labelled rows have a blank text" if self.store.blank_rows else ""
        return (
            f"task {self.task.name!r} has no row to learn from ({seen} rows, column {self.task.label!r}{blank}). "
            "Give the column that holds its labels as `label` and the column of the text as `text`."
        )


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
