"""Trainings of a bench: processes of their own, several side by side, each of which leaves one JSON line.

A run whose line is there already is not repeated, unless the suite or its data changed since.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from tqdm import tqdm

from onepass.atomic import MANIFEST
from onepass.bench.calibration import trust_of_model
from onepass.bench.fingerprint import suite_fingerprint
from onepass.bench.lines import add_line, begin_lines, read_lines
from onepass.bench.processes import Running, claimed, serve_run, side_by_side
from onepass.errors import ConfigError, OnepassError, first_of, listed, unknown

if TYPE_CHECKING:
    from onepass.model import Model
    from onepass.tasks import TaskFile

CHECKPOINT_EVERY_S = 120.0


@dataclass(frozen=True)
class Run:
    """One training: a suite, a method with its options, a seed."""

    suite: str
    method: str
    """`readers`, or with options `readers:depth=1,tokens=1`"""
    seed: int
    overrides: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """The tasks of the suite to train on; none: all of them"""
    trust: bool = False
    """Whether to measure calibration and thresholds too"""
    variant: str = ""
    """One more override, by which tables tell this run from others of its method"""
    teachers: tuple[str, ...] = ()
    """Folders of models to learn from, which other runs train"""
    stays: bool = False
    """Whether the model stays in the run's folder, for those who learn from it"""
    module: ClassVar[str] = "onepass.bench.runs"
    """What is run as a process for it"""

    @property
    def all_overrides(self) -> list[str]:
        """What makes the suite's task file that of this run"""
        name, _, options = self.method.partition(":")
        chosen = [f"method.{option}" for option in options.split(",") if option]
        taught = learn_from(self.teachers) if self.teachers else []
        return [f"method.name={name}", *chosen, *self.given, *taught, f"train.seed={self.seed}"]

    @property
    def key(self) -> str:
        """What tells it from all other runs in the file of a bench's lines"""
        last = {text.partition("=")[0].strip(): text for text in self.given}  # of an option that is given twice
        parts: list[Any] = [Path(self.suite).stem, self.method, self.seed, sorted(last.values())]
        parts += [sorted(self.tasks)] if self.tasks else []
        parts += ["trust"] if self.trust else []
        parts += ["taught", sorted(Path(folder).name for folder in self.teachers)] if self.teachers else []
        return json.dumps([*parts, *(["stays"] if self.stays else [])])

    @property
    def label(self) -> str:
        """What a table calls all seeds of it."""
        return f"{self.method} {self.variant}".strip()

    @property
    def told(self) -> str:
        """What a message calls it."""
        return f"{self.label}, seed {self.seed}" + (f", tasks {first_of(self.tasks)}" if self.tasks else "")

    @property
    def given(self) -> list[str]:
        """All overrides but those of the method and the seed"""
        return [*self.overrides, *([self.variant] if self.variant else [])]

    @property
    def can_start(self) -> bool:
        """Whether the models are there that it learns from"""
        return all(map(is_whole, self.teachers))


def learn_from(teachers: Sequence[str]) -> list[str]:
    """Overrides that give a training these teachers in place of its own, with the same recipe."""
    from onepass.training.teachers import RECIPE

    recipe = asdict(RECIPE) | {"teachers": list(teachers)}
    own = ["train.teachers=0", "train.task_teachers=0", "train.teacher_encoder=null"]
    return [*own, f"train.distill={json.dumps(recipe)}"]


def is_whole(folder: str | Path) -> bool:
    """Whether a model is there; folders of models appear all at once."""
    return (Path(folder) / MANIFEST).is_file()


def place_of(run: Run, holds: str, output: Path) -> Path:
    """The folder of a run's checkpoints and model, beside the lines."""
    name = hashlib.sha256(f"{run.key}{holds}".encode()).hexdigest()[:16]
    return output.parent / f".{output.stem}" / name


def holds_of(runs: Iterable[Run]) -> dict[Run, str]:
    """The fingerprint of what each run is trained on."""
    found = cache(suite_fingerprint)  # once for all seeds
    return {run: found(run.suite, tuple(run.given)) for run in runs}


def read_suite(run: Run) -> TaskFile:
    """The run's task file, with its method, options and tasks."""
    from onepass.tasks import read_task_file
    from onepass.training import CHECKS

    file = read_task_file(run.suite, run.all_overrides, checks=CHECKS, require=("train", "test"))
    if faults := [unknown("task", name, file.tasks) for name in run.tasks if name not in file.tasks]:
        raise ConfigError(f"{run.suite}: {listed(faults)}")
    kept = run.tasks or tuple(file.tasks)
    return file.model_copy(update={"tasks": {name: task for name, task in file.tasks.items() if name in kept}})


def run_once(run: Run, folder: Path | None = None) -> dict[str, Any]:
    """Train and test; the line that is kept of it. A run that was killed goes on from what it left in the folder."""
    from onepass.training import evaluate

    file = read_suite(run)
    model = trained(file, folder)
    validation = [record["scores"]["validation"]["score"] for record in model.records if "scores" in record]
    result = evaluate(model.to("cuda" if _has_gpu() else "cpu"), file)
    line = {
        "key": run.key,
        "suite": Path(run.suite).stem,
        "method": run.method,
        "seed": run.seed,
        "overrides": run.given,
        "teachers": len(run.teachers),
        "chosen": list(run.tasks),
        "average": result["average"],
        "tasks": {name: scores["score"] for name, scores in result["tasks"].items()},
        "validation": float(np.mean(validation)) if validation else None,
        "seconds": model.training_record["seconds"],
        "data_used": 100 * model.training_record["rows_used"]["share"],
    }
    return line | {"trust": trust_of_model(model, file)} if run.trust else line


def trained(file: TaskFile, folder: Path | None) -> Model:
    """The model of a task file; a training that was killed goes on, and one that was over is not repeated."""
    from onepass.model import Model
    from onepass.training import train
    from onepass.training.run import left_beside

    if folder is None:
        return train(file, progress=False)
    if is_whole(folder):
        for left in left_beside(folder):  # killed when it was over, but had not cleaned up
            shutil.rmtree(left, ignore_errors=True)
        return Model.load(folder)
    file.train.setdefault("checkpoint_every_s", CHECKPOINT_EVERY_S)
    return train(file, folder, overwrite=True, resume=True, progress=False)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def run_all(
    runs: Sequence[Run], output: Path, jobs: int = 1, progress: bool = True, limit_s: float | None = None
) -> list[dict[str, Any]]:
    """All runs, `jobs` at a time; returns their lines, old and new, in the order of the runs.

    A run that learns from others waits for them, and one that another bench with this output is at for its line. One
    that fails does not stop the others; it is raised when they are done. After `limit_s` seconds the runs under way are
    stopped, to go on with the next call, and the lines that there are returned.
    """
    begin_lines(output)
    runs = list(dict.fromkeys(runs))
    holds = holds_of(runs)
    wanted = {run.key: (None, holds[run]) for run in runs}  # None: lines that were written before it was kept
    places = {run: place_of(run, holds[run], output) for run in runs}
    done: dict[str, dict[str, Any]] = {}

    def left_of(some: Sequence[Run], tell: bool = False) -> list[Run]:
        lines = read_lines(output, tell)
        done.update((one["key"], one) for one in lines if one.get("holds") in wanted.get(one["key"], ()))
        return [run for run in some if not (is_whole(places[run]) if run.stays else run.key in done)]

    def start(run: Run) -> Running | None:
        claim = claimed(places[run])
        if left_of([run]):
            return Running(run, holds[run], places[run], claim)
        claim.close()  # another bench did it meanwhile
        bar.update()
        return None

    left = left_of(runs, tell=True)
    failures: list[str] = []
    over = side_by_side(left, start, jobs, limit_s)
    with closing(over), tqdm(total=len(runs), initial=len(runs) - len(left), unit="run", disable=not progress) as bar:
        for entry in over:
            with entry.claim:
                try:
                    done[entry.run.key] = line = entry.line()
                except OnepassError as error:
                    failures.append(str(error))
                    continue
                add_line(output, line)
            bar.set_postfix_str(f"{entry.run.label} seed {line['seed']}: {line['average']:.2f}")
            bar.update()
    if failures:
        kept = sum(run.key in done for run in runs)
        raise OnepassError(
            f"{listed(failures)}\n{kept} of {len(runs)} runs are done and kept. The same command tries the others "
            "again; without what failed, it shows those that are done."
        )
    return [done[run.key] | {"method": run.label} for run in runs if run.key in done]


if __name__ == "__main__":
    serve_run(Run, run_once)
