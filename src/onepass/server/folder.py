"""What the server knows of a model folder without loading it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from onepass.atomic import MANIFEST
from onepass.contents import read_config, read_tasks, task_said
from onepass.errors import FolderError
from onepass.heads import make_kind

READING = ("name", "kind", "text", "label", "options")
"""What has to be known of a task to know how it reads inputs"""


class Unstable(Exception):
    """A folder that was replaced while it was read."""


def revision_of(folder: Path) -> str:
    """The version of a model: a hash of its manifest, which holds the hash of every file."""
    try:
        return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise FolderError(
            f"{folder} is no model folder: {MANIFEST} cannot be read ({error.strerror}). "
            "Train one with: onepass train tasks.yaml -o FOLDER"
        ) from error


def describe(folder: Path) -> dict[str, Any]:
    """A model's tasks, encoder and method, from its JSON files."""
    config = read_config(folder)
    try:
        tasks = read_tasks(folder)
        return {
            "max_length": config["encoder"]["max_length"],
            "encoder": {key: config["encoder"][key] for key in ("source", "sha256")},
            "method": config["method"],
            "tasks": [_task(known) for known in tasks],
            "definitions": [{key: known[key] for key in READING if key in known} for known in tasks],
        }
    except (KeyError, TypeError, ValueError) as error:
        raise FolderError(f"{folder} is no model this version can read: {type(error).__name__} {error}.") from error


def _task(known: dict[str, Any]) -> dict[str, Any]:
    task = task_said(known)
    kind = make_kind(task)
    fitted = known.get("fitted", {}).get("thresholds") or {}
    return {
        "name": known["name"],
        "kind": known["kind"],
        "labels": list(known["labels"]),
        "reads": kind.inputs(task),
        "texts": kind.num_texts(task),
        "scored": bool(known["labels"]) and not kind.ragged,  # each label has a probability in the whole text
        "has_score": "score" in kind.cells(task),
        "windows": kind.windows.most,
        "thresholds": fitted or None,
        "version": known.get("version", 1),
        "metric": known.get("metric"),
        "validation": known.get("scores", {}).get("validation", {}),
        "rows": known.get("rows", {}),
    }
