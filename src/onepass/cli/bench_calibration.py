"""onepass bench calibration: what calibration and thresholds do on test rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onepass.cli.console import listen, percent, show, table, write_json
from onepass.cli.options import Json, Overrides, Suite


def calibration(
    suite: Suite,
    overrides: Overrides = None,
    model: Annotated[
        Path | None, typer.Option(help="A model trained on the suite; without it one is trained.", metavar="MODEL")
    ] = None,
    target: Annotated[float, typer.Option(help="The precision that thresholds are chosen for.")] = 0.9,
    json: Json = False,
) -> None:
    """How far probabilities can be relied on. Calibration error before and after, and what thresholds reach.

    The rows are the test rows of a suite.

    onepass bench calibration --suite suites/content.yaml
    """
    from onepass.bench.calibration import trust_of_suite

    listen(quiet=json)
    found = trust_of_suite(suite, target, model, overrides or ())
    if json:
        write_json(found)
        return
    numbers = ("labels", "rows", "error before", "after", "changed", "precision", "given", "a label", "reachable")
    made = table("task", *numbers, numbers=numbers)
    for row in found["rows"]:
        one, each = row["per_task"], row["per_label"]
        has_thresholds = each["reachable"] is not None
        made.add_row(
            row["task"], str(row["labels"]), f"{row['rows']:,}", percent(row["before"]["ece"], 2),
            percent(row["after"]["ece"], 2), str(row["changed_labels"]), percent(one["precision"]),
            f"{one['given']:,}" if has_thresholds else "", percent(each["label_precision"]),
            f"{each['reachable']} of {row['labels']}" if has_thresholds else "",
        )  # fmt: skip
    show(made, *in_words(found["mean"]))


def in_words(mean: dict[str, Any]) -> list[str]:
    """The means over tasks."""
    lines = [
        f"mean calibration error {mean['ece_before']:.2f} before, {mean['ece_after']:.2f} after; "
        f"{mean['changed_labels']} answers changed",
    ]
    for per, name in (("per_task", "one threshold a task"), ("per_label", "one a label")):
        reached = mean[per]
        line = f"{name}, target {mean['target']:g}: mean precision {percent(reached['precision'], 2)} in"
        line += f" {reached['tasks']} tasks"
        lines.append(line + (f"; not reachable: {', '.join(reached['unreachable'])}" if reached["unreachable"] else ""))
    return lines
