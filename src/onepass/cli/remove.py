"""onepass remove: one task less."""

from typing import Annotated

import typer

from onepass.cli.changes import report
from onepass.cli.console import listen
from onepass.cli.options import Folder, Json


def remove(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The task.", metavar="NAME")],
    json: Json = False,
) -> None:
    """Remove a task from a model; the others do not change."""
    from onepass.living import remove_task

    listen(json)
    model, proof = remove_task(folder, name)
    left = "1 task is" if len(model.tasks) == 1 else f"{len(model.tasks)} tasks are"
    report(f"{name}: removed from {folder}, {left} left.", proof, json, removed=name)
