"""The plot of an accuracy bench: each method's mean with its spread, and every task as a point."""

from pathlib import Path
from typing import Any

from onepass.errors import ConfigError

POSSIBLE = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Refuse a file name that cannot be drawn to, and make its folder, before anything is trained or measured."""
    import matplotlib  # noqa: F401  where it is missing, that is told now

    if path.suffix.lower() not in POSSIBLE:
        raise ConfigError(f"--plot {path}: a plot is one of {', '.join(POSSIBLE)}. Give such a file name.")
    path.parent.mkdir(parents=True, exist_ok=True)


def plot_accuracy(summary: dict[str, Any], path: Path) -> None:
    """Draw what `summarise` found."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = summary["rows"]
    figure, axes = pyplot.subplots(figsize=(7, 1.2 + 0.45 * len(rows)), layout="constrained")
    for place, row in enumerate(rows):
        tasks = list(row["tasks"].values())
        axes.plot(tasks, [place] * len(tasks), "|", color="0.7", markersize=12)
        axes.errorbar(row["mean"], place, xerr=row["std"], fmt="o", color="tab:blue", capsize=4)
    axes.set_yticks(range(len(rows)), [row["method"] for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(f"{summary['suite']}, test: mean and deviation over seeds; bars are tasks")
    figure.savefig(path)
    pyplot.close(figure)
