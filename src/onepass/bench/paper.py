"""A table of a paper, repeated on a suite: the paper's figures beside ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onepass.analysis.spread import score_spread
from onepass.bench.accuracy import one_recipe
from onepass.bench.runs import Run, read_suite, run_all
from onepass.bench.table import Figures, Row, Table
from onepass.bench.transfer import TransferRun, new_tasks_of
from onepass.errors import ConfigError


def repeat(
    table: Table,
    suite: str,
    *,
    seeds: int = 3,
    as_published: bool = False,
    overrides: Sequence[str] = (),
    output: Path = Path("runs/papers.jsonl"),
    jobs: int = 1,
    progress: bool = False,
    limit_s: float | None = None,
) -> dict[str, Any]:
    """The table's rows with the paper's figures and ours; `what` a figure is about differs between protocols."""
    if as_published:
        overrides = [*_published_overrides(table), *overrides]
    overrides = one_recipe(suite, overrides)
    runs = {
        (row.name, seed): make_run(table, row, suite, seed, overrides, as_published)
        for seed in range(seeds)
        for row in table.rows
        if row.method is not None
    }
    for run in dict.fromkeys(run for (_, seed), run in runs.items() if seed == 0):
        read_suite(run)  # all faults, before anything trains
    lines = {line["key"]: line for line in run_all(list(dict.fromkeys(runs.values())), output, jobs, progress, limit_s)}
    common = _common_tasks(lines.values()) if table.protocol == "train" else []
    rows = []
    for row in table.rows:
        keys = [runs[row.name, seed].key for seed in range(seeds) if row.method is not None]
        rows.append(_row_beside(table, row, [lines[key] for key in keys if key in lines], common))
    return {
        "title": table.title,
        "paper": table.paper,
        "suite": Path(suite).stem,
        "as_published": as_published,
        "done": sum(run.key in lines for run in runs.values()),
        "planned": len(runs),
        "rows": rows,
    }


def _row_beside(table: Table, row: Row, done: Sequence[Mapping[str, Any]], common: Sequence[str]) -> dict[str, Any]:
    """A row's figures, the paper's beside those of the runs that are done; those of single tasks by themselves."""
    figures = beside(with_means(table, row.paper), [figures_of(table, line, common) for line in done])
    of_tasks = {what for what in figures if is_of_a_task(table, what, [line.get("new", ()) for line in done])}
    return {
        "name": row.name,
        "method": row.method and row.method_text,
        "figures": {what: figure for what, figure in figures.items() if what not in of_tasks},
        "tasks": {what: figure for what, figure in figures.items() if what in of_tasks},
    }


def make_run(
    table: Table, row: Row, suite: str, seed: int, overrides: Sequence[str], as_published: bool = False
) -> Run:
    """The training behind one row of a table, for one seed."""
    own = (*overrides, *(f"train.{key}={json.dumps(value)}" for key, value in row.train.items()))
    tasks = list(read_suite(Run(suite, row.method_text, seed, own)).tasks)
    if table.protocol != "train":
        target = table.published.get("target_train", {}) if as_published else {}
        new = new_tasks_of(tasks, list(table.new))
        return TransferRun(
            suite, row.method_text, seed, own, new=new, protocol=table.protocol,
            order=order_of(table, [name for name in tasks if name not in new], seed),
            ways=tuple(json.dumps(way) for way in row.ways), base=row.base,
            target_train=tuple(f"{key}={json.dumps(value)}" for key, value in target.items()),
        )  # fmt: skip
    if not row.without:
        return Run(suite, row.method_text, seed, own)
    left_out = [name for name in tasks if name in row.without] or tasks[-len(row.without) :]
    kept = tuple(name for name in tasks if name not in left_out)
    if not kept:
        raise ConfigError(f"{suite}: nothing is left without {', '.join(left_out)}. Use a suite with more tasks.")
    return Run(suite, row.method_text, seed, own, kept)


def order_of(table: Table, sources: Sequence[str], seed: int) -> tuple[str, ...]:
    """The paper's order of the sources for a seed, as far as the suite has them; none where it has others.

    >>> table = Table("", "", (), orders=(["mnli", "qqp", "sst2"], ["sst2", "qqp", "mnli"]))
    >>> order_of(table, ["mnli", "sst2"], 1), order_of(table, ["mnli", "cola"], 1)
    (('sst2', 'mnli'), ())
    """
    wanted = table.orders[seed % len(table.orders)] if table.orders else ()
    found = tuple(name for name in wanted if name in sources)
    return found if len(found) == len(sources) else ()


def figures_of(table: Table, line: Mapping[str, Any], common: Sequence[str]) -> Figures:
    """What a run gives for its row: means, groups and spread over tasks, or a score for each way and new task."""
    if table.protocol != "train":
        found: dict[str, list[float]] = {}
        for cell in line["cells"]:
            for what in _about(table, cell, line["new"]):
                found.setdefault(what, []).append(cell["test"])
        return {what: float(np.mean(scores)) for what, scores in found.items()}
    scores = {name: line["tasks"][name] for name in common}
    figures = {"average": float(np.mean(list(scores.values()))), "deviation": score_spread(scores).deviation}
    for name, members in table.groups.items():
        if chosen := [scores[member] for member in members if member in scores]:
            figures[name] = float(np.mean(chosen))
    if "data_used" in line:
        figures["data_used"] = line["data_used"]
    return figures | scores


def beside(paper: Figures, ours: Sequence[Figures]) -> dict[str, dict[str, Any]]:
    """The paper's figure and the mean and spread of ours, for all that either reports."""
    names = list(dict.fromkeys([*paper, *(name for figures in ours for name in figures)]))
    made = {}
    for name in names:
        values = [figures[name] for figures in ours if name in figures]
        made[name] = {
            "paper": paper.get(name),
            "ours": float(np.mean(values)) if values else None,
            "spread": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "seeds": len(values),
        }
    return made


def with_means(table: Table, paper: Figures) -> Figures:
    """The paper's figures, with the means over new tasks that it gives one by one, to set beside those of other suites.

    >>> table = Table("", "", (), protocol="new_task", new=("a", "b"))
    >>> with_means(table, {"a 1%": 80.0, "b 1%": 90.0})
    {'a 1%': 80.0, 'b 1%': 90.0, '1%': 85.0}
    """
    shared: dict[str, list[float]] = {}
    for what, value in paper.items():
        name, _, rest = what.partition(" ")
        if table.protocol == "new_task" and name in table.new:
            shared.setdefault(rest, []).append(value)
    return paper | {rest: float(np.mean(values)) for rest, values in shared.items() if rest not in paper}


def is_of_a_task(table: Table, what: str, new: Sequence[Sequence[str]]) -> bool:
    """Whether a figure is about one task, not about several."""
    if table.protocol == "train":
        return what not in ("average", "deviation", "data_used", *table.groups)
    names = {*table.new, *(name for names in new for name in names)}
    return what.partition(" ")[0] in names


def _about(table: Table, cell: dict[str, Any], new: Sequence[str]) -> Iterator[str]:
    """What a new task's score is reported under: by its share of rows, its start, or the subset of sources."""
    if table.protocol == "new_task":
        name = f"{100 * cell['share']:g}%" + (f" like {cell['like']}" if cell["each"] else "")
    else:
        name = cell["way"]
    yield name
    if len(new) > 1 and cell["task"] in new:
        yield f"{cell['task']} {name}"


def _common_tasks(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """The tasks that every row of the table was trained on, in the suite's order."""
    found = [list(line["tasks"]) for line in lines]
    return [name for name in found[0] if all(name in tasks for tasks in found)] if found else []


def _published_overrides(table: Table) -> list[str]:
    encoder = table.published.get("encoder")
    train = [f"train.{key}={json.dumps(value)}" for key, value in table.published.get("train", {}).items()]
    return [*([f"encoder={encoder}"] if encoder else []), *train]
