"""Runs that train a model on some tasks of a suite and then learn others on it (see onepass.analysis.transfer)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onepass.bench.processes import serve_run
from onepass.bench.runs import Run, read_suite, trained
from onepass.errors import ConfigError

if TYPE_CHECKING:
    from onepass.model import Model
    from onepass.tasks import Task, TaskFile
    from onepass.training.sets import TaskSet

    Tasks = Mapping[str, Task]
    Protocol = Callable[["TransferRun", TaskFile, Tasks, Path | None], "Cells"]

Cells = list[dict[str, Any]]
EACH, SIMILAR = "each", "similar"


@dataclass(frozen=True)
class TransferRun(Run):
    """A training on the suite's other tasks, and then all ways of learning each of the new ones."""

    module: ClassVar[str] = "onepass.bench.transfer"
    new: tuple[str, ...] = ()
    """The tasks that come later"""
    protocol: str = "new_task"
    """new_task, removal, one_by_one"""
    ways: tuple[str, ...] = ()
    """new_task: JSON objects: share, like (a task, one for each new task, `similar`, `each`), learn, unfreeze"""
    base: bool = True
    """Whether the other tasks are trained first; False: an untrained model that has none"""
    target_train: tuple[str, ...] = ()
    """Training options for the new tasks alone, key=value"""
    rows: int = 0
    """one_by_one: rows that each round may read; 0: those of the smallest source"""
    order: tuple[str, ...] = ()
    """one_by_one: the order in which the sources come; by default another for each seed"""

    @property
    def key(self) -> str:
        extra = [self.protocol, sorted(self.new), self.ways, self.base, self.target_train, self.rows]
        return json.dumps([*json.loads(super().key), *extra, *([self.order] if self.order else [])])


def new_tasks_of(suite_tasks: list[str], wanted: list[str]) -> tuple[str, ...]:
    """The tasks that come later: those named that the suite has, or else a quarter of it from the end.

    >>> new_tasks_of(["mnli", "qqp", "rte", "mrpc"], ["scitail", "rte"])
    ('rte',)
    >>> new_tasks_of(["a", "b", "c", "d", "e"], ["scitail"])
    ('e',)
    """
    if len(suite_tasks) < 2:
        raise ConfigError("A suite of one task has none that could come later. Use a suite of two tasks or more.")
    found = [name for name in suite_tasks if name in wanted][: len(suite_tasks) - 1]
    return tuple(found or suite_tasks[-max(1, len(suite_tasks) // 4) :])


def run_transfer(run: TransferRun, folder: Path | None = None) -> dict[str, Any]:
    """Train on the base tasks, learn the new ones in every way; the line that is kept of it."""
    from accelerate.utils import set_seed

    set_seed(run.seed)
    file = read_suite(run)
    base = {name: task for name, task in file.tasks.items() if name not in run.new}
    cells = PROTOCOLS[run.protocol](run, file.model_copy(update={"tasks": base}), file.tasks, folder)
    return {
        "key": run.key,
        "suite": Path(run.suite).stem,
        "method": run.method,
        "seed": run.seed,
        "overrides": list(run.overrides),
        "protocol": run.protocol,
        "new": list(run.new),
        "average": float(np.mean([cell["test"] for cell in cells])),
        "cells": cells,
    }


def _new_task(run: TransferRun, file: TaskFile, tasks: Tasks, folder: Path | None) -> Cells:
    from onepass.analysis.transfer import NewTask, learn_new_task, read_new_task

    model, sets = _base_model(run, file, folder)
    options = _target_options(run, file)
    cells = []
    for name in run.new:
        item, test = read_new_task(tasks[name], model)
        for text in run.ways:
            way = json.loads(text)
            like = way.get("like", "")
            each = like == EACH
            for old in model.names if each else [_task_like(model, item, like)]:
                scores = learn_new_task(model, sets, item, test, NewTask(**{**way, "like": old}), options)
                cells.append({"task": name, "share": way.get("share", 1.0), "like": old, "each": each, **scores})
    return cells


def _task_like(model: Model, item: TaskSet, like: Any) -> str:
    """The task that a new one begins like: by its name, by the new task's (a mapping), or the most similar one.

    None is found for kinds with several answers a row.
    """
    from onepass.heads import make_kind
    from onepass.training.cache import TextCache
    from onepass.training.start import most_similar

    wanted = like.get(item.task.name, SIMILAR) if isinstance(like, dict) else like
    if not wanted or not model.names or wanted in model.names or make_kind(item.task).ragged:
        return wanted if wanted in model.names else ""
    rows = TextCache(model.method, item.train)
    return model.names[most_similar(rows, item.train.targets, range(len(model.names)), seed=0)]


def _removal(run: TransferRun, file: TaskFile, tasks: Tasks, folder: Path | None) -> Cells:
    from onepass.analysis.sources import removal_search
    from onepass.analysis.transfer import read_new_task

    model, _ = _base_model(run, file, folder)
    cells = []
    for name in run.new:
        found = removal_search(model, *read_new_task(tasks[name], model), _target_options(run, file))
        kept = {"all": found.all_sources()}
        kept |= {f"{how}-{most}": getattr(found, how)(most) for how in ("chosen", "oracle") for most in (1, 2)}
        cells += [
            {"task": name, "way": way, "removed": list(subset.removed), "test": subset.test}
            for way, subset in kept.items()
        ]
    return cells


def _one_by_one(run: TransferRun, file: TaskFile, tasks: Tasks, folder: Path | None) -> Cells:
    from onepass.analysis.sources import adding_one_by_one
    from onepass.analysis.transfer import read_new_task
    from onepass.training.sets import read_sets

    model = _untrained(file)
    sets = read_sets(file, model.tokenizer)
    names = [item.task.name for item in sets]
    order = [names.index(name) for name in run.order]
    order = order or np.random.default_rng(run.seed).permutation(len(sets)).tolist()
    targets = [read_new_task(tasks[name], model) for name in run.new]

    def new_model(sources: str) -> Model:
        options = {**file.method.options, "sources": sources}
        return _untrained(file.model_copy(update={"method": file.method.model_copy(update={"options": options})}))

    rounds = adding_one_by_one(
        new_model, [sets[place] for place in order], targets, _target_options(run, file),
        rows=run.rows or min(len(item.train) for item in sets),
    )  # fmt: skip
    return [
        {"task": "mean of the targets", "way": f"{way}-{found['sources']}", "test": found[way]}
        for found in rounds
        for way in ("prefix", "multitask")
    ]


PROTOCOLS: dict[str, Protocol] = {"new_task": _new_task, "removal": _removal, "one_by_one": _one_by_one}


def _base_model(run: TransferRun, file: TaskFile, folder: Path | None) -> tuple[Model, list[TaskSet]]:
    from onepass.training.sets import read_sets

    if not run.base:
        return _untrained(file), []
    model = trained(file, folder)
    return model, read_sets(file, model.tokenizer)


def _untrained(file: TaskFile) -> Model:
    from onepass.training.options import train_options
    from onepass.training.run import without_tasks

    return without_tasks(file, train_options(file.train))


def _target_options(run: TransferRun, file: TaskFile) -> Any:
    from onepass.training.options import train_options

    # A task alone has nothing to be sampled against.
    return train_options(file.train | {"sampler": "proportional"} | _pairs(run.target_train))


def _pairs(options: tuple[str, ...]) -> dict[str, Any]:
    from onepass.plain_yaml import parse

    return {key: parse(value).value for key, _, value in (option.partition("=") for option in options)}


if __name__ == "__main__":
    serve_run(TransferRun, run_transfer)
