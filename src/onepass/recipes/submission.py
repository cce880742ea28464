"""The files that leaderboards want: answers about their unlabelled test rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from onepass.data.files import read_chunks
from onepass.errors import ConfigError
from onepass.heads import make_kind
from onepass.prediction import Prediction
from onepass.recipes.recipe import Recipe, Row
from onepass.recipes.writing import record_of
from onepass.tasks import Task

ROWS = 1024  # asked together


class Asked(Protocol):
    """What is needed of a model."""

    @property
    def tasks(self) -> Sequence[Task]: ...
    def label(self, texts: Sequence[Any], tasks: Sequence[str] | None = None) -> Sequence[Any]: ...


@dataclass
class Handed:
    """The files that were written, and those that could not be."""

    files: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """By file, why it was not written"""


def recipe_of(tasks: Iterable[Task]) -> str | None:
    """The name of the recipe that the tasks' files were made by, if it is one."""
    for task in tasks:
        if isinstance(task.train, Path) and (record := record_of(task.train.parent)):
            return str(record["recipe"])
    return None


def write_answers(model: Asked, recipe: Recipe, tasks: Mapping[str, Task], folder: Path) -> Handed:
    """Ask the model about the unlabelled rows of a recipe's sets, and write a leaderboard's files into a new folder."""
    if not any(known.answers for known in recipe.sets):
        raise ConfigError(f"{recipe.name} has no leaderboard with files to hand in.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists already and is not empty. Choose another folder.")
    known_names = {task.name for task in model.tasks}
    handed, texts = Handed(), dict[str, str]()
    for known in recipe.sets:
        for split, answers in known.answers.items():
            task = tasks.get(known.name)
            path = task.train.parent / f"{known.name}-{split}.jsonl" if task and isinstance(task.train, Path) else None
            if task is None or known.name not in known_names:
                handed.missing[answers.file] = f"the model or the task file has no task {known.name}"
            elif path is None or not path.is_file():
                handed.missing[answers.file] = f"there is no {path}"
            else:
                rows, predictions = _asked(model, task, path)
                texts[answers.file] = answers.write(rows, predictions)
    if not texts:
        raise ConfigError("No file can be handed in: " + "; ".join(f"{f}: {why}" for f, why in handed.missing.items()))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        handed.files.append(name)
    return handed


def _asked(model: Asked, task: Task, path: Path) -> tuple[list[Row], list[Any]]:
    """The rows of a file, and the model's answers about them."""
    rows: list[Row] = []
    answers: list[Any] = []
    columns = make_kind(task).inputs(task)
    for chunk in read_chunks(path, size=ROWS):
        some = [row for _, row in chunk.rows()]
        inputs = [{column: row[column] for column in columns} for row in some]
        rows += some
        answers += [answer_of(labelled.tasks[task.name]) for labelled in model.label(inputs, [task.name])]
    return rows, answers


def answer_of(prediction: Prediction) -> Any:
    """The answer, or the likeliest one where it is withheld: a leaderboard takes no blanks."""
    if prediction.label is None and prediction.scores:
        return max(prediction.scores, key=prediction.scores.__getitem__)
    return prediction.label
