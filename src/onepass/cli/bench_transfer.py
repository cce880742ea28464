"""onepass bench transfer: what tasks do to each other in one model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.console import listen, percent, progress, show, table, write_json
from onepass.cli.options import Jobs, Json, Limit, Output, Overrides, Suite


def transfer(
    suite: Suite,
    overrides: Overrides = None,
    method: Annotated[str, typer.Option(help="The method to train; options after a colon.")] = "readers",
    seeds: Annotated[int, typer.Option(help="Runs of each.", min=1)] = 1,
    margin: Annotated[float, typer.Option(help="Points that are taken for chance.", min=0.0)] = 0.5,
    jobs: Jobs = 1,
    output: Output = Path("runs/transfer.jsonl"),
    limit: Limit = None,
    json: Json = False,
) -> None:
    """Advise which tasks to keep, isolate or drop. Each is trained alone, all together, and all but each.

    onepass bench transfer --suite suites/nhc8.yaml --jobs 12
    """
    from onepass.bench.interference import find_transfer

    listen(quiet=json)
    found = find_transfer(
        suite, method, seeds=seeds, overrides=overrides or (), output=output, jobs=jobs, margin=margin,
        progress=progress(), limit_s=limit,
    )  # fmt: skip
    if json:
        write_json(found)
        return
    made = table(
        "task", "alone", "together", "gain", "burden", "advice", numbers=("alone", "together", "gain", "burden")
    )
    for row in found["rows"]:
        made.add_row(
            row["task"], percent(row["alone"], 2), percent(row["together"], 2), f"{row['gain']:+.2f}",
            f"{row['burden']:+.2f}", f"{row['advice']}: {row['why']}",
        )  # fmt: skip
    show(
        f"{found['suite']}, {method}, test, {found['seeds']} seeds, {found['done']} of {found['planned']} runs; gain: "
        "together - alone; burden: what the others have more without it",
        made,
    )
