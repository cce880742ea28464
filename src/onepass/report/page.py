"""report.html: a model's tasks, scores, training and trust on one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from onepass.atomic import edit_folder, write_text
from onepass.contents import read_config
from onepass.errors import ConfigError
from onepass.report.summary import summary

WIDTH, HEIGHT = 640, 220  # of a curve


def write_report(folder: Path, output: Path | None = None) -> Path:
    """Write the page into the model folder, or to another file."""
    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"A report is an HTML page, but {output} would not be one. Give a name that ends in .html.")
    page = render(folder)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_text(output, page)
        return output
    with edit_folder(folder) as edit:
        (edit.draft / "report.html").write_text(page, encoding="utf-8")
    return folder / "report.html"


def render(folder: Path) -> str:
    """The page as text."""
    from jinja2 import Environment, StrictUndefined

    found, training = summary(folder), read_config(folder)["training"]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files("onepass.report").joinpath("page.html").read_text(encoding="utf-8"))
    told = training.get("findings", {})  # by task, what its method tells of it
    return template.render(
        model=found,
        training=training,
        curves=curves(training.get("history", [])),
        findings=list(dict.fromkeys(name for of_task in told.values() for name in of_task)),
    )


def curves(history: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each stage of the training, the points of its mean and of each task, in the coordinates of the drawing."""
    drawn = []
    for stage in dict.fromkeys(record["stage"] for record in history):
        records = [record for record in history if record["stage"] == stage]
        scores = [score for record in records for score in record["scores"].values()]
        if len(records) < 2 or not scores:
            continue
        low, high = min(scores), max(scores)
        tasks = {name: [record["scores"][name] for record in records] for name in records[0]["scores"]}
        epochs = [record["epoch"] for record in records]
        drawn.append(
            {
                "stage": stage,
                "low": low,
                "high": high,
                "last": epochs[-1],
                "mean": _points(epochs, [record["average"] for record in records], low, high),
                "tasks": {name: _points(epochs, values, low, high) for name, values in tasks.items()},
            }
        )
    return drawn


def _points(epochs: Sequence[float], values: Sequence[float], low: float, high: float) -> str:
    """The corners of a line, as SVG writes them.

    >>> _points([1, 2], [50.0, 100.0], 50.0, 100.0)
    '0.0,220.0 640.0,0.0'
    """
    first, last = epochs[0], epochs[-1]
    return " ".join(
        f"{WIDTH * (epoch - first) / max(last - first, 1e-9):.1f},{HEIGHT * (high - value) / max(high - low, 1e-9):.1f}"
        for epoch, value in zip(epochs, values, strict=True)
    )
