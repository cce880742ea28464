"""onepass evaluate: a model's scores on labelled files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepass.cli.console import listen, percent, say, show, table, write_json
from onepass.cli.options import Json
from onepass.errors import ConfigError

if TYPE_CHECKING:
    from onepass.model import Model


def evaluate(
    folder: Annotated[str, typer.Argument(help="A model folder, or a hub name.", metavar="MODEL")],
    file: Annotated[
        Path | None,
        typer.Argument(help="A task file with other data; without it the files of the training.", metavar="TASKS.YAML"),
    ] = None,
    split: Annotated[str, typer.Option(help="Which rows: test or validation.")] = "test",
    submission: Annotated[
        Path | None,
        typer.Option(help="Write a leaderboard's files into this new folder (tasks of a recipe).", metavar="FOLDER"),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: a GPU where there is one.")] = "auto",
    json: Json = False,
) -> None:
    """Score a model on its test rows, task by task.

    A task without a test file is scored on its validation rows; the table says so.
    """
    from onepass import training
    from onepass.model import Model

    listen(quiet=json)
    model = Model.load(folder, device)
    if submission is not None:
        _hand_in(model, file, submission)
        return
    result = training.evaluate(model, file, split=split)
    if means := _papers_means(model, file, split, result["tasks"]):
        result["averages"] = means
    if json:
        write_json(result)
    else:
        show(score_table(result), f"average {percent(result['average'])}")
        for name, value in means.items():
            show(f"average as in {name} {percent(value)}")


def _hand_in(model: Model, file: Path | None, folder: Path) -> None:
    """Write the files of a leaderboard, and tell which are missing."""
    from onepass.recipes import find_recipe, recipe_of, write_answers
    from onepass.training.evaluation import tasks_of

    tasks = tasks_of(model, file)
    name = recipe_of(tasks.values())
    if name is None:
        raise ConfigError("--submission needs tasks of a recipe. Make a task file with: onepass init --recipe glue")
    handed = write_answers(model, find_recipe(name), tasks, folder)
    say(f"{len(handed.files)} files are in {folder}: {', '.join(handed.files)}")
    for missing, why in handed.missing.items():
        say(f"{missing} is not written: {why}.")


def _papers_means(model: Model, file: Path | None, split: str, result: dict[str, Any]) -> dict[str, float]:
    """The means as papers take them, if the tasks are of a recipe that has such, and the model has all of them."""
    from onepass import training
    from onepass.recipes import RECIPES, recipe_of
    from onepass.tasks import TaskFile
    from onepass.training.evaluation import tasks_of

    tasks = tasks_of(model, file)
    recipe = RECIPES.get(recipe_of(tasks.values()) or "")
    if recipe is None or recipe.averages is None:
        return {}
    found = {"validation": dict(result), "test": dict(result)}
    other = "test" if split == "validation" else "validation"
    # A task without a test file has the same scores on both.
    if both := {name: task for name, task in tasks.items() if task.test is not None}:
        rest = TaskFile(path=file or Path("model"), tasks=both)
        found[other] |= training.evaluate(model, rest, split=other)["tasks"]
    return recipe.averages(found["validation"], found["test"])


def score_table(result: dict[str, Any]) -> Any:
    """The scores of `evaluate` as a table."""
    kinds = {key for task in result["tasks"].values() for key in task.get("thresholds", {})}
    given = [key for key in ("given", "recall", "precision") if key in kinds]
    numbers = ("rows", "score", "calibration error", *given)
    made = table("task", "rows", "split", "metric", "score", "calibration error", *given, numbers=numbers)
    for name, task in result["tasks"].items():
        trust = task.get("calibration")
        error = f"{trust['before']['ece']:.1f} to {trust['after']['ece']:.1f}" if trust else "-"
        row = [name, f"{task['rows']:,}", task["split"], task["metric"], percent(task["score"]), error]
        made.add_row(*row, *(percent(task.get("thresholds", {}).get(key)) for key in given))
    return made
