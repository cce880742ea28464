"""onepass bench: the measurements behind every claim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onepass.cli.bench_calibration import calibration, in_words
from onepass.cli.bench_engine import cost, device, startup, throughput
from onepass.cli.bench_methods import affinity, methods, scaling, tasks
from onepass.cli.bench_paper import paper
from onepass.cli.bench_serve import serve
from onepass.cli.bench_transfer import transfer
from onepass.cli.console import listen, percent, progress, show, split_names, table, whole_numbers, write_json
from onepass.cli.guard import guarded
from onepass.cli.options import Jobs, Json, Limit, Output, Overrides, Suite
from onepass.errors import ConfigError

bench = typer.Typer(no_args_is_help=True, help="Measure accuracy and cost. The figures are in benchmarks/RESULTS.md.")


def accuracy(
    suite: Suite,
    overrides: Overrides = None,
    methods: Annotated[
        str, typer.Option(help="With spaces between them; options after a colon: 'readers:depth=1,tokens=1 single'.")
    ] = "readers mtop mtdnn single",
    seeds: Annotated[int, typer.Option(help="Runs of each method.", min=1)] = 3,
    jobs: Jobs = 1,
    without: Annotated[
        str, typer.Option(help="Tasks of the suite to leave out, with spaces between them.", metavar="TASKS")
    ] = "",
    output: Output = Path("runs/accuracy.jsonl"),
    plot: Annotated[Path | None, typer.Option(help="Also draw a plot: .png, .svg or .pdf.", metavar="FILE")] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Also measure calibration and thresholds, as bench calibration does.")
    ] = False,
    vary: Annotated[
        str,
        typer.Option(
            help="Values of which each makes a row: 'train.epochs=4 train.epochs=8'.", metavar="KEY=VALUE ..."
        ),
    ] = "",
    share_teachers: Annotated[
        bool,
        typer.Option(
            "--share-teachers",
            help="Train the teachers once for all seeds and rows, side by side: sooner, but seeds differ less.",
        ),
    ] = False,
    limit: Limit = None,
    json: Json = False,
) -> None:
    """Compare methods over several seeds. They are trained on a suite and scored on its test files.

    onepass bench accuracy --suite suites/nhc8.yaml --methods "readers single" --seeds 3
    """
    from onepass.bench.accuracy import plan, summarise
    from onepass.bench.plot import check_plot, plot_accuracy
    from onepass.bench.runs import run_all
    from onepass.bench.teachers import run_taught

    listen(quiet=json)
    if plot is not None:
        check_plot(plot)
    runs = plan(suite, split_names(methods), seeds, overrides or (), split_names(without), trust, vary.split())
    run = run_taught if share_teachers else run_all
    summary = summarise(run(runs, output, jobs, progress(), limit))
    summary |= {"done": sum(row["seeds"] for row in summary["rows"]), "planned": len(runs)}
    if plot is not None:
        plot_accuracy(summary, plot)
    if json:
        write_json(summary)
        return
    made = table(
        "method", "seeds", "mean", "median", "spread", "to single", "95 %", "tasks at or above", "seconds",
        numbers=("seeds", "mean", "median", "spread"),
    )  # fmt: skip
    for row in summary["rows"]:
        low, high = row.get("interval", (None, None))
        made.add_row(
            row["method"], str(row["seeds"]), *(percent(row[key], 2) for key in ("mean", "median", "std")),
            f"{row['difference']:+.2f}" if "difference" in row else "",
            f"{low:+.2f} to {high:+.2f}" if low is not None else "",
            f"{row['at_or_above']} of {len(row['tasks'])}" if "at_or_above" in row else "", f"{row['seconds']:.0f}",
        )  # fmt: skip
    shared = ", which share their teachers: they differ less than by themselves" if share_teachers else ""
    show(f"{summary['suite']}, test, mean over seeds{shared}", made)
    if summary["done"] < summary["planned"]:
        show(f"{summary['done']} of {summary['planned']} runs are done. The same command goes on.")
    for row in summary["rows"]:
        for mean in row.get("trust", ()):
            show(*(f"{row['method']}: {line}" for line in in_words(mean)))


def training(
    suite: Annotated[
        str | None, typer.Option(help="Also measure the memory of training on this task file.", metavar="TASKS.YAML")
    ] = None,
    overrides: Overrides = None,
    tasks: Annotated[str, typer.Option(help="Numbers of tasks, with commas between them.")] = "8,41",
    method: Annotated[str, typer.Option(help="The method to train; options after a colon.")] = "readers",
    json: Json = False,
) -> None:
    """Time of a training row as the number of tasks grows. Also the memory of a training on the CPU."""
    from onepass.bench.training import cost_per_row, peak_memory

    counts = whole_numbers("tasks", tasks)
    if overrides and suite is None:
        raise ConfigError(f"{overrides[0]!r} changes what a task file says, and there is none. Give --suite FILE.")
    memory = {} if suite is None else {"memory": peak_memory(suite, overrides or ())}
    found: dict[str, Any] = cost_per_row(method, counts) | memory
    if json:
        write_json(found)
        return
    made = table("tasks", "ms a row", "ratio", numbers=("tasks", "ms a row", "ratio"))
    for row in found["rows"]:
        made.add_row(str(row["tasks"]), f"{row['ms_a_row']:.2f}", f"{row['ratio']:.3f}")
    show(made)
    if suite is not None:
        show(f"Peak memory of training on {suite}: {found['memory']['peak_mb']:.0f} MB")


for command in (
    accuracy, methods, paper, scaling, affinity, tasks, transfer, calibration, training, serve,
    cost, throughput, startup, device,
):  # fmt: skip
    bench.command()(guarded(command, "onepass bench"))
