"""What the server knows of a model folder without loading it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from onepass.atomic import MANIFEST, read_json
from onepass.errors import FolderError, OnepassError
from onepass.heads import make_kind
from onepass.tasks import Task


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
    config = read_json(folder / "config.json")
    try:
        found = [read_json(path) for path in sorted((folder / "tasks").glob("*/task.json"))]
        return {
            "max_length": config["encoder"]["max_length"],
            "encoder": {key: config["encoder"][key] for key in ("source", "sha256")},
            "method": config["method"],
            "tasks": [_task(known) for known in sorted(found, key=lambda known: (known["order"], known["name"]))],
        }
    except (KeyError, TypeError, ValueError) as error:
        raise FolderError(f"{folder} is no model this version can read: {type(error).__name__} {error}.") from error


def _task(known: dict[str, Any]) -> dict[str, Any]:
    task = Task(**{key: value for key, value in known.items() if key in Task.model_fields})
    thresholds = None
    try:
        if of_labels := getattr(make_kind(task), "thresholds", None):
            thresholds = dict(zip(task.labels, map(float, of_labels(task)), strict=True))
    except OnepassError:
        pass  # a kind of a newer version: loading the model will say so
    return {
        "name": task.name,
        "kind": task.kind,
        "labels": list(task.labels),
        "text": list(task.text),
        "thresholds": thresholds,
        "version": known.get("version", 1),
        "metric": task.metric,
        "validation": known.get("scores", {}).get("validation", {}),
        "rows": known.get("rows", {}),
    }
