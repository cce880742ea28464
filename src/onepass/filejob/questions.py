"""What a model is asked about the rows of a file, and the columns its answers become."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from onepass.errors import ConfigError, DataError, did_you_mean
from onepass.filejob.records import Reject, Row, begins, unwritable
from onepass.heads import make_kind
from onepass.heads.base import blank
from onepass.prediction import Labelled
from onepass.tasks import Task

TRUNCATED = "truncated"


class Labels(Protocol):
    """What a job needs of a model; the torch-free engine has it too."""

    @property
    def tasks(self) -> Sequence[Task]: ...
    def label(self, texts: Sequence[Any], tasks: Sequence[str] | None = None) -> Sequence[Labelled]: ...
    def applicable(self, num_texts: int, names: Sequence[str] | None) -> Sequence[int]: ...
    def numbers(self, names: Sequence[str] | None) -> Sequence[int]: ...


class Questions:
    """The tasks to ask, by the columns they read: those named, else all whose columns the file has.

    adds: whether the answers become columns beside those of the file.
    """

    def __init__(
        self,
        model: Labels,
        source: Path,
        columns: Sequence[str],
        *,
        tasks: Sequence[str] | None = None,
        text: Sequence[str] = (),
        prefix: str = "",
        adds: bool = True,
    ):
        self.model = model
        self.known = {task.name: (task, make_kind(task)) for task in model.tasks}
        self.renamed = bool(text)
        groups = self._grouped(tasks, tuple(text))
        there = {read: names for read, names in groups.items() if set(read) <= set(columns)}
        self.groups = there if there and tasks is None else groups
        _check_columns(source, columns, self.groups)
        self.left = [name for read, names in groups.items() if read not in self.groups for name in names]
        """The tasks that are not asked, since the file lacks a column that they read"""
        self.added: dict[str, tuple[str, str]] = {}
        """By the name of each new column, the task and the part of its answer; the last says if a text was cut"""
        self.first: dict[str, Any] = {}
        """A value of each new column"""
        self.cut = prefix + TRUNCATED
        self._name_columns(prefix)
        if adds and (clash := [name for name in self.first if name in columns]):
            raise ConfigError(
                f"{source} has columns of these names already: {', '.join(clash)}. "
                "Give the answers others: --prefix predicted_"
            )

    def _name_columns(self, prefix: str) -> None:
        for name in (name for names in self.groups.values() for name in names):
            task, kind = self.known[name]
            for part, value in kind.cells(task).items():
                column = prefix + (name if part == "label" else f"{name}_{part}")
                if column in self.added or column == self.cut:
                    other = f"task {self.added[column][0]!r}" if column in self.added else "the mark of cut texts"
                    raise ConfigError(
                        f"Task {name!r} and {other} would both write the column {column!r}. Rename a task (onepass "
                        "rename), or label the file with some of the tasks at a time (--tasks)."
                    )
                self.added[column], self.first[column] = (name, part), value
        self.first[self.cut] = False

    def _grouped(self, names: Sequence[str] | None, text: tuple[str, ...]) -> dict[tuple[str, ...], list[str]]:
        model = self.model
        if text:
            return {text: [model.tasks[number].name for number in model.applicable(len(text), names)]}
        groups: dict[tuple[str, ...], list[str]] = {}
        for number in model.numbers(names):
            task = model.tasks[number]
            groups.setdefault(tuple(self.known[task.name][1].inputs(task)), []).append(task.name)
        return groups

    def label(self, rows: Sequence[Row]) -> tuple[list[tuple[Row, dict[str, Labelled]]], list[Reject]]:
        """Each row with its labelled text by task, and the rows that have nothing to label.

        A text that several rows have is asked once.
        """
        rejects: dict[int, Reject] = {}
        asked: list[dict[tuple[str, ...], Any]] = []
        for row in rows:
            texts, faults = self._texts(row)
            asked.append(texts)
            if faults:
                rejects[row.number] = Reject(row.number, row.line, faults, begins(row.values))
        found: list[dict[str, Labelled]] = [{} for _ in rows]
        for read, names in self.groups.items():
            places = [i for i, row in enumerate(rows) if row.number not in rejects and read in asked[i]]
            keys = {i: id(asked[i][read]) if isinstance(asked[i][read], dict) else asked[i][read] for i in places}
            different = {key: asked[i][read] for i, key in keys.items()}
            answers, unanswered = self._labelled(different, names)
            for i in places:
                if keys[i] in answers:
                    found[i].update((name, answers[keys[i]]) for name in names)
                else:
                    row = rows[i]
                    rejects[row.number] = Reject(row.number, row.line, unanswered[keys[i]], begins(row.values))
        done = [(row, answers) for row, answers in zip(rows, found, strict=True) if row.number not in rejects]
        return done, list(rejects.values())

    def _labelled(self, texts: dict[Any, Any], names: list[str]) -> tuple[dict[Any, Labelled], dict[Any, str]]:
        """The answers to texts by their keys, and why some have none; one text costs the others nothing."""
        try:
            labelled = self.model.label(list(texts.values()), names) if texts else ()
            return dict(zip(texts, labelled, strict=True)), {}
        except DataError as error:
            if len(texts) == 1:
                return {}, {key: str(error).removeprefix("Text 1: ") for key in texts}
        middle = len(texts) // 2
        halves = dict(islice(texts.items(), middle)), dict(islice(texts.items(), middle, None))
        (first, first_faults), (second, second_faults) = (self._labelled(half, names) for half in halves)
        return first | second, first_faults | second_faults

    def _texts(self, row: Row) -> tuple[dict[tuple[str, ...], Any], str]:
        """The texts of a row by the columns they are in, and why it must be rejected, if so."""
        texts: dict[tuple[str, ...], Any] = {}
        empty: dict[str, None] = {}
        for read, names in self.groups.items():
            values = [row.values.get(column) for column in read]
            try:
                is_plain = self._is_plain(read, names, values)
                found = _plain_texts(read, values) if is_plain else self._row(read, names, values)
            except ValueError as error:
                return {}, str(error)
            if found is None:
                empty.update((column, None) for column, value in zip(read, values, strict=True) if blank(value))
            else:
                texts[read] = found
        # In a wide table a row may have the text of some tasks only.
        return texts, "" if texts else f"there is no text in {' and '.join(map(repr, empty))}."

    def _row(self, read: tuple[str, ...], names: Sequence[str], values: Sequence[Any]) -> dict[str, Any] | None:
        """What tasks read that read more than texts; None if one of them has nothing to read."""
        given = self._given(read, names, values)
        holes = {column for column, value in given.items() if blank(value)}
        return None if any(self._lacks(name, given, holes) for name in names) else given

    def _lacks(self, name: str, given: dict[str, Any], holes: set[str]) -> bool:
        """Whether a row has nothing to read for a task."""
        task, kind = self.known[name]
        try:
            return kind.lacks(task, holes) or kind.item(task, given) is None
        except ValueError as error:
            raise ValueError(f"task {name!r} {error}") from None

    def _given(self, read: tuple[str, ...], names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
        """The cells of a row by the columns that the tasks know them by; `text` names others than those."""
        own = [self.known[name][0].text for name in names] if self.renamed else [read]
        return {column: value for columns in own for column, value in zip(columns, values, strict=True)}

    def _is_plain(self, read: tuple[str, ...], names: Sequence[str], values: Sequence[Any]) -> bool:
        """Whether these columns hold texts and nothing else that the tasks read."""
        enough = all(kind.num_texts(task) == len(read) for task, kind in map(self.known.__getitem__, names))
        return enough and not any(self.known[name][1].reads_lists and isinstance(values[0], list) for name in names)

    def columns(self, labelled: dict[str, Labelled]) -> dict[str, Any]:
        """The new cells of a row."""
        cells: dict[str, Any] = {}
        for column, (task, part) in self.added.items():
            cells[column] = labelled[task].tasks[task].to_dict()[part] if task in labelled else None
        cells[self.cut] = any(one.truncated for one in labelled.values())
        return cells


def _plain_texts(columns: Sequence[str], values: Sequence[Any]) -> str | tuple[str, ...] | None:
    """The text or texts in some columns of a row; None if one is blank, ValueError for what is no text."""
    for column, value in zip(columns, values, strict=True):
        if isinstance(value, (list, dict, bytes)):
            raise ValueError(f"column {column!r} holds no text but a {type(value).__name__}.")
        if fault := unwritable(value):
            raise ValueError(f"column {column!r} {fault}")
    if any(map(blank, values)):
        return None
    return str(values[0]) if len(values) == 1 else tuple(map(str, values))


def _check_columns(source: Path, columns: Sequence[str], groups: dict[tuple[str, ...], list[str]]) -> None:
    for read, tasks in groups.items():
        if missing := [column for column in read if column not in columns]:
            raise DataError(
                f"{source} has no column {missing[0]!r}, which {', '.join(tasks)} "
                f"{'reads' if len(tasks) == 1 else 'read'}.{did_you_mean(missing[0], columns)} Columns: "
                f"{', '.join(columns)}. "
                "Name the column of the text with --text."
            )
