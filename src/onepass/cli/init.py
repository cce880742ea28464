"""onepass init: a first task file, guessed from data files."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from onepass.cli.console import listen, say, show
from onepass.errors import ConfigError


def init(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Data files, or folders: csv, tsv, jsonl, json, parquet, arrow, conll.", metavar="FILE"),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="A known set instead of files: glue, snli, nhc and others; '?' lists them.", metavar="NAME"),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="The folder of the original files; without it, the hub.", metavar="FOLDER"),
    ] = None,
    holdout: Annotated[
        bool,
        typer.Option("--holdout", help="Make two thirds of a validation set the test set, where there is none."),
    ] = False,
    tasks: Annotated[
        str | None, typer.Option(help="Only these tasks of the recipe, with commas between them.", metavar="A,B")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The task file to write; - for stdout.", metavar="TASKS.YAML")
    ] = Path("tasks.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing task file.")] = False,
) -> None:
    """Write a task file for data files. Columns, kinds and labels are guessed.

    onepass init politics.csv tone.csv -o tasks.yaml

    onepass init --recipe glue --from glue_data -o tasks.yaml

    Paths in it are seen from the folder it is written to.
    """
    if recipe is not None:
        if files:
            raise ConfigError("Give data files or --recipe, not both.")
        if str(output) == "-":
            raise ConfigError("A recipe writes data files beside its task file: name a file with -o.")
        _from_recipe(recipe, source, tasks, output, holdout, force)
        return
    if source or tasks or holdout:
        raise ConfigError("--from, --tasks and --holdout belong to a known set: they need --recipe NAME.")
    if not files:
        raise ConfigError("Give data files, or a known set with --recipe NAME.")
    listen()
    from onepass.atomic import write_text
    from onepass.data.guess import guess_task_file
    from onepass.data.sources import find_files
    from onepass.heads import KINDS

    if str(output) == "-":
        typer.echo(guess_task_file(files, kinds=KINDS), nl=False)
        return
    if output.resolve() in [file.resolve() for file in find_files(files)]:
        raise ConfigError(f"{output} is one of the data files. Choose another name with -o.")
    if output.exists() and not force:
        raise ConfigError(f"{output} exists already. Choose another name with -o, or replace it with --force.")
    if not output.absolute().parent.is_dir():
        raise ConfigError(f"There is no folder {output.parent}. Make it first, or choose another name with -o.")
    text = guess_task_file(files, base=output.absolute().parent, kinds=KINDS)
    write_text(output, text)
    say(f"{output} is written. Look it over, then: onepass check {quote(str(output))}")


def _from_recipe(name: str, source: Path | None, tasks: str | None, output: Path, holdout: bool, force: bool) -> None:
    from onepass.recipes import RECIPES, find_recipe, write_recipe

    if name == "?":
        about = {recipe.name: recipe.about.partition("\n\n")[0] for recipe in RECIPES.values()}
        show(*(f"{name:16} {' '.join(text.split())}" for name, text in about.items()))
        return
    only = [part.strip() for part in tasks.split(",") if part.strip()] if tasks else None
    made = write_recipe(find_recipe(name), output, source, only=only, holdout=holdout, overwrite=force)
    count = sum(sum(splits.values()) for splits in made.rows.values())
    written = f"{output} is written, with {count:,} rows in {made.folder}."
    say(f"{written} Look it over, then: onepass check {quote(str(output))}")
