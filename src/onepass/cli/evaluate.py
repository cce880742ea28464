"""onepass evaluate: a model's scores on labelled files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onepass.cli.console import listen, percent, show, table, write_json


def evaluate(
    folder: Annotated[str, typer.Argument(help="A model folder, or a hub name.", metavar="MODEL")],
    file: Annotated[
        Path | None,
        typer.Argument(
            help="A task file with other data; without it the files of the training.", metavar="[TASKS.YAML]"
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Which rows: test or validation.")] = "test",
    json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Score a model on its test rows, task by task.

    A task without a test file is scored on its validation rows; the table says so.
    """
    from onepass import training
    from onepass.model import Model

    listen(quiet=json)
    result = training.evaluate(Model.load(folder), file, split=split)
    if json:
        write_json(result)
    else:
        show(score_table(result), f"average {percent(result['average'])}")


def score_table(result: dict[str, Any]) -> Any:
    """The scores of `evaluate` as a table."""
    made = table("task", "rows", "split", "metric", "score", numbers=("rows", "score"))
    for name, task in result["tasks"].items():
        made.add_row(name, f"{task['rows']:,}", task["split"], task["metric"], percent(task["score"]))
    return made
