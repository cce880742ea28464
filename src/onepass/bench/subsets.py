"""Trainings on parts of a suite: how scores change with the number of tasks, and with each task left out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from onepass.analysis.affinity import left_out
from onepass.bench.accuracy import one_recipe
from onepass.bench.runs import Run, read_suite, run_all
from onepass.errors import ConfigError, OnepassError

Part = TypeVar("Part", bound=Hashable)
Scores = dict[str, float]


def task_scaling(
    suite: str,
    methods: Sequence[str],
    counts: Sequence[int],
    *,
    seeds: int = 1,
    overrides: Sequence[str] = (),
    output: Path = Path("runs/scaling.jsonl"),
    jobs: int = 1,
    progress: bool = False,
    limit_s: float | None = None,
) -> dict[str, Any]:
    """CA-MTL's figure 7: the mean score of the suite's first tasks as more tasks are trained with them.

    `first` is the mean of the tasks that are in every training, `all` the mean of all that were trained.
    """
    overrides, methods, counts = one_recipe(suite, overrides), list(dict.fromkeys(methods)), sorted(set(counts))
    tasks = _tasks(suite, methods, overrides)
    if not counts or min(counts) < 1 or max(counts) > len(tasks):
        raise ConfigError(f"counts are {list(counts)}; possible: numbers from 1 to {len(tasks)}, the suite's tasks.")
    common = tasks[: min(counts)]
    runs = {
        (method, count): [Run(suite, method, seed, tuple(overrides), tuple(tasks[:count])) for seed in range(seeds)]
        for method in methods
        for count in counts
    }
    means, done = _means(runs, output, jobs, progress, limit_s)
    rows = [
        {
            "method": method,
            "tasks": count,
            "first": float(np.mean([scores[task] for task in common])),
            "all": float(np.mean(list(scores.values()))),
        }
        for (method, count), scores in means.items()
    ]
    return {"suite": Path(suite).stem, "first_tasks": common, **done, "rows": rows}


def leave_one_out(
    suite: str,
    method: str,
    *,
    seeds: int = 1,
    overrides: Sequence[str] = (),
    output: Path = Path("runs/left-out.jsonl"),
    jobs: int = 1,
    progress: bool = False,
    limit_s: float | None = None,
) -> dict[str, Any]:
    """What each task does to each other: scores of trainings with all tasks, less those without one."""
    tasks = _tasks(suite, [method], overrides)
    if len(tasks) < 2:
        raise ConfigError(f"{suite} has one task; there is nothing to leave out.")
    parts: dict[str, tuple[str, ...]] = {"": ()}
    parts |= {task: tuple(other for other in tasks if other != task) for task in tasks}
    runs = {
        task: [Run(suite, method, seed, tuple(overrides), part) for seed in range(seeds)]
        for task, part in parts.items()
    }
    means, done = _means(runs, output, jobs, progress, limit_s)
    gains = left_out(means[""], {task: means[task] for task in tasks})
    return {"suite": Path(suite).stem, "method": method, **done, "gains": gains}


def _means(
    runs: Mapping[Part, Sequence[Run]], output: Path, jobs: int, progress: bool, limit_s: float | None
) -> tuple[dict[Part, Scores], dict[str, int]]:
    """Each part's scores by task, the mean over the seeds of which all parts are done, and how many are done."""
    by_seed = list(zip(*runs.values(), strict=True))
    wanted = [run for of_a_seed in by_seed for run in of_a_seed]
    scores = {line["key"]: line["tasks"] for line in run_all(wanted, output, jobs, progress, limit_s)}
    done = {"done": len(scores), "planned": len(wanted)}
    whole = [place for place, of_a_seed in enumerate(by_seed) if all(run.key in scores for run in of_a_seed)]
    if not whole:
        raise OnepassError(f"{done['done']} of {done['planned']} runs are done. Run the same command again to go on.")
    found = {part: [scores[own[place].key] for place in whole] for part, own in runs.items()}
    means = {
        part: {name: float(np.mean([seed[name] for seed in seeds])) for name in seeds[0]}
        for part, seeds in found.items()
    }
    return means, {"seeds": len(whole), **done}


def _tasks(suite: str, methods: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """The suite's tasks in order; all faults are raised before anything trains."""
    if not methods:
        raise ConfigError("Give at least one method.")
    files = [read_suite(Run(suite, method, 0, tuple(overrides))) for method in methods]
    return list(files[0].tasks)
