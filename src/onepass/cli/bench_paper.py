"""onepass bench paper: a table of a paper repeated, with the paper's own figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.console import listen, percent, progress, show, table, write_json
from onepass.cli.options import Jobs, Json, Limit, Output, Overrides

Suite = Annotated[str, typer.Option(help="A task file with test files.", metavar="TASKS.YAML", envvar="ONEPASS_SUITE")]

OTHER_FIGURES = ("deviation", "data_used")  # shown without --all where a paper has them too


def paper(
    config: Annotated[str, typer.Argument(help="A table of configs/papers.", metavar="TABLE.YAML")],
    suite: Suite,
    overrides: Overrides = None,
    seeds: Annotated[int, typer.Option(help="Runs of each row.", min=1)] = 3,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="With the paper's encoder and recipe, for its own benchmark.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Show every task's figures too.")] = False,
    jobs: Jobs = 1,
    output: Output = Path("runs/papers.jsonl"),
    limit: Limit = None,
    json: Json = False,
) -> None:
    """Repeat a table of a paper on a suite.

    onepass bench paper configs/papers/mtop-table3.yaml --suite suites/nhc8.yaml --jobs 12
    """
    from onepass.bench.paper import repeat
    from onepass.bench.table import read_table

    listen(quiet=json)
    read = read_table(config)
    found = repeat(
        read, suite, seeds=seeds, as_published=as_published, overrides=overrides or (), output=output, jobs=jobs,
        progress=progress(), limit_s=limit,
    )  # fmt: skip
    if json:
        write_json(found)
        return
    numbers = ("paper", "to first", "ours", "spread", "to first ")
    made = table("row", "figure", *numbers, numbers=numbers)
    reported = {what for row in read.rows for what in row.paper}
    first: dict[tuple[str, str], float] = {}
    for row in found["rows"]:
        for what, figure in {**row["figures"], **(row["tasks"] if every else {})}.items():
            if not every and what in OTHER_FIGURES and what not in reported:
                continue
            cells = [row["name"], what]
            for side in ("paper", "ours"):
                value = figure[side]
                if value is not None:
                    first.setdefault((what, side), value)
                cells.append(percent(value, 2))
                if side == "ours":
                    cells.append(percent(figure["spread"], 2))
                cells.append("" if value is None else f"{value - first[what, side]:+.2f}")
            made.add_row(*cells)
    recipe = "the paper's recipe" if as_published else "our recipe"
    show(
        f"{found['title']} ({found['paper']}) on {found['suite']}, {recipe}, "
        f"{found['done']} of {found['planned']} runs",
        made,
    )
    if read.note:
        show(read.note)
