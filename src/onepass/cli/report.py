"""onepass report: a page about a model, for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onepass.cli.console import say
from onepass.cli.options import Folder


def report(
    folder: Folder,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Another file than report.html in the model folder.", metavar="FILE.html"),
    ] = None,
) -> None:
    """Write an HTML page about a model. It has the tasks, scores, thresholds, training and calibration.

    onepass report runs/news
    """
    from onepass.report.page import write_report

    say(f"The report is in {write_report(folder, output)}.")
