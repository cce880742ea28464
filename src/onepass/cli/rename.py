"""onepass rename: another name for a task."""

from typing import Annotated

import typer

from onepass.cli.changes import report
from onepass.cli.console import listen
from onepass.cli.options import Folder, Json


def rename(
    folder: Folder,
    old: Annotated[str, typer.Argument(help="The task.", metavar="OLD")],
    new: Annotated[str, typer.Argument(help="Its new name.", metavar="NEW")],
    json: Json = False,
) -> None:
    """Give a task of a model another name; nothing else changes."""
    from onepass.living import rename_task

    listen(json)
    _, proof = rename_task(folder, old, new)
    report(f"{old} is now {new}.", proof, json, renamed=old, to=new)
