"""What a model folder says about itself: its configuration, its files, its tasks. No torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onepass import hub
from onepass.atomic import CARD, MANIFEST, listed_files, read_json, verify
from onepass.errors import FolderError

if TYPE_CHECKING:
    from onepass.tasks import Task

Read = TypeVar("Read")
FORMAT = 1
READS = 5
"""Times that a folder is read in which somebody changes tasks at every reading"""
NEEDED = ("config.json", "tokenizer.json", "encoder.safetensors")
RECORDED = ("rows", "data", "scores", "version", "added", "calibration", "thresholds", "trained_as")
"""The keys of task.json that go into a model's record of a task. `trained_as`: what the training of the whole model
called it, if not by its name; null for a task that comes from another model"""
DERIVED = ("report.html",)
"""What was made from the whole model; it would say something else than the changed model, and has to be made anew.
The engine is not among them: it takes the tasks from their folders."""


def find_folder(source: str | Path) -> Path:
    """The folder of a model that is given by its folder or by a hub name (also "name@revision")."""
    name = str(source)
    try:
        folder = Path(source).expanduser()
        if folder.is_dir():
            return folder
        if folder.exists():
            raise FolderError(_is_a_file(name))
    except (OSError, RuntimeError) as error:  # there is no such user, or a name is too long
        raise FolderError(f"There can be no model folder {name!r:.80}: {error!s:.200}.") from None
    if isinstance(source, Path) or name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise FolderError(_is_missing(name))
    try:
        return hub.fetched(name, unwanted=[CARD])  # people edit it there
    except Exception as error:
        raise FolderError(
            f"There is no model folder {name}, and the Hugging Face hub did not give one: {hub.reason_of(error)}. "
            "Give the folder that onepass train wrote."
        ) from error


def _is_a_file(name: str | Path) -> str:
    return f"{name} is a file. A model is a folder, as `onepass train -o` writes it."


def _is_missing(name: str | Path) -> str:
    return f"There is no model folder {name}. Train one with: onepass train tasks.yaml -o {name}"


def check_folder(folder: Path) -> None:
    """Refuse a model folder that is a file, or is not there."""
    if folder.is_file():
        raise FolderError(_is_a_file(folder))
    if not folder.is_dir():
        raise FolderError(_is_missing(folder))


def manifest_of(folder: Path) -> bytes | None:
    """What tells one version of a folder from another; None while there is none."""
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError:
        return None


def read_whole(folder: Path, read: Callable[[], Read]) -> Read:
    """What `read` reads of a model folder, all of it of one version.

    Who changes a task puts a whole new folder in the place of the old one. If that happens meanwhile, what was read is
    of both, or its files do not agree; then it is read anew.
    """
    for left in reversed(range(READS)):
        before = manifest_of(folder)
        try:
            found = read()
        except (FolderError, OSError):
            if not left or manifest_of(folder) == before:
                raise
        else:
            if manifest_of(folder) == before:
                return found
    raise FolderError(f"{folder} was changed whenever it was read. Try again when nobody changes it.")


def model_files(folder: Path) -> list[str]:
    """The files of a model folder, checked against its manifest; those that are loaded must be among them."""
    if not (folder / MANIFEST).is_file():
        read_config(folder)  # says so if this is no model folder at all
    files = list(verify(folder))
    tasks = {file.rpartition("/")[0] for file in files if file.startswith("tasks/")}
    needed = [*NEEDED, *(f"{task}/{name}" for task in sorted(tasks) for name in ("task.json", "weights.safetensors"))]
    if missing := [name for name in needed if name not in files]:
        raise FolderError(f"{folder} is damaged: its manifest does not list {', '.join(missing)}.")
    return files


def task_of(folder: Path) -> tuple[Task, dict[str, Any]]:
    """The task of a task folder, and all that its task.json says."""
    known = read_json(folder / "task.json")
    if known["name"] != folder.name:
        raise FolderError(f"{folder} holds a task of another name, {known['name']!r}.")
    return task_said(known), known


def task_said(known: Mapping[str, Any]) -> Task:
    """The task that a task.json describes, which holds more than that."""
    from onepass.tasks import Task  # slow to import, and the engine compiles its graph meanwhile

    return Task(**{key: value for key, value in known.items() if key in Task.model_fields})


def task_names(files: Iterable[str]) -> list[str]:
    """The names of the tasks among the files of a model folder."""
    return [file.split("/")[1] for file in files if file.startswith("tasks/") and file.endswith("/task.json")]


def task_order(folder: Path, files: list[str]) -> list[str]:
    """The names of a folder's tasks, in the order in which they are numbered."""
    return sorted(task_names(files), key=lambda name: (read_json(folder / "tasks" / name / "task.json")["order"], name))


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder."""
    check_folder(folder)
    if not (folder / "config.json").is_file():
        raise FolderError(
            f"{folder} is no model folder: it has no config.json. Train one with: onepass train tasks.yaml -o {folder}"
        )
    config = read_json(folder / "config.json")
    if not isinstance(config, dict) or not isinstance(config.get("format"), int):
        raise FolderError(f"{folder / 'config.json'} does not name a format: this is no onepass model.")
    if config["format"] > FORMAT:
        raise FolderError(
            f"{folder} was written by format {config['format']}; this version reads up to {FORMAT}. "
            "Upgrade with: pip install -U onepass"
        )
    return config


def read_tasks(folder: Path) -> list[dict[str, Any]]:
    """The task.json of every task, in order, without loading weights."""
    read_config(folder)  # says so if this is no model folder
    tasks = [read_json(folder / "tasks" / name / "task.json") for name in task_names(listed_files(folder))]
    return sorted(tasks, key=lambda task: task["order"])


def decides(known: Mapping[str, Any]) -> str:
    """A digest of what a task.json says that makes answers of a task's logits: its temperatures and thresholds, too."""
    said = [known.get(key) for key in ("kind", "labels", "options", "fitted")]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def unjudged(folder: Path, gate: Mapping[str, Any]) -> list[str]:
    """The tasks that the gate of an engine in 8 bits has not judged as they are now."""
    passed = {(verdict["weights"], verdict.get("decides")) for verdict in gate["tasks"].values()}
    now = listed_files(folder)
    names = task_names(now)
    known = {name: decides(read_json(folder / "tasks" / name / "task.json")) for name in names}
    return [name for name in names if (now.get(f"tasks/{name}/weights.safetensors"), known[name]) not in passed]
