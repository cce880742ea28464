"""Scoring a model on labelled rows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from onepass.calibration import trust
from onepass.data.examples import Examples
from onepass.data.reading import read_examples
from onepass.data.split import split as split_rows
from onepass.data.stream import sorted_batches
from onepass.encoder.encoder import evaluating
from onepass.errors import ConfigError, DataError, listed, unknown
from onepass.heads import Kind, check_kinds, make_kind
from onepass.model import Forward, Model
from onepass.tasks import Task, TaskFile, read_task_file
from onepass.tasks.task import FILE_KEYS
from onepass.training.sets import SPLIT_SEED, fingerprint, path_of
from onepass.where import pack

log = logging.getLogger(__name__)
EVALUATION_ROWS, EVALUATION_TOKENS = 512, 16384


def all_logits(
    model: Model, examples: Mapping[int, Examples], autocast: Any = None, method: Forward | None = None
) -> dict[int, Any]:
    """The logits of every row of each task (by number), each row asked its own task only.

    An array (N, C), or of ragged kinds a list of (P, C).
    """
    every = [(task, own, row) for task, own in examples.items() for row in range(len(own))]
    lengths = [length for own in examples.values() for length in own.lengths]
    found: dict[int, list[Any]] = {task: [None] * len(own) for task, own in examples.items()}
    with evaluating(model), autocast or nullcontext():
        for places in sorted_batches(lengths, EVALUATION_ROWS, EVALUATION_TOKENS):
            chosen = [every[place] for place in places]
            batch, asked, where = pack(chosen)
            logits = model.row_logits(batch, asked, where, method)
            for number, (task, _, row) in enumerate(chosen):
                found[task][row] = logits[number]
    return {task: as_logits(rows, model.kinds[task], model.tasks[task]) for task, rows in found.items()}


def is_answer(logits: np.ndarray) -> bool:
    """Whether a row's logits can be decoded; -inf stands for places that a row does not have."""
    return bool(np.isfinite(logits).any()) and not (np.isnan(logits) | np.isposinf(logits)).any()


def as_logits(rows: list[Any], kind: Kind, task: Task) -> Any:
    """The logits of rows as kinds want them: (R, C), or of ragged kinds a list of (P, C)."""
    if kind.ragged:
        return rows
    return np.stack(rows) if rows else np.zeros((0, kind.outputs(task)), np.float32)


def score_tasks(
    model: Model, examples: Mapping[int, Examples], autocast: Any = None, method: Forward | None = None
) -> dict[str, dict[str, Any]]:
    """Every task's scores in percent, by task name, with its own metric as `score`."""
    return {
        model.tasks[number].name: scores_of(model.tasks[number], model.kinds[number], logits, examples[number])
        for number, logits in all_logits(model, examples, autocast, method).items()
    }


def scores_of(task: Task, kind: Kind, logits: Any, rows: Examples) -> dict[str, Any]:
    """One task's scores in percent, with its own metric as `score`."""
    scores = kind.score(task, logits, rows.targets, rows.readings)
    metric = next(iter(scores))
    return {"metric": metric, "score": scores[metric], "rows": len(logits), **scores}


def score_decisions(model: Model, number: int, logits: Any, rows: Examples) -> None:
    """Put into a task's record what it reaches on its validation rows with its thresholds, which came after its scores.

    What it reached without them, by which checkpoints were compared, is kept beside it.
    """
    if model.tasks[number].options.get("threshold") is not None and "validation" in model.records[number].get(
        "scores", {}
    ):
        score_again(model, number, logits, rows)


def score_again(model: Model, number: int, logits: Any, rows: Examples) -> None:
    """Put into a task's record what it reaches on its validation rows as it decides now."""
    task, scores = model.tasks[number], model.records[number]["scores"]
    without = {"without_thresholds": scores["validation"]} if task.fitted.get("thresholds") else {}
    model.records[number]["scores"] = {"validation": scores_of(task, model.kinds[number], logits, rows), **without}


def average(results: Mapping[str, Mapping[str, Any]]) -> float:
    """The mean of the tasks' own metrics."""
    return float(np.mean([result["score"] for result in results.values()]))


def evaluate(
    model: Model | str | Path,
    file: str | Path | Mapping[str, Any] | TaskFile | None = None,
    *,
    split: str = "test",
    overrides: str | Sequence[str] = (),
) -> dict[str, Any]:
    """Score a model, or that of a folder, on the files of a task file, or on those its tasks were trained from.

    A task without a test file is scored on its validation rows; `split` of each result says which were used.
    `calibration` says how far probabilities are from what happens (`ece` in percent), as they came and calibrated;
    `thresholds` what is given of a task that has some. The scores are of all rows, those of withheld answers included.
    """
    if split not in ("test", "validation"):
        raise ConfigError(unknown("split", split, ("test", "validation")))
    if isinstance(model, (str, Path)):
        model = Model.load(model, "auto")
    tasks = tasks_of(model, file, overrides)
    examples, used, faults = {}, {}, []
    for number, task in enumerate(model.tasks):
        if task.name not in tasks:
            continue
        given = tasks[task.name]
        used[task.name] = "validation" if split == "validation" or given.test is None else "test"
        if used[task.name] == "validation" and (reason := without_rows(model, number, given)):
            log.warning("%s is not scored: %s, and there is no test file", task.name, reason)
            continue
        try:
            examples[number] = rows_of(model, number, given, used[task.name])
        except DataError as error:
            faults.append(str(error))
    if faults:
        advice = "\nIf the data are elsewhere now, name them in a task file: onepass evaluate MODEL TASKS.YAML"
        raise DataError(listed(faults) + (advice if file is None else ""))
    if not examples:
        raise DataError("There is nothing to score: no task has rows that it did not learn from. Give a test file.")
    results = {}
    for number, logits in all_logits(model, examples).items():
        task, targets = tasks[model.names[number]], examples[number].targets
        kind = make_kind(task)
        result = scores_of(task, kind, logits, examples[number])
        result |= {"split": used[task.name]} | trust(task, kind, logits, examples[number])
        if shown := kind.given(task, logits, targets):
            result["thresholds"] = shown
        results[task.name] = result
    return {"average": average(results), "tasks": results}


def validation_rows(model: Model, numbers: Sequence[int], data: Path | None = None) -> dict[int, Examples]:
    """The validation rows of tasks, or the rows of a data file with the columns they were trained on."""
    found, faults = {}, []
    for number in numbers:
        task = model.tasks[number]
        given = task if data is None else task.model_copy(update={"validation": data})
        try:
            if reason := without_rows(model, number, given):
                raise DataError(f"Task {task.name!r} has no validation rows: {reason}. Give a data file.")
            found[number] = rows_of(model, number, given, "validation")
        except DataError as error:
            faults.append(str(error))
    if faults:
        raise DataError(listed(list(dict.fromkeys(faults))))
    return found


def tasks_of(
    model: Model, file: str | Path | Mapping[str, Any] | TaskFile | None, overrides: str | Sequence[str] = ()
) -> dict[str, Task]:
    """The model's tasks as a task file gives them (see `as_given`), or as they were trained."""
    known = {task.name: task for task in model.tasks}
    if overrides and (file is None or isinstance(file, TaskFile)):
        raise ConfigError("overrides go with the path of a task file. Give one, or give them to read_task_file.")
    if file is None:
        return known
    if not isinstance(file, TaskFile):
        file = read_task_file(file, overrides, checks=[check_kinds], require=())
    found, faults = {}, []
    for name, given in file.tasks.items():
        try:
            if name not in known:
                raise ConfigError(unknown("task of this model", name, model.names))
            found[name] = as_given(known[name], given)
        except ConfigError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError(listed(faults))
    return found


def as_given(task: Task, given: Task) -> Task:
    """A model's task with the files, the columns and the metric that a task file gives it.

    Its labels, its thresholds and what it learned stay. A file that leaves the kind out means the model's.
    """
    options = task.options
    if given.kind == task.kind:
        options = task.options | {key: value for key, value in given.options.items() if key != "threshold"}
    elif given.kind != Task.model_fields["kind"].default:
        raise ConfigError(f"Task {task.name!r} is {given.kind} here, but {task.kind} in the model. Leave out its kind.")
    changed = {key: getattr(given, key) for key in ("text", "label", *FILE_KEYS)}
    found = task.model_copy(update={**changed, "options": options, "metric": given.metric or task.metric})
    kind = make_kind(found)  # raises if the metric needs an option that is not there
    if found.metric is not None and found.metric not in kind.metrics:
        known = unknown(f"metric of {task.kind} tasks", found.metric, kind.metrics)
        raise ConfigError(f"Task {task.name!r}: {known}")
    return found


def without_rows(model: Model, number: int, given: Task) -> str:
    """Why there is no share of a task's training rows to judge it on, if so."""
    if not isinstance(given.validation, float) or given.train != model.tasks[number].train:
        return ""
    if model.records[number].get("rows", {}).get("validation") == 0:  # of few rows none is held back
        return "it learned from all its rows"
    return "it names no file of its rows (a server keeps none of those it is sent)" if given.train is None else ""


def rows_of(model: Model, number: int, given: Task, split_name: str) -> Examples:
    """The rows of a task's split, read with the labels the model knows."""
    task = model.tasks[number]
    given = as_given(task, given)
    kind = make_kind(given)
    if len(given.text) != len(task.text):
        raise DataError(
            f"Task {task.name!r} reads {len(given.text)} text columns here ({', '.join(given.text)}), but the model "
            f"was trained on {len(task.text)} ({', '.join(task.text)}). Give as many."
        )
    if split_name == "validation" and isinstance(given.validation, float):
        if given.train is None:
            raise DataError(
                f"Task {task.name!r} names no validation file, and no training file to take a share of. Give one."
            )
        every = read_examples(given, path_of(given, "train"), kind, model.tokenizer, task.labels)
        train, rows = split_rows(every, given.validation, SPLIT_SEED)
        if not len(rows):
            raise DataError(
                f"Task {task.name!r} has no validation rows: {given.validation:g} of its {len(every)} rows is less "
                "than one. Give a test file."
            )
        if fingerprint(train) != model.records[number].get("data", fingerprint(train)):
            log.warning(
                "%s: its rows are not those of the training any more, or another share of them is held back: it may "
                "have learned from some that it is now measured on. Give a file of rows that it has not seen",
                task.name,
            )
        return rows
    return read_examples(given, path_of(given, split_name), kind, model.tokenizer, task.labels)
