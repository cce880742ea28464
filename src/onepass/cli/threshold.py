"""onepass threshold: which answers of a trained model are given, and which are withheld."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from onepass.cli.changes import report
from onepass.cli.console import listen, say, show, table
from onepass.cli.options import Folder, Json
from onepass.errors import ConfigError


def threshold(
    folder: Folder,
    tasks: Annotated[
        list[str] | None, typer.Argument(help="Tasks; without any, all that can have thresholds.", metavar="TASK")
    ] = None,
    target_precision: Annotated[
        float | None, typer.Option(help="Give answers of which this share is right.", metavar="SHARE")
    ] = None,
    target_recall: Annotated[
        float | None, typer.Option(help="Give this share of what there is to find.", metavar="SHARE")
    ] = None,
    best_f1: Annotated[bool, typer.Option("--best-f1", help="The best of both.")] = False,
    at: Annotated[float | None, typer.Option(help="This probability, whatever it reaches.", metavar="P")] = None,
    none: Annotated[bool, typer.Option("--none", help="No threshold: every answer is given.")] = False,
    label: Annotated[str | None, typer.Option(help="A threshold of this label alone.", metavar="LABEL")] = None,
    per_label: Annotated[bool, typer.Option("--per-label", help="Each label a threshold of its own.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Choose on the rows of this data file, not on the validation rows.", metavar="FILE"),
    ] = None,
    json: Json = False,
) -> None:
    """Choose thresholds for the tasks of a trained model. Nothing is trained; the tasks' versions go up by one.

    onepass threshold runs/news tone --target-precision 0.9
    """
    value = _value(target_precision, target_recall, best_f1, at, none, label, per_label)
    if data is not None and not isinstance(value, dict):
        raise ConfigError("--data is for choosing a threshold: give --target-precision, --target-recall or --best-f1.")
    from onepass.living import change_thresholds
    from onepass.report.summary import engine_of

    listen(quiet=True)
    model, proof, names = change_thresholds(folder, tasks or None, value, data)
    found = {
        name: model.records[number].get("thresholds") for name, number in zip(names, model.numbers(names), strict=True)
    }
    if not json and any(found.values()):
        show(chosen_table(found))
    report(f"{', '.join(names)}: changed.", proof, json, threshold=value, tasks=found)
    if not json and engine_of(folder).get("untried"):
        again = f"onepass export {quote(str(folder))} --int8"
        say(f"The engine computes in 32 bits now, until 8 are tried with what was changed: {again}")


def _value(
    precision: float | None, recall: float | None, f1: bool, at: float | None, none: bool, label: str | None, per: bool
) -> Any:
    """The options as a task file would write them."""
    goals = {"target_precision": precision, "target_recall": recall, "best": "f1" if f1 else None}
    goals = {key: value for key, value in goals.items() if value is not None}
    if len(goals) + (at is not None) + none != 1:
        raise ConfigError("Give one of --target-precision, --target-recall, --best-f1, --at and --none.")
    if (label is not None or per) and not goals:
        raise ConfigError("--label and --per-label are for --target-precision, --target-recall and --best-f1.")
    if label is not None and per:
        raise ConfigError("Give --label or --per-label, not both.")
    if not goals:
        return at
    return goals | ({"label": label} if label is not None else {"per": "label"} if per else {})


def chosen_table(found: dict[str, Any]) -> Any:
    """What the thresholds of tasks reach on the rows they were chosen on."""
    numbers = ("threshold", "precision", "recall", "given", "rows")
    made = table("task", "label", *numbers, "remark", numbers=numbers)
    for name, record in found.items():
        for label, choice in record["reached"].items() if record else ():
            values = [choice[key] for key in ("threshold", "precision", "recall")]
            shown = ["-" if value is None else f"{value:.3f}" for value in values]
            made.add_row(
                name, label or "all", *shown, f"{choice['given']:,}", f"{record['rows']:,}", choice.get("reason", "")
            )
    return made
