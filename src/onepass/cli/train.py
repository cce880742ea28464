"""onepass train: from a task file to a model folder."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepass.cli.console import listen, percent, progress, say, table

if TYPE_CHECKING:
    from onepass.model import Model
    from onepass.tasks import TaskFile


def train(
    file: Annotated[Path, typer.Argument(help="The task file.", metavar="TASKS.YAML")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to write.", metavar="FOLDER")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Other values than the file's: epochs=3 preset=fast method=mtop.", metavar="KEY=VALUE"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the model in an existing output folder.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was cut short.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings and errors.")] = False,
) -> None:
    """Train a model on the tasks of a task file.

    onepass train tasks.yaml -o runs/news

    onepass train tasks.yaml -o runs/news epochs=3 method=mtop tasks.tone.weight=2

    Keys are those of the task file; those without a dot are options of the training, which docs/training.md lists.
    """
    from onepass import training
    from onepass.tasks import read_task_file
    from onepass.training.run import left_beside

    follows = int(os.environ.get("RANK", 0)) > 0  # of several processes one speaks
    quiet = quiet or follows
    listen(quiet)
    if follows:
        logging.getLogger("onepass").setLevel(logging.ERROR)
    read = read_task_file(file, overrides or (), checks=training.CHECKS)
    if not quiet:
        say(described(read))
    started = time.time()
    try:
        model = training.train(read, output, overwrite=force, resume=resume, progress=progress(quiet))
    except KeyboardInterrupt:
        # What another training left there is of no use to this one.
        kept = [place for place in left_beside(output) if resume or _newest(place) >= started]
        if not quiet and kept:
            say(f"What is done so far is in {kept[0]}. To go on, give the same command with --resume.")
        raise
    if not quiet:
        show_scores(model)
        say(f"The model is in {output}. Ask it: onepass predict {quote(str(output))} {what_to_ask(model)}")


def _newest(folder: Path) -> float:
    """When something was last written into a folder."""
    return max(place.stat().st_mtime for place in (folder, *folder.rglob("*")))


def described(file: TaskFile) -> str:
    """What is going to be trained, all options resolved."""
    from dataclasses import asdict

    from onepass.training.options import train_options

    settings = asdict(train_options(file.train))
    # What goes by the number of rows is said when they are read.
    options = {k: v for k, v in settings.items() if v is not None and (v or k not in ("epochs", "batch_size"))}
    method = ", ".join([file.method.name, *(f"{key}={value}" for key, value in file.method.options.items())])
    names = ", ".join(file.tasks)
    return "\n".join(
        [
            f"encoder  {file.encoder}",
            f"method   {method}",
            f"tasks    {len(file.tasks)}: {names if len(names) < 200 else names[:197] + '...'}",
            f"train    {' '.join(f'{key}={value}' for key, value in options.items())}",
        ]
    )


def what_to_ask(model: Model) -> str:
    """What `onepass predict` can be given, by what the tasks read."""
    texts = {kind.num_texts(task) for kind, task in zip(model.kinds, model.tasks, strict=True)}
    return (
        '"some text"' if 1 in texts else '--pair "one text" "another"' if 2 in texts else "--input FILE --output FILE"
    )


def show_scores(model: Model) -> None:
    """Each task's rows and validation score, on stderr."""
    from rich.console import Console

    made = table("task", "rows", "metric", "validation", numbers=("rows", "validation"))
    for task, record in zip(model.tasks, model.records, strict=True):
        score: dict[str, Any] = record.get("scores", {}).get("validation", {})
        made.add_row(
            task.name,
            f"{record.get('rows', {}).get('train', 0):,}",
            score.get("metric", "-"),
            percent(score.get("score")),
        )
    Console(stderr=True, highlight=False).print(made)
