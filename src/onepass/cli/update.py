"""onepass update: one task of a trained model, trained anew."""

from typing import Annotated

import typer

from onepass.cli.changes import adding_options, given, report
from onepass.cli.console import listen, progress
from onepass.cli.options import Folder, Json


def update(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The task.", metavar="NAME")],
    rest: Annotated[
        list[str] | None, typer.Argument(help="Options of the training: epochs=20 start=similar.", metavar="KEY=VALUE")
    ] = None,
    train: Annotated[str | None, typer.Option(help="Other data than it was trained on.", metavar="FILE")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="Their text column; twice for pairs.", metavar="COLUMN")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Their label column.", metavar="COLUMN")] = None,
    validation: Annotated[
        str | None, typer.Option(help="Another validation file, or share.", metavar="FILE|SHARE")
    ] = None,
    replace_labels: Annotated[
        bool,
        typer.Option(
            "--replace-labels", help="Its labels become those of the rows; else those that no row has are kept."
        ),
    ] = False,
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings, errors and the proof.")] = False,
) -> None:
    """Train one task of a model anew. Its version goes up by one and nothing else changes.

    onepass update runs/news tone --train more.csv
    """
    from onepass.living import update_task

    listen(quiet or json)
    keys = given(train=train, text=text, label=label, validation=validation)
    if replace_labels:
        keys["labels"] = []
    model, proof = update_task(folder, name, keys, adding_options(rest or []), progress(quiet or json))
    number = model.names.index(name)
    version, labels = model.records[number]["version"], model.tasks[number].labels
    report(f"{name}: trained anew, version {version}.", proof, json, updated=name, version=version, labels=labels)
