"""onepass remove: one task less."""

from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.changes import report
from onepass.cli.console import listen


def remove(
    folder: Annotated[Path, typer.Argument(help="A model folder.", metavar="MODEL")],
    name: Annotated[str, typer.Argument(help="The task.", metavar="NAME")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Remove a task from a model; the others do not change."""
    from onepass.living import remove_task

    listen(json)
    model, proof = remove_task(folder, name)
    left = "1 task is" if len(model.tasks) == 1 else f"{len(model.tasks)} tasks are"
    report(f"{name}: removed from {folder}, {left} left.", proof, json, removed=name)
