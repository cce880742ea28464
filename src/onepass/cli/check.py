"""onepass check: what is wrong or odd about the data of a task file, before anything is trained."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onepass.cli.console import say, write_json
from onepass.cli.options import Json
from onepass.errors import EncoderError

if TYPE_CHECKING:
    from onepass.tasks import TaskFile


def check(
    file: Annotated[Path, typer.Argument(help="The task file.", metavar="TASKS.YAML")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Other values than the file's, as for train.", metavar="KEY=VALUE")
    ] = None,
    json: Json = False,
) -> None:
    """Check a task file and its data. Labels, duplicates, leakage, imbalance are looked at.

    Faults, which training would refuse, end with exit code 2; warnings alone with 0.
    """
    from onepass.data.check import check_data
    from onepass.heads import make_kind
    from onepass.tasks import read_task_file

    read = read_task_file(file, overrides or (), checks=[_faults])
    report = check_data(read, {name: make_kind(task) for name, task in read.tasks.items()})
    if json:
        write_json(report.to_dict())
    else:
        typer.echo("\n".join(report.lines()))
    if report.faults:
        say(f"{file} cannot be trained on as it is.")
        raise typer.Exit(2)


def _faults(file: TaskFile) -> list[str]:
    """What training would refuse of a task file itself.

    Method and training know their options where torch is: a file that leaves both as they are, as `onepass init`
    writes it, is checked without importing that.
    """
    from onepass.heads import check_kinds
    from onepass.tasks import MethodChoice

    plain = file.method == MethodChoice() and not file.train and not any(task.group for task in file.tasks.values())
    if plain and (file.encoder == "embedded" or find_spec("torch") is None):
        return check_kinds(file)
    from onepass.encoder.loading import check_encoder
    from onepass.training import CHECKS
    from onepass.training.options import TrainOptions

    faults = [fault for check in CHECKS for fault in check(file)]
    length = file.train.get("max_length", TrainOptions.max_length)
    encoders = {"encoder": file.encoder, "train.teacher_encoder": file.train.get("teacher_encoder")}
    for key, encoder in encoders.items():
        try:
            if isinstance(encoder, str):
                check_encoder(encoder, length if type(length) is int else TrainOptions.max_length)
        except EncoderError as error:
            faults.append(f"{key}: {error}")
    return faults
