"""onepass copy: a task from one model into another with the same encoder."""

from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.changes import report
from onepass.cli.console import listen
from onepass.cli.options import Json


def copy(
    source: Annotated[Path, typer.Argument(help="The model folder to copy from.", metavar="SOURCE")],
    name: Annotated[str, typer.Argument(help="The task.", metavar="NAME")],
    target: Annotated[Path, typer.Argument(help="The model folder to copy into.", metavar="TARGET")],
    new: Annotated[str | None, typer.Option("--as", help="Its name there.", metavar="NEW")] = None,
    json: Json = False,
) -> None:
    """Copy a task into another model. Both need the same encoder and method; the other tasks do not change."""
    from onepass.living import copy_task

    listen(json)
    _, proof = copy_task(source, name, target, new)
    report(f"{new or name}: copied to {target}.", proof, json, copied=name, to=new or name)
