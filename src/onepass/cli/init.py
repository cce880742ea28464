"""onepass init: a first task file, guessed from data files."""

import os
from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.console import say
from onepass.errors import ConfigError


def init(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Data files, or folders of them: csv, tsv, jsonl, json, parquet, arrow.", metavar="FILE..."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The task file to write; - for stdout.", metavar="TASKS.YAML")
    ] = Path("tasks.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing task file.")] = False,
) -> None:
    """Write a task file for data files, guessing columns, kinds and labels.

    onepass init politics.csv tone.csv -o tasks.yaml

    Paths in it are seen from the folder it is written to.
    """
    from onepass.data.guess import guess_task_file
    from onepass.heads import KINDS

    if str(output) == "-":
        typer.echo(guess_task_file(files, kinds=KINDS), nl=False)
        return
    if output.exists() and not force:
        raise ConfigError(f"{output} exists already. Choose another name with -o, or replace it with --force.")
    if not output.absolute().parent.is_dir():
        raise ConfigError(f"There is no folder {output.parent}. Make it first, or choose another name with -o.")
    text = guess_task_file(files, base=output.absolute().parent, kinds=KINDS)
    draft = output.with_name(f".{output.name}.{os.getpid()}.new")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, output)
    finally:
        draft.unlink(missing_ok=True)
    say(f"{output} is written. Look it over, then: onepass check {output}")
