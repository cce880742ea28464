"""What 8 bits are judged on: labelled rows that were not trained on, or texts without labels."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onepass.data.examples import Examples
from onepass.data.files import read_chunks
from onepass.engine.engine import Engine
from onepass.engine.gate import Outcome
from onepass.errors import DataError, listed
from onepass.heads.base import blank
from onepass.inquiry import Inquiry, Pieces
from onepass.model import Model
from onepass.training.evaluation import as_logits, rows_of, tasks_of, without_rows

log = logging.getLogger(__name__)
MOST_ROWS = 1000
"""Rows of a task that are looked at"""


class Sample(Protocol):
    """What one task is judged on."""

    number: int

    def pieces(self, engine: Engine) -> list[Pieces]:
        """The sequences that are read."""

    def outcome(self, engine: Engine) -> Outcome:
        """What an engine makes of it."""


@dataclass
class LabelledRows:
    """Rows of one task."""

    number: int
    examples: Examples
    labelled: bool = True
    """Whether the labels are its own; else only the answers are compared"""

    def pieces(self, engine: Engine) -> list[Pieces]:
        rows = [self.examples.sequences(row) for row in range(len(self.examples))]
        return [Pieces(ids.tolist(), types.tolist()) for own in rows for ids, types in own]

    def outcome(self, engine: Engine) -> Outcome:
        task, kind, examples = engine.tasks[self.number], engine.kinds[self.number], self.examples
        ranges = {}
        if kind.reads_tokens and examples.readings is not None:
            ranges = {self.number: [own for reading in examples.readings for own in reading.ranges]}
        found = engine.logits_of(self.pieces(engine), [self.number], ranges)[0]
        ends = zip(examples.parts[:-1], examples.parts[1:], strict=True)
        by_row = [found[first:end] for first, end in ends]  # a row may have several sequences
        rows = [
            np.concatenate([np.atleast_2d(part) for part in own]) if kind.ragged else kind.pool_row(np.stack(own))
            for own in by_row
        ]
        logits = as_logits(rows, kind, task)
        labels = [prediction.label for prediction in kind.decode(task, logits, examples.readings)]
        if not self.labelled:
            return Outcome(labels)
        scores = kind.score(task, logits, examples.targets, examples.readings)
        metric = next(iter(scores))
        return Outcome(labels, metric, float(scores[metric]))


@dataclass
class Texts:
    """Inputs of one task, without labels."""

    number: int
    inputs: list[Any]

    def pieces(self, engine: Engine) -> list[Pieces]:
        asked = [(self.number, engine.tasks[self.number], engine.kinds[self.number])]
        rows = Inquiry(self.inputs, asked, engine.tokenizer).tokens[0]
        return [Pieces(ids, types) for row in rows for ids, types in row.sequences]

    def outcome(self, engine: Engine) -> Outcome:
        name = engine.tasks[self.number].name
        return Outcome([answers[name].label for answers in engine.predict(self.inputs, tasks=[name])])


def labelled_rows(model: Model, file: str | Path | None) -> list[Sample]:
    """The validation rows of all tasks: those that a task file names, or else those of the training.

    A task without any, that was taught by a server or learned from all its rows, is judged on the rows of another.
    """
    found: dict[int, LabelledRows] = {}
    without: dict[int, str] = {}
    faults = []
    tasks = {task.name: task for task in model.tasks} | tasks_of(model, file)
    for number, name in enumerate(model.names):
        if reason := without_rows(model, number, tasks[name]):
            without[number] = reason
            continue
        try:
            found[number] = LabelledRows(number, _some(rows_of(model, number, tasks[name], "validation")))
        except DataError as error:
            faults.append(str(error))
    for number, reason in without.items():
        name = model.names[number]
        lenders = [rows for rows in found.values() if rows.labelled and _reads_alike(model, number, rows.number)]
        if not lenders:
            faults.append(f"Task {name!r} has no validation rows: {reason}.")
            continue
        lender = max(lenders, key=lambda rows: len(rows.examples))
        found[number] = LabelledRows(number, lender.examples, labelled=False)
        log.warning(
            "%s has no validation rows: %s. It is judged on the texts of %s, only by how many answers change",
            name, reason, model.names[lender.number],
        )  # fmt: skip
    if faults:
        raise DataError(
            f"8 bits are judged by what they change on rows that were not trained on. {listed(faults)}\n"
            "Name rows with a task file (onepass export MODEL TASKS.YAML --int8) or texts without labels "
            "(--calibrate FILE), or leave out --int8."
        )
    return [found[number] for number in sorted(found)]


def _reads_alike(model: Model, one: int, other: int) -> bool:
    """Whether two tasks read so many texts, and nothing else of a row."""
    pairs = [(model.tasks[number], model.kinds[number]) for number in (one, other)]
    counts = {kind.num_texts(task) if kind.points == "vector" and not kind.ragged else 0 for task, kind in pairs}
    return len(counts) == 1 and 0 not in counts


def texts_of(model: Model, path: Path) -> list[Sample]:
    """The rows of a data file for each task, with the columns that it reads."""
    samples: list[Sample] = []
    for number, (task, kind) in enumerate(zip(model.tasks, model.kinds, strict=True)):
        columns = kind.inputs(task)
        rows: list[Any] = []
        for chunk in read_chunks(path, columns):
            for place, row in chunk.rows():
                try:
                    if not any(map(blank, row.values())) and kind.item(task, row) is not None:
                        rows.append(row)
                except ValueError as error:
                    raise DataError(f"{path}, row {place}: task {task.name!r} {error}") from None
            if len(rows) >= MOST_ROWS:
                break
        if not rows:
            raise DataError(f"{path} has no text for task {task.name!r} in {', '.join(columns)}.")
        samples.append(Texts(number, rows[:MOST_ROWS]))
    return samples


def _some(examples: Examples) -> Examples:
    # From the whole file evenly, which may be sorted by label, and shuffled: the first stand for all when ranges are
    # found.
    places = np.unique(np.linspace(0, len(examples) - 1, min(MOST_ROWS, len(examples))).astype(np.int64))
    return examples.take(np.random.default_rng(0).permutation(places))
