"""onepass export: the engine of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.console import listen, show, write_json


def export(
    folder: Annotated[Path, typer.Argument(help="A model folder.", metavar="MODEL")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Build the engine of a model: it answers alike, faster and without torch.

    onepass export runs/news
    """
    from onepass.engine.export import export_model

    listen(quiet=json)
    found = export_model(folder)
    if json:
        write_json(found)
        return
    show(
        f"{folder} has an engine for its {found['tasks']} tasks, in {found['precision']}. "
        f"Largest difference from the model in a logit: {found['difference']:.2g}",
        f'Use it: onepass predict {folder} "..."   or   onepass.load("{folder}", engine=True)',
    )
