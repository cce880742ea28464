"""The kinds of task, one file each."""

import inspect

from onepass.errors import ConfigError, unknown
from onepass.heads.base import Kind
from onepass.heads.choice import Choice
from onepass.heads.classification import Classification
from onepass.heads.extraction import Extraction
from onepass.heads.multilabel import Multilabel
from onepass.heads.regression import Regression
from onepass.heads.tagging import Tagging
from onepass.heads.words import Words
from onepass.tasks import TASK_KEYS, Task, TaskFile

KINDS: dict[str, type[Kind]] = {
    "classification": Classification,
    "multilabel": Multilabel,
    "regression": Regression,
    "choice": Choice,
    "words": Words,
    "tagging": Tagging,
    "extraction": Extraction,
}

__all__ = ["KINDS", "Kind", "check_kinds", "make_kind", "options_of_kind"]


def make_kind(task: Task) -> Kind:
    """The kind of a task, with the task's options."""
    if task.kind not in KINDS:
        raise ConfigError(f"Task {task.name!r}: {unknown('kind', task.kind, KINDS)}")
    kind = KINDS[task.kind](**task.options)
    if problem := kind.unfit(task):
        raise ConfigError(f"Task {task.name!r}: {problem}")
    kind.check(task)
    return kind


def options_of_kind(name: str) -> list[str]:
    """The options that a kind of task has."""
    return list(inspect.signature(KINDS[name]).parameters)


def check_kinds(file: TaskFile) -> list[str]:
    """Faults in the kinds, the metrics and the kinds' options of a task file."""
    faults = []
    for task in file.tasks.values():
        where = f"Task {task.name!r}"
        if task.kind not in KINDS:
            faults.append(f"{where}: {unknown('kind', task.kind, KINDS)}")
            continue
        kind = KINDS[task.kind]
        if task.metric is not None and task.metric not in kind.metrics:
            faults.append(f"{where}: {unknown(f'metric of {task.kind} tasks', task.metric, kind.metrics)}")
        options, before = options_of_kind(task.kind), len(faults)
        for key, value in task.options.items():
            if key not in options:
                faults.append(f"{where}: {unknown('key', key, [*TASK_KEYS, *options])}")
                continue
            try:
                kind(**{key: value})  # one by one, so that the faults of all options are found
            except ConfigError as error:
                faults.append(f"{where}: {error}")
        if len(faults) == before and (problem := kind(**task.options).unfit(task)):
            faults.append(f"{where}: {problem}")
    return faults
