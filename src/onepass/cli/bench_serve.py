"""onepass bench serve: what a server stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.console import listen, say, show, table, write_json
from onepass.cli.options import Json
from onepass.errors import ConfigError, unknown


def serve(
    folder: Annotated[Path, typer.Argument(help="A model folder; a copy of it is served.", metavar="MODEL")],
    only: Annotated[
        str | None, typer.Option(help="Only these checks after the capacity, with commas between them.", metavar="A,B")
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="Minutes of load and hundreds of faults, not seconds.")] = False,
    rounds: Annotated[
        int, typer.Option(help="How often faults and changes are repeated; 0: as the form has it.", min=0)
    ] = 0,
    capacity: Annotated[
        float, typer.Option(help="C as an earlier run found it, for long checks run in pieces; 0: find it.", min=0)
    ] = 0.0,
    threads: Annotated[int, typer.Option(help="Threads of the worker; 0: one for each core.", min=0)] = 0,
    json: Json = False,
) -> None:
    """Find a server's capacity, then overload and break it. Workers are killed, batches poisoned, tasks changed.

    onepass bench serve runs/news
    """
    from onepass.bench.serve import ALONE, Bench
    from onepass.contents import check_folder

    bench = Bench(folder, long=long, threads=threads, rounds=rounds, capacity=capacity)
    names = None if only is None else [name.strip() for name in only.split(",")]
    known = [*bench.checks(), *ALONE]
    if wrong := [name for name in names or [] if name not in known]:
        raise ConfigError(unknown("check", wrong[0], known))
    check_folder(folder)
    listen()
    checks = []
    for check in bench.run(names):
        checks.append(check)
        say(f"{'met   ' if check.met else 'NOT met'} {check.what}: {check.found}")
    if json:
        write_json({"capacity": bench.capacity, "threads": bench.threads, "checks": [c.told() for c in checks]})
        return
    made = table("check", "goal", "met")
    for check in checks:
        for goal, met in check.goals.items():
            made.add_row(check.what, goal, "yes" if met else "no")
    show(made)
