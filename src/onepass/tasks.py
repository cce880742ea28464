"""Task, and the task file that names the tasks, the encoder, the method and the training options.

    encoder: embedded
    method: {name: readers, depth: 2}
    tasks:
      politics: {train: data/politics.csv, text: headline, label: is_politics}
    train: {epochs: 5}

Keys of a task that are not common to all kinds go to its `options`; what is possible there only its kind knows. So do
the options of the method and of the training: the layers above pass checks for them to `read_task_file`.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from onepass.errors import ConfigError, listed, unknown

Place = tuple[str, ...]  # as in plain_yaml, which is imported with a task file: who asks a model needs no YAML
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TOP_KEYS = ("encoder", "method", "tasks", "train")
FILE_KEYS = ("train", "validation", "test")
TRAIN_FILE_KEYS = ("teachers", "baseline")
TEXT_KEYS = ("kind", "text", "label", "labels", "metric", "group")
DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather")
MAX_BYTES = 8 * 2**20  # a task file has some kilobytes; more is a data file given by mistake


class Task(BaseModel):
    """A question asked of a text: a name, a kind, labels, where its data are, its metric.

    >>> Task(name="tone", text="headline", label="tone", labels=["calm", "angry"]).text
    ('headline',)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="a-z, 0-9, '.', '_', '-', at most 64, the first a letter or a digit")
    kind: str = Field(default="classification", min_length=1, description="the name of a task kind")
    text: tuple[str, ...] = Field(min_length=1, max_length=2, description="a column, or a list of two")
    label: str = Field(min_length=1, description="the column of the label")
    labels: tuple[str, ...] = Field(
        default=(), description="a list with each label once; without it they come from the data"
    )
    metric: str | None = Field(default=None, min_length=1, description="the name of a metric")
    train: Path | str | None = Field(default=None, description="a data file, or hub:NAME")
    validation: Path | str | float = Field(
        default=0.1, description="a data file, hub:NAME, or a share of train between 0 and 1"
    )
    test: Path | str | None = Field(default=None, description="a data file, or hub:NAME")
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False, strict=True, description="a number above 0")
    group: str | None = Field(default=None, min_length=1, description="the name of a group of tasks that share readers")
    options: dict[str, Any] = Field(default={}, description="what else the task's kind asks for")
    fitted: dict[str, Any] = Field(default={}, description="what training learned beside weights, e.g. a mean")

    @field_validator("name")
    @classmethod
    def _is_a_folder_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no task name. Did you mean {spelling(name)!r}?")
        return name

    @field_validator("text", mode="before")
    @classmethod
    def _as_columns(cls, text: Any) -> Any:
        return (text,) if isinstance(text, str) else text

    @field_validator("labels", mode="before")
    @classmethod
    def _as_texts(cls, labels: Any) -> Any:
        if isinstance(labels, (list, tuple)):
            return tuple(str(label) if isinstance(label, (int, float)) else label for label in labels)
        return labels

    @field_validator("text", "labels")
    @classmethod
    def _are_names(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        twice = [value for value in values if values.count(value) > 1]
        if twice:
            raise ValueError(f"holds {twice[0]!r} twice")
        if not all(value.strip() for value in values):
            raise ValueError("holds an empty name")
        return values

    @field_validator(*FILE_KEYS, mode="plain")  # pydantic's own choice between Path and str differs in JSON
    @classmethod
    def _as_source(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str) and value.strip():
            return value if value.startswith("hub:") else Path(value)
        is_share = info.field_name == "validation" and isinstance(value, (int, float)) and 0 < value < 1
        if is_share or isinstance(value, Path) or (value is None and info.field_name != "validation"):
            return value
        raise ValueError(f"is {_shown(value)}")

    @model_validator(mode="after")
    def _label_is_no_text(self) -> "Task":
        if self.label in self.text:
            raise ValueError(f"reads column {self.label!r} both as text and as label")
        return self


class MethodChoice(BaseModel):
    """The name of a method and the options it is built with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "readers"
    options: dict[str, Any] = Field(default={})
    chosen: dict[str, str] = Field(default={})
    """Options that were left open (`auto`), and for what they were decided"""


class TaskFile(BaseModel):
    """A task file as it was read: defaults filled in, overrides applied, paths resolved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    encoder: str = "embedded"
    method: MethodChoice = MethodChoice()
    tasks: dict[str, Task]
    train: dict[str, Any] = Field(default={})


TASK_KEYS = tuple(key for key in Task.model_fields if key not in ("name", "options", "fitted"))
Check = Callable[[TaskFile], list[str]]


def read_task_file(
    path: str | Path, overrides: Sequence[str] = (), checks: Sequence[Check] = (), require: Sequence[str] = ("train",)
) -> TaskFile:
    """Reads a task file; one ConfigError holds all its faults.

    overrides: "train.epochs=1", "method=mtop", "tasks.topic.metric=macro_f1". Paths in the file start at its folder,
        paths in overrides at the working folder.
    checks: what the layers above know (kinds, methods, training options). Each gets the file as far as it is valid,
        without the tasks that have faults of their own, and returns faults.
    require: the optional keys that each task must have here.
    """
    draft = _Draft.read(Path(path))
    for override in overrides:
        draft.override(override)
    return _checked(draft, checks, require)


def make_task(name: str, keys: dict[str, Any], checks: Sequence[Check] = ()) -> Task:
    """A task from values given in Python or on the command line, checked like those of a task file."""
    draft = _Draft(Path.cwd() / "command", {"tasks": {name: keys}}, {(): "The task"})
    return _checked(draft, checks, require=("train",)).tasks[name]


def _checked(draft: "_Draft", checks: Sequence[Check], require: Sequence[str]) -> TaskFile:
    file = draft.build(require)
    faults = [*draft.faults, *(fault for check in checks for fault in check(file))]
    if faults:
        raise ConfigError(listed(faults))
    return file


def spelling(name: str) -> str:
    """A valid task name that resembles the given one.

    >>> spelling("Healthy Living!")
    'healthy_living'
    """
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9.-]+", "_", plain).strip("._-")[:64] or "task"


def similar(path: Path) -> str:
    """What to add to a message about a file that is not there: the nearest name that is, or that there is no folder."""
    try:
        near = get_close_matches(path.name, os.listdir(path.parent), n=1)
    except (OSError, ValueError):
        return f" There is no folder {str(path.parent)!r} either."
    return f" Did you mean {near[0]!r}?" if near else ""


class _Draft:
    """A task file being read: its values, the line of each key, the faults so far."""

    def __init__(self, path: Path, data: dict[str, Any], origins: dict[Place, str]) -> None:
        self.path, self.data, self.origins = path, data, origins
        self.faults: list[str] = []

    @classmethod
    def read(cls, path: Path) -> "_Draft":
        from onepass.plain_yaml import parse

        document = parse(_read(path), as_written=_is_text)
        faults = [f"{path}, line {line}: {what}" if line else f"{path}: {what}" for line, what in document.faults]
        if faults:
            raise ConfigError(listed(faults))
        if not isinstance(document.value, dict):
            found = _shown(document.value)
            raise ConfigError(f"{path} is {found}. A task file is a mapping with the keys {', '.join(TOP_KEYS)}.")
        return cls(path, document.value, {place: f"{path}, line {line}" for place, line in document.lines.items()})

    def fault(self, place: Place, what: str) -> None:
        while place and place not in self.origins:
            place = place[:-1]
        self.faults.append(f"{self.origins.get(place, self.path)}: {what}")

    def override(self, text: str) -> None:
        """Applies one override, or notes what is wrong with it."""
        from onepass.plain_yaml import parse

        key, equals, value = text.partition("=")
        place = self._place(key.strip())
        document = parse(value, place, _is_text)
        problem = document.faults[0][1] if document.faults else self._cannot_override(place)
        if not equals or not all(place):
            problem = "write it as key=value, for example train.epochs=1."
        if problem:
            self.faults.append(f"override {text!r}: {problem}")
            return
        self.origins[place] = f"override {text!r}"
        holder = self.data
        for step in place[:-1]:
            inner = holder.get(step)
            if step in ("method", "sampler") and isinstance(inner, str):
                inner = {"name": inner}
            # A copy: with YAML's aliases two tasks can share one mapping.
            holder[step] = dict(inner) if isinstance(inner, dict) else {}
            holder = holder[step]
        here = Path.cwd()
        is_file = place[0] == "tasks" and place[-1] in FILE_KEYS
        found = _file(document.value, here) if is_file else document.value
        found = _encoder(found, here) if place == ("encoder",) else found
        holder[place[-1]] = _train_files({place[-1]: found}, here)[place[-1]] if place[0] == "train" else found

    def _place(self, key: str) -> Place:
        head, dot, rest = key.partition(".")
        if head == "tasks" and dot:
            name, _, last = rest.rpartition(".")  # a task's name may have dots, its keys have none
            return (head, name or last, last) if name else (head, rest)
        if head == "train" and dot:
            return (head, *rest.split("."))
        if dot or not head or get_close_matches(head, TOP_KEYS, n=1, cutoff=0.85):
            return (head, rest) if dot else (head,)
        return ("train", head)

    def _cannot_override(self, place: Place) -> str:
        if place[0] not in TOP_KEYS:
            return unknown("key", place[0], TOP_KEYS)
        if place[0] != "tasks":
            return ""
        if len(place) < 3:
            return "write it as tasks.NAME.KEY=value."
        tasks = self.data.get("tasks")
        known = list(tasks) if isinstance(tasks, dict) else []
        return "" if place[1] in known else unknown("task", place[1], known)

    def build(self, require: Sequence[str]) -> TaskFile:
        """The task file, as far as it is valid."""
        data = {key: value for key, value in self.data.items() if value is not None}
        for key in data:
            if key not in TOP_KEYS:
                self.fault((key,), unknown("key", key, TOP_KEYS))
        encoder = data.get("encoder", "embedded")
        if not isinstance(encoder, str) or not encoder.strip():
            self.fault(("encoder",), f"encoder is {_shown(encoder)}. Possible: embedded, a hub name, a folder.")
            encoder = "embedded"
        train = data.get("train", {})
        if not isinstance(train, dict):
            self.fault(("train",), f"train is {_shown(train)}. Possible: options, for example {{epochs: 5}}.")
            train = {}
        return TaskFile(
            path=self.path,
            encoder=_encoder(encoder, self.path.parent),
            method=self._method(data.get("method", {})),
            tasks=self._tasks(data.get("tasks"), require),
            train=_train_files(train, self.path.parent),
        )

    def _method(self, value: Any) -> MethodChoice:
        keys = {"name": value} if isinstance(value, str) else value
        if isinstance(keys, dict):
            name = keys.get("name", "readers")
            if isinstance(name, str) and name.strip():
                return MethodChoice(name=name, options={key: keys[key] for key in keys if key != "name"})
        self.fault(("method",), f"method is {_shown(value)}. Possible: a name, or {{name: readers, depth: 2}}.")
        return MethodChoice()

    def _tasks(self, value: Any, require: Sequence[str]) -> dict[str, Task]:
        if not isinstance(value, dict) or not value:
            self.fault(("tasks",), f"tasks is {_shown(value)}. Needed: a mapping from each task's name to its keys.")
            return {}
        tasks = {name: self._task(name, keys, require) for name, keys in value.items()}
        return {name: task for name, task in tasks.items() if task is not None}

    def _task(self, name: str, value: Any, require: Sequence[str]) -> Task | None:
        place, before = ("tasks", name), len(self.faults)
        if not isinstance(value, dict):
            self.fault(place, f"task {name!r} is {_shown(value)}. Needed: a mapping with train, text and label.")
            return None
        given = {key: item for key, item in value.items() if item is not None}
        common = {key: item for key, item in given.items() if key in TASK_KEYS}
        options = {key: item for key, item in given.items() if key not in TASK_KEYS}
        for key in (key for key in FILE_KEYS if key in common):
            source = common[key] = _file(common[key], self.path.parent)
            if isinstance(source, Path) and (problem := _unreadable(source)):
                self.fault((*place, key), f"task {name!r}: {key}: {problem}")
        for key in require:
            if key not in common:
                self.fault(place, _missing(name, key, options))
        try:
            task = Task(name=name, options=options, **common)
        except ValidationError as error:
            # One fault a key: of a list with three bad items pydantic makes three.
            for key, entry in {str((*entry["loc"], "")[0]): entry for entry in error.errors()}.items():
                self.fault((*place, key), _in_our_words(name, key, entry, given))
            return None
        return task if len(self.faults) == before else None


def _is_text(place: Place) -> bool:
    return len(place) > 2 and place[0] == "tasks" and place[2] in TEXT_KEYS


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder. Give the task file in it.")
        if not path.is_file():
            raise ConfigError(f"There is no task file {path}.{similar(path)}")
        if path.suffix.lower() in DATA_SUFFIXES or path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} is no task file but data. Write a task file for it with: onepass init {path}")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise ConfigError(f"{path}, line {line}: byte 0x{byte:02x} is not UTF-8. Save the file as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None


def _file(value: Any, folder: Path) -> Any:
    """Where a file named in a folder is; what is no file name stays for Task to judge."""
    if not isinstance(value, str) or not value.strip() or value.startswith("hub:"):
        return value
    return folder.absolute() / os.path.expanduser(value)


def _encoder(value: Any, folder: Path) -> Any:
    """An encoder that is a folder, with its whole path; `embedded` and hub names stay as they are."""
    if not isinstance(value, str) or value == "embedded":
        return value
    path = str(_file(value, folder))
    return path if value.startswith((".", "/", "~")) or os.path.isdir(path) else value


def _train_files(options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Training options in which the files and folders they name have their whole path."""

    def whole(value: Any) -> Any:
        return str(_file(value, folder)) if isinstance(value, str) else value

    return {
        key: _train_files(value, folder) if isinstance(value, dict)
        else [whole(item) for item in value] if key in TRAIN_FILE_KEYS and isinstance(value, list)
        else whole(value) if key in TRAIN_FILE_KEYS
        else value
        for key, value in options.items()
    }  # fmt: skip


def _unreadable(path: Path) -> str:
    try:
        if path.is_dir():
            return f"{str(path)!r} is a folder. Give a data file."
        return "" if path.is_file() else f"there is no file {str(path)!r}.{similar(path)}"
    except OSError as error:
        return f"{str(path)!r} cannot be read: {error.strerror}."


def _missing(task: str, key: str, others: Iterable[str]) -> str:
    near = get_close_matches(key, list(others), n=1)
    guess = f" Did you mean it by {near[0]!r}?" if near else ""
    return f"task {task!r} has no {key}.{guess} Needed: {Task.model_fields[key].description}."


def _in_our_words(task: str, key: str, entry: Any, given: dict[str, Any]) -> str:
    if entry["type"] == "missing":
        return _missing(task, key, [other for other in given if other not in TASK_KEYS])
    problem = str(entry["ctx"]["error"]) if entry["type"] == "value_error" else f"is {_shown(given.get(key))}"
    if not key:
        return f"task {task!r} {problem}."
    possible = f"Possible: {Task.model_fields[key].description}."
    return f"{problem} {possible}" if key == "name" else f"task {task!r}: {key} {problem}. {possible}"


def _shown(value: Any) -> str:
    """What was found, short enough for a message."""
    if isinstance(value, (dict, list)) and value:
        return "a mapping" if isinstance(value, dict) else f"a list of {len(value)}"
    text = repr(value)
    return "empty" if value in (None, "", {}, []) else text if len(text) <= 80 else f"{text[:77]}..."
