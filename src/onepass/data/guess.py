"""A first task file, guessed from data files; each guess is explained in a comment beside it.

Only a sample of a file's rows is looked at. Nothing is settled here: the user reads the file, corrects it, and lets
`onepass check` read all the data.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from onepass.data.findings import counted, enumerated, short
from onepass.data.guesses import Guess
from onepass.data.roles import guess_roles, is_general
from onepass.data.sources import Source, find_files, find_sources, not_usable, with_shared_tests
from onepass.errors import DataError
from onepass.plain_yaml import quoted
from onepass.tasks import spelling

log = logging.getLogger(__name__)


def guess_task_file(
    paths: Sequence[str | Path],
    *,
    name: str | None = None,
    base: str | Path | None = None,
    kinds: Mapping[str, Any] | None = None,
) -> str:
    """The text of a commented task file for these data files, or for the data files in these folders.

    name: of the task; where there are several it stands before their names.
    base: the folder the task file will be in, the working folder by default; paths are written as seen from there.
    kinds: the kinds that can be written, with their classes, whose `metrics` are offered.
    """
    folder = Path(base) if base is not None else Path.cwd()
    sources = with_shared_tests(find_sources(find_files(paths), set(map(Path, paths))))
    guesses = [guess_roles(source.columns["train"]) for source in sources]
    if not any(guesses):
        raise DataError(_by_hand(sources, folder))
    writer = _Writer(folder, kinds if kinds is not None else {"classification": None, "regression": None})
    lines = _header(paths)
    taken: set[str] = set()
    for source, found in zip(sources, guesses, strict=True):
        if not found:
            columns = enumerated(column.name for column in source.columns["train"])
            file = short(_seen_from(folder, source.files["train"]))
            problem = f"{file}: no text or no label was found. Columns: {columns}."
            lines.append(f"  # {problem}")
            log.warning("%s It is left out: describe its task by hand.", problem)
        for guess in found:
            task = _name(source, guess, name, alone=len(found) == 1, only=len(sources) == 1, taken=taken)
            lines += writer.task(task, source, guess, first=not taken)
            taken.add(task)
        lines += _without_header(source, found)
        lines += [f"    # {note}" for note in source.notes + _left_over(source, found)]
    lines += [
        "",
        "# train: {epochs: 5, max_length: 128, seed: 0}  # for example; the defaults go by the number of rows",
    ]
    return "\n".join(lines) + "\n"


def _header(paths: Sequence[str | Path]) -> list[str]:
    files = enumerated((Path(path).name for path in paths), 5)
    return [
        f"# Guessed by `onepass init` from {files}. Correct what is wrong, then: onepass check FILE",
        "# Paths are relative to this file. Lines that begin with # are optional.",
        "",
        "# encoder: embedded  # the default; or a hub name, or a folder with published weights",
        "# method: readers  # the default; with options: {name: readers, depth: 2, tokens: 2}",
        "",
        "tasks:",
    ]


@dataclass
class _Writer:
    """Writes tasks as lines of a task file in a folder, with the kinds there are."""

    folder: Path
    kinds: Mapping[str, Any]

    def task(self, name: str, source: Source, guess: Guess, *, first: bool) -> list[str]:
        """The lines of one task; the first one also shows the options that are the same for all kinds."""
        columns = [quoted(column.name) for column in guess.text]
        text = columns[0] if len(columns) == 1 else f"[{', '.join(columns)}]"
        lines = [
            f"{name}:",
            *self._kind(guess),
            f"  train: {_path(self.folder, source.files['train'])}",
            *self._split("validation", source, guess),
            *self._split("test", source, guess),
            f"  text: {text}  # {guess.text_reason}",
            f"  label: {quoted(guess.label.name)}  # {guess.label_reason}",
            *(f"  {key}: {_written(value)}" for key, value in guess.options.items()),
            *self._labels(guess),
            *self._metric(guess),
        ]
        if first:
            lines += [f"  # {line}" for line in _options(source)]
        return [f"  {line}" for line in lines]

    def _written_kind(self, guess: Guess) -> str:
        return guess.kind if guess.kind in self.kinds else "classification"

    def _kind(self, guess: Guess) -> list[str]:
        if guess.kind in self.kinds:
            return [f"  kind: {guess.kind}  # {guess.kind_reason}"]
        return [
            f"  # {guess.kind} would be the right kind: {guess.kind_reason}. This version does not have it,",
            "  # so each different cell is taken for a label of its own.",
            f"  kind: {self._written_kind(guess)}",
        ]

    def _split(self, split: str, source: Source, guess: Guess) -> list[str]:
        if split not in source.files:
            return []
        line = f"{split}: {_path(self.folder, source.files[split])}"
        problem = not_usable(source.columns[split], guess)
        return [f"  # {line}  # left out: {problem}" if problem else f"  {line}"]

    def _labels(self, guess: Guess) -> list[str]:
        label = guess.label
        if guess.kind not in ("classification", "multilabel", "words"):
            return []
        counts = counted(dict(label.counts.most_common()), 12)
        lines = [f"  # in {'all' if label.whole else 'a sample of'} {len(label.cells):,} rows: {counts}"]
        if label.whole and label.distinct <= 20 and guess.kind == "classification":
            labels = ", ".join(map(quoted, sorted(label.counts, key=float if label.numbers else None)))
            lines.append(f"  # labels: [{labels}]  # without it, those found in the file of train")
        return lines

    def _metric(self, guess: Guess) -> list[str]:
        kind = self.kinds.get(self._written_kind(guess))
        special = getattr(kind, "special_metrics", ())
        metrics = [name for name in getattr(kind, "metrics", ()) if name not in special]
        others = f"; or {', '.join(metrics[1:])}" if metrics[1:] else ""
        return [f"  # metric: {metrics[0]}  # the default{others}"] if metrics else []


def _options(source: Source) -> list[str]:
    lines = []
    if "validation" not in source.files:
        lines.append("validation: 0.1  # the default: this share of train; or a file")
    if "test" not in source.files:
        lines.append("test: FILE  # what the trained model is measured on")
    return [*lines, "weight: 1.0  # the default: factor of this task's loss"]


def _without_header(source: Source, found: list[Guess]) -> list[str]:
    """A warning where the names of the columns look like one more row."""
    if not any(guess.label.name in guess.label.counts and guess.text[0].is_named_like_text for guess in found):
        return []
    file = short(source.files["train"].name)
    return [f"    # The first line of {file} looks like a row. It must name the columns: put `text,label` above it."]


def _left_over(source: Source, found: list[Guess]) -> list[str]:
    """Columns that may be of use too, for the user to know of."""
    if not found:
        return []
    used = {column.name for guess in found for column in (*guess.text, guess.label)}
    for guess in found:
        for value in guess.options.values():
            used.update([value] if isinstance(value, str) else value)
    left = [
        column
        for column in source.columns["train"]
        if column.name not in used and not column.is_key and not any(column.same_as(guess.label) for guess in found)
    ]
    texts = [column.name for column in left if column.is_text]
    few = {column.name: column.distinct for column in left if column.has_few_values}
    numbers = [column.name for column in left if column.numbers and not column.has_few_values and column.distinct > 1]
    notes = []
    if texts:
        notes.append(f"Other columns of text: {enumerated(texts)}. Two can be read together: text: [ONE, OTHER]")
    if few:
        notes.append(f"Other columns of few values, which could be tasks: {counted(few, 10)}.")
    if numbers:
        notes.append(f"Other columns of numbers, which could be tasks: {enumerated(numbers)}.")
    return notes


def _name(source: Source, guess: Guess, name: str | None, *, alone: bool, only: bool, taken: set[str]) -> str:
    """The file's name; in a wide table the column's, if it says more than 'label'; one that is not taken."""
    column = "" if alone or is_general(guess.label) else guess.label.name
    own = column or ("" if name and only else source.name)
    first, longer = (spelling("_".join(filter(None, [name, *parts]))) for parts in ([own], [source.name, column]))
    numbered = (f"{first[:60]}_{number}" for number in count(2))
    return next(spelled for spelled in chain([first, longer], numbered) if spelled not in taken)


def _by_hand(sources: list[Source], folder: Path) -> str:
    found = []
    for source in sources:
        names = [column.name + ("" if column.filled else " (all blank)") for column in source.columns["train"]]
        columns = enumerated(names, 20)
        found.append(f"{source.files['train']} has the columns {columns}.")
        if any(column.is_named_like_text for column in source.columns["train"]):
            found.append("That looks like a row. The first line must name the columns: put `text,label` above it.")
    example = [
        "tasks:",
        f"  {spelling(sources[0].name)}:",
        f"    train: {_path(folder, sources[0].files['train'])}",
        "    text: THE COLUMN OF THE TEXT",
        "    label: THE COLUMN OF THE LABEL",
    ]
    advice = "No column of text with one of labels beside it was found. Write the task file by hand:"
    return "\n".join([*found, advice, "", *example])


def _seen_from(folder: Path, path: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _path(folder: Path, path: Path) -> str:
    seen = _seen_from(folder, path)
    # A task file reads hub:x and ~x as something else than a file of that name.
    return quoted(f"./{seen}" if seen.startswith(("hub:", "~")) else seen)


def _written(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(quoted, value))}]"
    return value if value.isdecimal() else quoted(value)
