"""onepass add: further tasks for a trained model, which stays as it is."""

from typing import Annotated

import typer

from onepass.cli.changes import adding_options, given, report
from onepass.cli.console import listen, progress
from onepass.cli.options import Folder, Json
from onepass.errors import ConfigError


def add(
    folder: Folder,
    rest: Annotated[
        list[str] | None,
        typer.Argument(
            help="A task file with the new tasks, and options of the training: epochs=20 start=similar.",
            metavar="TASKS.YAML|KEY=VALUE",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The name of one new task, in place of a task file.")] = None,
    train: Annotated[str | None, typer.Option(help="Its data file.", metavar="FILE")] = None,
    text: Annotated[list[str] | None, typer.Option(help="Its text column; twice for pairs.", metavar="COLUMN")] = None,
    label: Annotated[str | None, typer.Option(help="Its label column.", metavar="COLUMN")] = None,
    kind: Annotated[str | None, typer.Option(help="Its kind, classification by default.")] = None,
    validation: Annotated[str | None, typer.Option(help="A validation file, or share.", metavar="FILE|SHARE")] = None,
    test: Annotated[str | None, typer.Option(help="A test file.", metavar="FILE")] = None,
    metric: Annotated[str | None, typer.Option(help="Its metric.")] = None,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings, errors and the proof.")] = False,
) -> None:
    """Add tasks to a trained model. Nothing that is there changes, and a proof says so.

    onepass add runs/news tone.yaml

    onepass add runs/news --name tone --train tone.csv --text text --label label
    """
    from onepass.heads import check_kinds
    from onepass.living import add_tasks
    from onepass.tasks import make_task, read_task_file

    words = rest or []
    file = words[0] if words and "=" not in words[0] else None
    overrides = [word for word in words[file is not None :] if word.startswith("tasks.")]
    options = adding_options([word for word in words[file is not None :] if not word.startswith("tasks.")])
    keys = given(train=train, text=text, label=label, kind=kind, validation=validation, test=test, metric=metric)
    listen(quiet or json)
    if (file is None) == (name is None):
        found = f" Beside --name there is {file!r}; options are written as key=value." if file else ""
        raise ConfigError(f"Give either a task file, or one task with --name, --train, --text and --label.{found}")
    if name is not None and overrides:
        raise ConfigError(f"{overrides[0]!r} is for a task file; with --name give --kind, --metric and so on.")
    if name is not None:
        tasks = [make_task(name, keys, checks=[check_kinds])]
    elif keys:
        raise ConfigError(f"--{next(iter(keys))} is for one task that is given with --name, not for a task file.")
    else:
        tasks = list(read_task_file(str(file), overrides, checks=[check_kinds]).tasks.values())
    model, proof = add_tasks(folder, tasks, options, progress(quiet or json))
    names = [task.name for task in tasks]
    report(f"{', '.join(names)}: added to {folder}, {len(model.tasks)} tasks now.", proof, json, added=names)
