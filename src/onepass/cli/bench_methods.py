"""onepass bench methods, scaling, affinity, tasks: methods compared on a suite, and tasks with each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onepass.cli.console import listen, percent, progress, show, split_names, table, whole_numbers, write_json
from onepass.cli.options import Jobs, Json, Limit, Output, Overrides, Suite


def methods(
    suite: Suite,
    overrides: Overrides = None,
    methods: Annotated[
        str | None, typer.Option(help="With spaces between them, options after a colon; all methods without it.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each method; 0: cost and time only.", min=0)] = 3,
    jobs: Jobs = 1,
    tokens: Annotated[int, typer.Option(help="Length of the texts whose cost is counted and timed.", min=8)] = 128,
    output: Output = Path("runs/methods.jsonl"),
    limit: Limit = None,
    json: Json = False,
) -> None:
    """Compare methods: accuracy, passes, weights, time per text. They are trained on a suite.

    onepass bench methods --suite suites/nhc8.yaml --jobs 12
    """
    from onepass.bench.methods import compare
    from onepass.methods import METHODS

    listen(quiet=json)
    chosen = split_names(methods) if methods else list(METHODS)
    found = compare(
        suite, chosen, seeds=seeds, overrides=overrides or (), output=output, jobs=jobs, tokens=tokens,
        progress=progress(), limit_s=limit,
    )  # fmt: skip
    if json:
        write_json(found)
        return
    numbers = ("mean", "spread", "across", "to single", "passes", "weights", "a task", "cost", "time")
    made = table("method", *numbers, numbers=numbers)
    for row in found["rows"]:
        made.add_row(
            row["method"], percent(row.get("mean"), 2), percent(row.get("std"), 2),
            percent(row.get("deviation"), 1),
            f"{row['difference']:+.2f}" if "difference" in row else "", f"{row['passes']:g}",
            f"{row['parameters'] / 1e6:.1f}M", f"{row['parameters_per_task']:,}", f"{row['ratio']:.2f}",
            f"{row['time']:.2f}",
        )  # fmt: skip
    show(
        f"{found['suite']}, test, {found['done']} of {found['planned']} runs; cost (multiplications of a text of "
        f"{tokens} tokens, all tasks asked) and time are in plain passes; across: standard deviation across tasks",
        made,
    )


def scaling(
    suite: Suite,
    overrides: Overrides = None,
    methods: Annotated[str, typer.Option(help="With spaces between them.")] = "readers mtdnn camtl",
    counts: Annotated[str, typer.Option(help="Numbers of tasks, with commas between them.")] = "2,4,8",
    seeds: Annotated[int, typer.Option(help="Runs of each.", min=1)] = 1,
    jobs: Jobs = 1,
    output: Output = Path("runs/scaling.jsonl"),
    limit: Limit = None,
    json: Json = False,
) -> None:
    """Score the first tasks as more are trained with them. This is CA-MTL's figure 7."""
    from onepass.bench.subsets import task_scaling

    listen(quiet=json)
    numbers = whole_numbers("counts", counts)
    found = task_scaling(
        suite, split_names(methods), numbers, seeds=seeds, overrides=overrides or (), output=output, jobs=jobs,
        progress=progress(), limit_s=limit,
    )  # fmt: skip
    if json:
        write_json(found)
        return
    first = f"first {len(found['first_tasks'])}"
    made = table("method", "tasks", first, "all", numbers=("tasks", first, "all"))
    for row in found["rows"]:
        made.add_row(row["method"], str(row["tasks"]), percent(row["first"], 2), percent(row["all"], 2))
    show(f"{found['suite']}, test, {_over(found)}", made)


def affinity(
    suite: Suite,
    overrides: Overrides = None,
    method: Annotated[str, typer.Option(help="The method to train.")] = "mtdnn",
    seeds: Annotated[int, typer.Option(help="Runs of each.", min=1)] = 1,
    jobs: Jobs = 1,
    output: Output = Path("runs/left-out.jsonl"),
    limit: Limit = None,
    json: Json = False,
) -> None:
    """What a task does to every other. It trains with all tasks, and without each one."""
    from onepass.bench.subsets import leave_one_out

    listen(quiet=json)
    found = leave_one_out(
        suite, method, seeds=seeds, overrides=overrides or (), output=output, jobs=jobs, progress=progress(),
        limit_s=limit,
    )  # fmt: skip
    if json:
        write_json(found)
        return
    show(
        f"{found['suite']}, {method}, test, {_over(found)}: what a task (row) adds to another's score (column)",
        _matrix(found["gains"]),
    )


def _over(found: dict[str, Any]) -> str:
    return f"mean over {found['seeds']} seeds, {found['done']} of {found['planned']} runs"


def tasks(
    folder: Annotated[str, typer.Argument(help="A trained model.", metavar="FOLDER")],
    singles: Annotated[
        str | None, typer.Option(help="A model of method single: what the other tasks are compared with.")
    ] = None,
    json: Json = False,
) -> None:
    """How the tasks of a trained model stand to each other. CovSim, and what a step on one does to another."""
    from onepass.bench.tasks import relations
    from onepass.model import Model

    listen(quiet=True)
    found = relations(Model.load(folder), None if singles is None else Model.load(singles))
    if json:
        write_json(found)
        return
    show("CovSim of the tasks' inputs to the first layer", _matrix(found["similarity"], "{:.2f}"))
    means = table("task", "mean CovSim", numbers=("mean CovSim",))
    for name, mean in found["mean_similarity"].items():
        means.add_row(name, f"{mean:.3f}")
    show(means)
    if found["affinity"] is not None:
        in_percent = {one: {two: 100 * gain for two, gain in row.items()} for one, row in found["affinity"].items()}
        show(
            "By how many percent a step on a task (row) lowers another's loss (column)", _matrix(in_percent, "{:+.2f}")
        )


def _matrix(values: dict[str, dict[str, float]], form: str = "{:+.2f}") -> Any:
    """A row and a column for each task; blank where there is no value."""
    names = list(values)
    made = table("", *names, numbers=tuple(names))
    for one in names:
        made.add_row(one, *(form.format(values[one][other]) if other in values[one] else "" for other in names))
    return made
