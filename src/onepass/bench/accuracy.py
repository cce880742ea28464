"""Accuracy of methods on a suite, over seeds, against a model per task.

A suite is a task file like any user's, with test files. Every run trains on train, keeps the checkpoint that is best
on validation and is scored once on test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onepass.analysis.spread import ROUNDING
from onepass.bench.runs import Run, read_suite
from onepass.errors import ConfigError, OnepassError, listed, unknown

BOOTSTRAPS = 2000


def summarise(lines: Sequence[dict[str, Any]], baseline: str = "single") -> dict[str, Any]:
    """A row for each method: mean, median and spread over seeds, and the difference to the baseline."""
    if not lines:
        raise OnepassError("No run is done yet. Run the same command again to go on.")
    methods = list(dict.fromkeys(line["method"] for line in lines))
    scores = {method: _scores(lines, method) for method in methods}
    rows = []
    for method in methods:
        rival = _rival(method, methods, baseline)
        means = scores[method].mean(0)  # over seeds, by task
        averages = scores[method].mean(1)  # over tasks, by seed
        row: dict[str, Any] = {
            "method": method,
            "seeds": len(averages),
            "mean": float(averages.mean()),
            "median": float(np.median(averages)),
            "std": float(averages.std(ddof=1)) if len(averages) > 1 else None,
            "tasks": dict(zip(_tasks(lines), means.tolist(), strict=True)),
            "seconds": float(np.mean([line["seconds"] for line in lines if line["method"] == method])),
        }
        if trusted := [line["trust"]["mean"] for line in lines if line["method"] == method and "trust" in line]:
            row["trust"] = trusted  # a seed each
        if rival is not None:
            difference = means - scores[rival].mean(0)
            row["difference"] = float(difference.mean())
            row["at_or_above"] = int((difference >= -ROUNDING).sum())
            if max(scores[method].size, scores[rival].size) > 1:  # a score each says nothing of chance
                row["interval"] = bootstrap(scores[method], scores[rival])
        rows.append(row)
    return {"suite": lines[0]["suite"], "rows": rows}


def _rival(method: str, methods: Sequence[str], baseline: str) -> str | None:
    """The baseline's row with the same value of what is varied; the baseline's other rows have its first one.

    >>> rows = ["readers epochs=1", "readers epochs=2", "single epochs=1", "single epochs=2"]
    >>> [_rival(row, rows, "single") for row in rows]
    ['single epochs=1', 'single epochs=2', None, 'single epochs=1']
    """
    own = [name for name in methods if name.partition(" ")[0] == baseline]
    alike = [name for name in own if name.partition(" ")[2] == method.partition(" ")[2]]
    rival = next(iter(own if method in own else alike or own), None)
    return None if rival == method else rival


def bootstrap(ours: np.ndarray, theirs: np.ndarray) -> list[float]:
    """A 95 % interval of the mean difference of two (seeds, tasks) tables.

    Tasks are drawn for both sides alike, seeds for each side by itself: a seed means nothing in another method.
    """
    rng = np.random.default_rng(0)
    tasks = rng.integers(0, ours.shape[1], (BOOTSTRAPS, 1, ours.shape[1]))
    means = []
    for scores in (ours, theirs):
        seeds = rng.integers(0, len(scores), (BOOTSTRAPS, len(scores), 1))
        means.append(scores[seeds, tasks].mean((1, 2)))
    return [float(value) for value in np.percentile(means[0] - means[1], [2.5, 97.5])]


def _tasks(lines: Sequence[dict[str, Any]]) -> list[str]:
    return list(lines[0]["tasks"])


def _scores(lines: Sequence[dict[str, Any]], method: str) -> np.ndarray:
    """(seeds, tasks)"""
    return np.array([[line["tasks"][task] for task in _tasks(lines)] for line in lines if line["method"] == method])


def one_recipe(suite: str, overrides: Sequence[str]) -> list[str]:
    """The overrides with what would differ between methods settled: no teachers, unless someone asked for some."""
    from onepass.tasks import read_task_file

    given = read_task_file(suite, list(overrides)).train
    return [*overrides] if {"teachers", "distill", "preset"} & given.keys() else [*overrides, "train.teachers=0"]


def plan(
    suite: str,
    methods: Sequence[str],
    seeds: int,
    overrides: Sequence[str],
    without: Sequence[str] = (),
    trust: bool = False,
    vary: Sequence[str] = (),
) -> list[Run]:
    """The runs of a bench; seed by seed, so that a run cut short still compares all methods.

    `vary` are overrides of which each makes a row of its own for every method.
    """
    if not methods or seeds < 1:
        raise ConfigError("Give at least one method and one seed.")
    tasks = _all_but(suite, without) if without else ()
    rows = [
        Run(suite, method, 0, tuple(overrides), tasks, trust, variant)
        for method in dict.fromkeys(methods)
        for variant in dict.fromkeys(vary or ("",))
    ]
    faults: dict[str, None] = {}  # each once, and before anything trains
    for row in rows:
        try:
            read_suite(row)
        except ConfigError as error:
            faults[str(error)] = None
    if faults:
        raise ConfigError(listed(list(faults)))
    return [replace(row, seed=seed) for seed in range(seeds) for row in rows]


def _all_but(suite: str, without: Sequence[str]) -> tuple[str, ...]:
    from onepass.tasks import read_task_file

    tasks = read_task_file(suite).tasks
    if faults := [unknown("task", name, tasks) for name in without if name not in tasks]:
        raise ConfigError(listed(faults))
    if not (kept := tuple(name for name in tasks if name not in without)):
        raise ConfigError(f"All tasks of {suite} are left out. Leave some.")
    return kept
