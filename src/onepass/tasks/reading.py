"""From a task file to tasks that are sound.

    encoder: embedded
    method: {name: readers, depth: 2}
    tasks:
      politics: {train: data/politics.csv, text: headline, label: is_politics}
    train: {epochs: 5}

All faults are raised at once, each with its file and line.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from onepass.errors import ConfigError, listed, unknown
from onepass.tasks.draft import Draft
from onepass.tasks.file import TOP_KEYS, Check, MethodChoice, TaskFile
from onepass.tasks.paths import encoder_path, unreadable, whole_path, with_whole_paths
from onepass.tasks.task import FILE_KEYS, TASK_KEYS, Task, shown


def read_task_file(
    source: str | Path | Mapping[str, Any],
    overrides: str | Sequence[str] = (),
    checks: Sequence[Check] = (),
    require: Sequence[str] = ("train",),
) -> TaskFile:
    """Reads a task file, or a mapping with what would stand in one; one ConfigError holds all its faults.

    overrides: "train.epochs=1", "method=mtop", "tasks.topic.metric=macro_f1". Paths in a file start at its folder,
        paths in a mapping and in overrides at the working folder.
    checks: what the layers above know (kinds, methods, training options). Each gets the file as far as it is valid,
        without the tasks that have faults of their own, and returns faults.
    require: the optional keys that each task must have here.
    """
    draft = Draft.given(source, "The task file") if isinstance(source, Mapping) else Draft.read(Path(source))
    for override in [overrides] if isinstance(overrides, str) else overrides:
        draft.override(override)
    return _checked(draft, checks, require)


def make_task(name: str, keys: dict[str, Any], checks: Sequence[Check] = ()) -> Task:
    """A task from values given in Python or on the command line, checked like those of a task file."""
    draft = Draft.given({"tasks": {name: keys}}, "The task")
    return _checked(draft, checks, require=("train",)).tasks[name]


def _checked(draft: Draft, checks: Sequence[Check], require: Sequence[str]) -> TaskFile:
    file = _built(draft, require)
    faults = [*draft.faults, *(fault for check in checks for fault in check(file))]
    if faults:
        raise ConfigError(listed(faults))
    return file


def _built(draft: Draft, require: Sequence[str]) -> TaskFile:
    """The task file, as far as it is valid."""
    data = {key: value for key, value in draft.data.items() if value is not None}
    for key in data:
        if key not in TOP_KEYS:
            draft.fault((key,), unknown("key", key, TOP_KEYS))
    encoder = data.get("encoder", "embedded")
    if not isinstance(encoder, str) or not encoder.strip():
        draft.fault(("encoder",), f"encoder is {shown(encoder)}. Possible: embedded, a hub name, a folder.")
        encoder = "embedded"
    train = data.get("train", {})
    if not isinstance(train, dict):
        draft.fault(("train",), f"train is {shown(train)}. Possible: options, for example {{epochs: 5}}.")
        train = {}
    return TaskFile(
        path=draft.path,
        encoder=encoder_path(encoder, draft.path.parent),
        method=_method(draft, data.get("method", {})),
        tasks=_tasks(draft, data.get("tasks"), require),
        train=with_whole_paths(train, draft.path.parent),
    )


def _method(draft: Draft, value: Any) -> MethodChoice:
    keys = {"name": value} if isinstance(value, str) else value
    if isinstance(keys, dict):
        name = keys.get("name", "readers")
        if isinstance(name, str) and name.strip():
            return MethodChoice(name=name, options={key: keys[key] for key in keys if key != "name"})
    draft.fault(("method",), f"method is {shown(value)}. Possible: a name, or {{name: readers, depth: 2}}.")
    return MethodChoice()


def _tasks(draft: Draft, value: Any, require: Sequence[str]) -> dict[str, Task]:
    if not isinstance(value, dict) or not value:
        draft.fault(("tasks",), f"tasks is {shown(value)}. Needed: a mapping from each task's name to its keys.")
        return {}
    tasks = {name: _task(draft, name, keys, require) for name, keys in value.items()}
    return {name: task for name, task in tasks.items() if task is not None}


def _task(draft: Draft, name: str, value: Any, require: Sequence[str]) -> Task | None:
    place, before = ("tasks", name), len(draft.faults)
    if not isinstance(value, dict):
        draft.fault(place, f"task {name!r} is {shown(value)}. Needed: a mapping with train, text and label.")
        return None
    given = {key: item for key, item in value.items() if item is not None}
    common = {key: item for key, item in given.items() if key in TASK_KEYS}
    options = {key: item for key, item in given.items() if key not in TASK_KEYS}
    for key in (key for key in FILE_KEYS if key in common):
        source = common[key] = whole_path(common[key], draft.path.parent)
        if isinstance(source, Path) and (problem := unreadable(source)):
            draft.fault((*place, key), f"task {name!r}: {key}: {problem}")
    for key in require:
        if key not in common:
            draft.fault(place, _missing(name, key, options))
    try:
        task = Task(name=name, options=options, **common)
    except ValidationError as error:
        # One fault a key: of a list with three bad items pydantic makes three.
        for key, entry in {str((*entry["loc"], "")[0]): entry for entry in error.errors()}.items():
            draft.fault((*place, key), _in_our_words(name, key, entry, given))
        return None
    return task if len(draft.faults) == before else None


def _missing(task: str, key: str, others: Iterable[str]) -> str:
    near = get_close_matches(key, list(others), n=1)
    guess = f" Did you mean it by {near[0]!r}?" if near else ""
    return f"task {task!r} has no {key}.{guess} Needed: {Task.model_fields[key].description}."


def _in_our_words(task: str, key: str, entry: Any, given: dict[str, Any]) -> str:
    if entry["type"] == "missing":
        return _missing(task, key, [other for other in given if other not in TASK_KEYS])
    problem = str(entry["ctx"]["error"]) if entry["type"] == "value_error" else f"is {shown(given.get(key))}"
    if not key:
        return f"task {task!r} {problem}."
    possible = f"Possible: {Task.model_fields[key].description}."
    return f"{problem} {possible}" if key == "name" else f"task {task!r}: {key} {problem}. {possible}"
