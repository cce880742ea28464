"""The process that changes a model folder while the server serves the old version.

    python -m onepass.server.changer < JOB.json

It writes one JSON object to stdout, {"proof": ..., "warnings": [...]} or {"error": ...}; progress goes to stderr as
tqdm shows it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onepass.atomic import listed_files, read_json, write_json, write_manifest
from onepass.contents import read_config
from onepass.errors import OnepassError
from onepass.server.archive import FILES, SHARED, check_belongs, read_task
from onepass.server.versions import restore


def learn(folder: Path, job: dict[str, Any]) -> str:
    """Train a task on rows; one that is there is trained anew."""
    from onepass.heads import check_kinds
    from onepass.living import add_tasks, update_task
    from onepass.tasks import Task, make_task
    from onepass.training.adding import add_options

    options = add_options(job["options"])
    if (folder / "tasks" / job["name"]).is_dir():
        # What it was validated and tested on may have other columns, and be on another machine.
        rows_only = {"validation": Task.model_fields["validation"].default, "test": None}
        _, proof = update_task(folder, job["name"], {**rows_only, **job["keys"]}, options, rows_stay=False)
    else:
        task = make_task(job["name"], job["keys"], checks=[check_kinds])
        _, proof = add_tasks(folder, [task], options, rows_stay=False)  # they are deleted with the job
    return str(proof)


def install(folder: Path, job: dict[str, Any]) -> str:
    """Take over a task from an unpacked archive; one of its name is replaced."""
    from onepass.living import copy_task

    archived, name = Path(job["archived"]), job["name"]
    check_belongs(archived, folder)
    task, known = read_task(archived, name, read_config(folder))
    there = folder / "tasks" / name / "task.json"
    if there.is_file():
        known["version"] = max(known["version"], int(read_json(there).get("version", 1)) + 1)
    # A model of this one task around it, so that it comes in like any task that is copied between models.
    with tempfile.TemporaryDirectory(dir=archived.parent) as place:
        source = Path(place) / "model"
        (source / "tasks" / name).mkdir(parents=True)
        for file in ("config.json", "encoder.safetensors", *SHARED):
            if file in listed_files(folder):
                (source / file).symlink_to((folder / file).resolve())
        write_json(source / "tasks" / name / "task.json", task.model_dump(mode="json") | known)
        os.link(archived / FILES[1], source / "tasks" / name / FILES[1])
        write_manifest(source)
        return str(copy_task(source, name, folder, replace=True)[1])


def remove(folder: Path, job: dict[str, Any]) -> str:
    from onepass.living import remove_task

    return str(remove_task(folder, job["name"])[1])


def rollback(folder: Path, job: dict[str, Any]) -> str:
    return f"revision {restore(folder, job.get('revision'))} is back"


CHANGES: dict[str, Callable[[Path, dict[str, Any]], str]] = {
    "learn": learn,
    "install": install,
    "remove": remove,
    "rollback": rollback,
}


class Warned(logging.Handler):
    """Keeps what was warned of, for whoever asked for the change."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def main() -> None:
    warned = Warned()
    logging.getLogger("onepass").addHandler(warned)
    job = json.load(sys.stdin)
    result: dict[str, Any]
    try:
        result = {"proof": CHANGES[job["change"]](Path(job["folder"]), job), "warnings": warned.messages}
    except (OnepassError, KeyError, TypeError, ValueError) as error:
        words = str(error) if isinstance(error, OnepassError) else f"{type(error).__name__}: it does not fit."
        rows = job.get("keys", {}).get("train")  # in a folder that nobody knows of
        result = {"error": words.replace(f"{Path(rows).parent}{os.sep}", "") if rows else words}
    except Exception as error:  # noqa: BLE001  told to whoever asked for the change
        result = {"error": f"A fault: {type(error).__name__}.", "fault": "yes"}
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
