"""Teachers that the runs of a bench share: each is trained once, side by side with the others.

A training with teachers of its own trains them one after the other, and another seed trains others. Here all seeds of
a row, and all rows whose teachers are trained alike, learn from the same ones, those of seed 0. The seeds of a row then
differ less than they would by themselves.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepass.bench.processes import cache_beside
from onepass.bench.runs import Run, holds_of, place_of, read_suite, run_all

if TYPE_CHECKING:
    from onepass.tasks import TaskFile

PART = 10  # models per task that one process trains


def run_taught(
    runs: Sequence[Run], output: Path, jobs: int = 1, progress: bool = True, limit_s: float | None = None
) -> list[dict[str, Any]]:
    """As `run_all`, with shared teachers, which stay until the last run has learned from them."""
    found = {run: teachers_of(replace(run, seed=0)) for run in runs}
    holds = holds_of(one for teachers in found.values() for one in teachers)
    places = {one: place_of(one, holds[one], output) for teachers in found.values() for one in teachers}
    taught = [replace(run, teachers=tuple(str(places[one]) for one in teachers)) for run, teachers in found.items()]
    lines = run_all(taught, output, limit_s=0, progress=False)  # those of earlier calls
    if len(lines) < len(taught):
        done = {line["key"] for line in lines}
        wanted = {folder for run in taught if run.key not in done for folder in run.teachers}
        teachers = [one for one, place in places.items() if str(place) in wanted]
        keys = {run.key for run in taught}
        made = run_all([*teachers, *taught], output, jobs, progress, limit_s)
        lines = [line for line in made if line["key"] in keys]
    if len(lines) == len(taught):
        for place in places.values():
            shutil.rmtree(place, ignore_errors=True)
            shutil.rmtree(cache_beside(place), ignore_errors=True)
    return lines


def teachers_of(run: Run) -> tuple[Run, ...]:
    """The runs that train what a run would train for itself before it begins; models per task in several parts."""
    from onepass.methods import METHODS
    from onepass.training.device import device_of
    from onepass.training.options import train_options
    from onepass.training.teachers import teacher_files, teachers_wanted, with_learners

    file = read_suite(run)
    options = with_learners(train_options(file.train), file.tasks.values())
    count = teachers_wanted(options, METHODS[file.method.name].teachers, len(file.tasks), device_of(options))
    together, alone = teacher_files(file, options, count)
    names = tuple(alone[0].tasks) if alone else ()  # those that learn from teachers
    parts = -(-len(names) // PART)
    return (
        *(_run_of(run, teacher, run.tasks) for teacher in together),
        *(_run_of(run, teacher, names[part::parts]) for teacher in alone for part in range(parts)),
    )


def _run_of(run: Run, file: TaskFile, tasks: tuple[str, ...]) -> Run:
    """A run that trains a task file made from that of another run, whatever the suite says of method and training."""
    others = [text for text in run.given if text.partition("=")[0].partition(".")[0].strip() == "tasks"]
    others += [f"tasks.{name}.group=null" for name in tasks or file.tasks if file.tasks[name].group is None]
    method = {"name": file.method.name, **file.method.options}
    train = {key: value for key, value in file.train.items() if key != "seed"}
    replaced = {"encoder": file.encoder, "method": method, "train": train}
    overrides = (f"{key}={json.dumps(value, sort_keys=True)}" for key, value in replaced.items())
    return Run(run.suite, file.method.name, file.train["seed"], (*others, *overrides), tasks, stays=True)
