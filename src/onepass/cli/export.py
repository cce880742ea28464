"""onepass export: the engine of a model."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from onepass.cli.console import listen, show, table, write_json
from onepass.cli.info import tried_before
from onepass.cli.options import Folder, Json
from onepass.errors import ConfigError


def export(
    folder: Folder,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="For --int8: a task file whose validation rows to use; other tasks keep those of the training.",
            metavar="TASKS.YAML",
        ),
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Compute in 8 bits, or else in 16, as far as every task passes its gate.")
    ] = False,
    calibrate: Annotated[
        Path | None,
        typer.Option(help="For --int8: a data file of texts without labels, instead of rows.", metavar="FILE"),
    ] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(help="Also write all tasks as one ONNX file, for other programs.", metavar="FILE.onnx"),
    ] = None,
    json: Json = False,
) -> None:
    """Build the engine of a model. It answers alike, faster and without torch.

    onepass export runs/news

    onepass export runs/news --int8

    onepass export runs/news --onnx news.onnx
    """
    if not int8 and (file or calibrate):
        raise ConfigError("Rows and texts are for 8 bits: add --int8.")
    if file and calibrate:
        raise ConfigError("Give a task file or --calibrate, not both.")
    from onepass.engine.export import export_model

    listen(quiet=json)
    if onnx:
        from onepass.engine.onnx_export import check_place, export_onnx

        check_place(onnx)
    found = export_model(folder, int8=int8, file=file, texts=calibrate)
    if onnx:
        found["onnx"] = export_onnx(folder, onnx)
    if json:
        write_json(found)
        return
    show(
        f"{folder} has an engine for its {found['tasks']} tasks, in {found['precision']}. "
        f"In fp32 it differs from the model by at most {found['difference']:.2g} in a logit."
    )
    if "gate" in found:
        show(*gate_parts(found["gate"]))
    if onnx:
        show(
            f"{' and '.join(found['onnx']['files'])}: {found['onnx']['tasks']} tasks in fp32, from word pieces to "
            f"logits. ONNX Runtime differs from the engine by at most {found['onnx']['difference']:.2g} in a logit."
        )
    show(f'Use it: onepass predict {quote(str(folder))} "..."   or   onepass.load("{folder}", engine=True)')


def gate_parts(gate: dict[str, Any]) -> list[Any]:
    """What the gate of 8 bits found, for reading."""
    parts: list[Any] = [f"computed in 8 bits: {gate['computed']}", *map(tried_before, gate["tried"])]
    if gate["tasks"]:
        numbers = ("rows", "changed", "fp32", gate["precision"])
        made = table("task", *numbers, numbers=numbers)
        for name, task in gate["tasks"].items():
            scores = ["-" if task[key] is None else f"{task[key]:.2f}" for key in ("before", "after")]
            made.add_row(name, f"{task['rows']:,}", f"{task['changed']:.2f} %", *scores)
        parts.append(made)
    return parts
