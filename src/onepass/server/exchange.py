"""A task put into a model's folder, or taken out, by the worker that serves the new version next.

Whoever holds an engine needs no torch for it: a task is its files. The new folder is completed beside the old one, and
the two change places only after the engine has answered from it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onepass.atomic import CARD, Edit, edit_folder, read_json, write_json
from onepass.card import card
from onepass.contents import DERIVED, read_config, task_of, task_order
from onepass.engine.weights import Weights, read_weights
from onepass.errors import ConfigError, FolderError, OnepassError, unknown
from onepass.heads import make_kind
from onepass.inquiry import Pieces
from onepass.server.archive import FILES, check_belongs, no_task, read_task
from onepass.tasks import Task

if TYPE_CHECKING:
    from onepass.engine.engine import Engine

CHANGES = ("install", "remove")
TEXT = "late goal decides the cup, and the council votes on 3 new roads for schools: why not 4? " * 4
PROBES = [TEXT[n : 2 * n] for n in (6, 13, 22, 35, 52, 74, 105, 170)]
TOGETHER = 2  # of them in a pass: requests wait for it


class Elsewhere(OnepassError):
    """What only torch can say whether it fits."""


@contextmanager
def exchanged(folder: Path, job: dict[str, Any]) -> Iterator[tuple[Path, int]]:
    """The new folder, and how many files are as they were; if the block ends well it takes the place of the old one."""
    name = str(job["name"])
    with edit_folder(folder) as edit:
        names = task_order(edit.folder, list(edit.before))
        edit.drop(*DERIVED, f"tasks/{name}/")
        if job["change"] == "install":
            _install(edit, name, names, Path(job["archived"]))
        else:
            _check_removable(name, names)
        _describe(edit, [other for other in names if other != name])
        edit.complete()
        changed = (CARD, *DERIVED, f"tasks/{name}/")
        stay = {file: sha for file, sha in edit.before.items() if not file.startswith(changed)}
        if moved := [file for file, sha in stay.items() if (edit.after or {}).get(file) != sha]:
            raise FolderError(f"{', '.join(moved)} would have changed. Nothing was changed.")
        yield edit.draft, len(stay)


Answers = dict[str, list[np.ndarray]]
"""By task, its logits for each of PROBES"""


def probed(engine: Engine, pause: float = 0.0) -> Answers:
    """What an engine's tasks say to a few texts, short and long; with pauses of so many times a pass."""
    pieces = [Pieces(one.ids, one.types) for one in engine.tokenizer.encode([(text,) for text in PROBES])]
    answers: Answers = {task.name: [] for task in engine.tasks}
    for first in range(0, len(pieces), TOGETHER):
        start = time.perf_counter()
        found = engine.logits_of(pieces[first : first + TOGETHER], range(len(engine.tasks)))
        for own, logits in zip(answers.values(), found, strict=True):
            own.extend(map(np.array, logits))
        time.sleep(pause * (time.perf_counter() - start))
    return answers


def largest_change(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> float:
    """How far the logits of a task are apart at most."""
    largest = 0.0
    for old, new in zip(before, after, strict=True):
        if old.shape != new.shape:
            return float("inf")
        largest = float(np.maximum(largest, np.abs(old - new).max(initial=0)))  # keeps a NaN
    return largest


def _install(edit: Edit, name: str, names: Sequence[str], archived: Path) -> None:
    check_belongs(archived, edit.folder)
    task, record = read_task(archived, name, read_config(edit.folder))
    try:
        weights = read_weights(archived / FILES[1])
        _check_alike(task, weights, [edit.folder / "tasks" / other for other in names])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise no_task(error) from error
    if name in names:
        there = read_json(edit.folder / "tasks" / name / "task.json")
        order, record["version"] = there["order"], max(record["version"], int(there.get("version", 1)) + 1)
    else:
        order = 1 + max(read_json(edit.folder / "tasks" / other / "task.json")["order"] for other in names)
    place = edit.draft / "tasks" / name
    place.mkdir(parents=True)
    (place / FILES[1]).write_bytes((archived / FILES[1]).read_bytes())
    facts = {"order": order, "version": 1, "parameters": sum(array.size for array in weights.values())}
    write_json(place / "task.json", task.model_dump(mode="json") | facts | record)


def _check_removable(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ConfigError(unknown("task", name, names))
    if len(names) == 1:
        raise ConfigError(f"{name!r} is the model's last task, and a model needs one. Delete the whole folder instead.")


def _check_alike(task: Task, weights: Weights, others: Sequence[Path]) -> None:
    """Raise unless there is a task of the same kind whose weights have the same names and, but for labels, shapes."""
    outputs = make_kind(task).outputs(task)
    for folder in others:
        if task_of(folder)[0].kind != task.kind:
            continue
        known = {name: array.shape for name, array in read_weights(folder / FILES[1]).items()}
        head = {name: (outputs, *shape[1:]) for name, shape in known.items() if name.startswith("head.")}
        if {name: array.shape for name, array in weights.items()} == known | head:
            return
    raise Elsewhere("No task of the model is of this form.")


def _describe(edit: Edit, stay: Sequence[str]) -> None:
    """Say anew what tasks there are: those that stay, and what was written."""
    folders = [edit.folder / "tasks" / name for name in stay]
    folders += (edit.draft / "tasks").iterdir() if (edit.draft / "tasks").is_dir() else []
    found = sorted((task_of(folder) for folder in folders), key=lambda one: (one[1]["order"], one[0].name))
    text = card([task for task, _ in found], [known for _, known in found], read_config(edit.folder))
    (edit.draft / CARD).write_text(text, encoding="utf-8")
