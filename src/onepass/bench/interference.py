"""What tasks do to each other in one model: each alone, all together, and all but each, with advice.

    gain    together - alone: what a task has from the others; below 0 it suffers from them
    burden  the others without it - the others with it, on average: above 0 the others suffer from it

For N tasks that are 2 N + 1 trainings a seed. They are runs like those of `bench accuracy`: several side by side, and
one that is done is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onepass.bench.runs import Run, read_suite, run_all
from onepass.errors import ConfigError, OnepassError

Scores = Mapping[str, float]
ADVICE = {
    "keep": "keep it with the others",
    "isolate": "give it a model of its own",
    "drop": "take it out: it suffers from the others, and they from it",
}


def plan_transfer(suite: str, method: str, seeds: int, overrides: Sequence[str] = ()) -> list[Run]:
    """All runs, seed by seed: together first, then alone and left out."""
    names = list(read_suite(Run(suite, method, 0, tuple(overrides))).tasks)
    if len(names) < 2:
        raise ConfigError(f"{suite} has one task. What tasks do to each other needs two.")
    groups = [tuple(names), *((name,) for name in names)]
    if len(names) > 2:  # of two tasks, one left out is the other alone
        groups += [tuple(other for other in names if other != name) for name in names]
    return [Run(suite, method, seed, tuple(overrides), group) for seed in range(seeds) for group in groups]


def find_transfer(
    suite: str,
    method: str = "readers",
    *,
    seeds: int = 1,
    overrides: Sequence[str] = (),
    output: Path,
    jobs: int = 1,
    margin: float = 0.5,
    progress: bool = True,
    limit_s: float | None = None,
) -> dict[str, Any]:
    """Train what is not done yet, and say what follows for each task; `margin` points are taken for chance."""
    runs = plan_transfer(suite, method, seeds, overrides)
    lines = run_all(runs, output, jobs, progress, limit_s)
    by_seed: dict[int, dict[tuple[str, ...], Scores]] = {}
    for line in lines:
        by_seed.setdefault(line["seed"], {})[tuple(sorted(line["chosen"]))] = line["tasks"]
    groups = {tuple(sorted(run.tasks)) for run in runs}
    # A seed of which a part is done would be in some means and not in those that they are compared with.
    whole = [found for found in by_seed.values() if found.keys() == groups]
    if not whole:
        raise OnepassError(f"{len(lines)} of {len(runs)} runs are done. Run the same command again to go on.")
    means = {group: _mean([found[group] for found in whole]) for group in groups}
    return {
        "suite": Path(suite).stem,
        "method": method,
        "seeds": len(whole),
        "done": len(lines),
        "planned": len(runs),
        "margin": margin,
        "rows": judge(means, margin),
    }


def judge(means: Mapping[tuple[str, ...], Scores], margin: float) -> list[dict[str, Any]]:
    """A row for each task, from the scores that each sorted group of tasks reached together."""
    everyone = max(means, key=len)
    together, rows = means[everyone], []
    for name in everyone:
        others = tuple(other for other in everyone if other != name)
        left_out = means[others]
        differences = {other: left_out[other] - together[other] for other in others}
        gain, burden = together[name] - means[(name,)][name], float(np.mean(list(differences.values())))
        suffers, costs = gain < -margin, burden > margin
        advice = "drop" if suffers and costs else "isolate" if suffers or costs else "keep"
        rows.append(
            {
                "task": name,
                "alone": means[(name,)][name],
                "together": together[name],
                "gain": gain,
                "burden": burden,
                "most_burdened": max(differences, key=lambda other: differences[other]),
                "advice": advice,
                "why": ADVICE[advice],
            }
        )
    return rows


def _mean(scores: Sequence[Scores]) -> dict[str, float]:
    return {name: float(np.mean([seed[name] for seed in scores])) for name in scores[0]}
