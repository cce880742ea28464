"""What a model folder says about itself: its configuration, its files, its tasks. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepass import hub
from onepass.atomic import CARD, MANIFEST, read_json, verify
from onepass.errors import FolderError

if TYPE_CHECKING:
    from onepass.tasks import Task

FORMAT = 1
NEEDED = ("config.json", "tokenizer.json", "encoder.safetensors")
RECORDED = ("rows", "data", "scores", "version", "added", "calibration", "thresholds")
"""The keys of task.json that go into a model's record of a task"""
DERIVED = ("report.html",)
"""What was made from the whole model; it would say something else than the changed model, and has to be made anew.
The engine is not among them: it takes the tasks from their folders."""


def find_folder(source: str | Path) -> Path:
    """The folder of a model that is given by its folder or by a hub name (also "name@revision")."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    name = str(source)
    if folder.exists():
        raise FolderError(f"{name} is a file. A model is a folder, as `onepass train -o` writes it.")
    if isinstance(source, Path) or name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise FolderError(f"There is no model folder {name}. Train one with: onepass train tasks.yaml -o {name}")
    try:
        return hub.fetched(name, unwanted=[CARD])  # people edit it there
    except Exception as error:
        raise FolderError(
            f"There is no model folder {name}, and the Hugging Face hub did not give one: {hub.reason_of(error)}. "
            "Give the folder that onepass train wrote."
        ) from error


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
    from onepass.tasks import Task  # slow to import, and the engine compiles its graph meanwhile

    known = read_json(folder / "task.json")
    if known["name"] != folder.name:
        raise FolderError(f"{folder} holds a task of another name, {known['name']!r}.")
    task = Task(**{key: value for key, value in known.items() if key in Task.model_fields})
    return task, known


def task_order(folder: Path, files: list[str]) -> list[str]:
    """The names of a folder's tasks, in the order in which they are numbered."""
    names = [file.split("/")[1] for file in files if file.startswith("tasks/") and file.endswith("/task.json")]
    return sorted(names, key=lambda name: (read_json(folder / "tasks" / name / "task.json")["order"], name))


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder."""
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
    names = (
        [entry.name for entry in (folder / "tasks").iterdir() if (entry / "task.json").is_file()]
        if (folder / "tasks").is_dir()
        else []
    )
    return sorted((read_json(folder / "tasks" / name / "task.json") for name in names), key=lambda task: task["order"])
