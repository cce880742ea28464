"""Trainings on parts of a suite: how scores change with the number of tasks, and with each task left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onepass.analysis.affinity import left_out
from onepass.bench.runs import Run, read_suite, run_all
from onepass.errors import ConfigError


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
) -> dict[str, Any]:
    """CA-MTL's figure 7: the mean score of the suite's first tasks as more tasks are trained with them.

    `first` is the mean of the tasks that are in every training, `all` the mean of all that were trained.
    """
    tasks = _tasks(suite, methods, overrides)
    if not counts or min(counts) < 1 or max(counts) > len(tasks):
        raise ConfigError(f"counts are {list(counts)}; possible: numbers from 1 to {len(tasks)}, the suite's tasks.")
    common = tasks[: min(counts)]
    runs = {
        (method, count, seed): Run(suite, method, seed, tuple(overrides), tuple(tasks[:count]))
        for seed in range(seeds)
        for method in methods
        for count in counts
    }
    lines = {line["key"]: line for line in run_all(list(runs.values()), output, jobs, progress)}
    rows = []
    for method in methods:
        for count in counts:
            found = [lines[runs[method, count, seed].key]["tasks"] for seed in range(seeds)]
            rows.append(
                {
                    "method": method,
                    "tasks": count,
                    "first": float(np.mean([[scores[task] for task in common] for scores in found])),
                    "all": float(np.mean([list(scores.values()) for scores in found])),
                }
            )
    return {"suite": Path(suite).stem, "first_tasks": common, "seeds": seeds, "rows": rows}


def leave_one_out(
    suite: str,
    method: str,
    *,
    seeds: int = 1,
    overrides: Sequence[str] = (),
    output: Path = Path("runs/left-out.jsonl"),
    jobs: int = 1,
    progress: bool = False,
) -> dict[str, Any]:
    """What each task does to each other: scores of trainings with all tasks, less those without one."""
    tasks = _tasks(suite, [method], overrides)
    if len(tasks) < 2:
        raise ConfigError(f"{suite} has one task; there is nothing to leave out.")
    parts: dict[str, tuple[str, ...]] = {"": ()}
    parts |= {task: tuple(other for other in tasks if other != task) for task in tasks}
    runs = {
        (task, seed): Run(suite, method, seed, tuple(overrides), part)
        for seed in range(seeds)
        for task, part in parts.items()
    }
    lines = {line["key"]: line for line in run_all(list(runs.values()), output, jobs, progress)}

    def mean(task: str) -> dict[str, float]:
        found = [lines[runs[task, seed].key]["tasks"] for seed in range(seeds)]
        return {name: float(np.mean([scores[name] for scores in found])) for name in found[0]}

    gains = left_out(mean(""), {task: mean(task) for task in tasks})
    return {"suite": Path(suite).stem, "method": method, "seeds": seeds, "gains": gains}


def _tasks(suite: str, methods: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """The suite's tasks in order; all faults are raised before anything trains."""
    if not methods:
        raise ConfigError("Give at least one method.")
    files = [read_suite(Run(suite, method, 0, tuple(overrides))) for method in methods]
    return list(files[0].tasks)
