"""What calibration and thresholds do on rows that nothing was chosen on: a suite's test rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onepass.errors import ConfigError, DataError, first_of

if TYPE_CHECKING:
    from onepass.model import Model
    from onepass.tasks import Task, TaskFile

MEASURES = ("ece", "brier", "nll")


def trust_of_suite(
    suite: str | Path, target: float = 0.9, model: str | Path | None = None, overrides: Sequence[str] = ()
) -> dict[str, Any]:
    """Train on a suite (or load a model of it), and compare calibration and thresholds on its test rows."""
    import torch

    from onepass.folder import load_model
    from onepass.tasks import read_task_file
    from onepass.training import CHECKS, train

    if not 0 < target <= 1:
        raise ConfigError(f"--target is {target:g}, but a precision is above 0 and at most 1, such as 0.9.")
    file = read_task_file(suite, overrides, checks=CHECKS, require=("train", "test"))
    trained = train(file, progress=False) if model is None else load_model(model)
    if not set(trained.names) & set(file.tasks):
        raise DataError(f"{model} has none of the tasks of {suite}; it has {first_of(trained.names)}.")
    found = trust_of_model(trained.to("cuda" if torch.cuda.is_available() else "cpu"), file, target)
    if not found["rows"]:
        raise DataError(f"{suite}: no task has probabilities. Give a suite with labels.")
    return {"suite": Path(suite).stem, **found}


def trust_of_model(model: Model, file: TaskFile, target: float = 0.9) -> dict[str, Any]:
    """What calibration and thresholds do on the test rows of a task file.

    Temperatures and thresholds come from the validation rows. Thresholds are chosen for a precision twice: one for the
    whole task, and one a label.
    """
    from onepass.training.evaluation import all_logits, rows_of

    tasks = [(number, task) for number, task in enumerate(model.tasks) if task.name in file.tasks]
    logits, examples = {}, {}
    for split in ("validation", "test"):
        examples[split] = {number: rows_of(model, number, file.tasks[task.name], split) for number, task in tasks}
        logits[split] = all_logits(model, examples[split])
    rows = []
    for number, task in tasks:
        if found := _task_row(task, [(logits[s][number], examples[s][number]) for s in ("validation", "test")], target):
            rows.append({"task": task.name, **found})
    return {"rows": rows, "mean": {"target": target, **_means(rows)} if rows else {}}


def _task_row(task: Task, splits: Sequence[tuple[Any, Any]], target: float) -> dict[str, Any] | None:
    """One task's line; None for a kind without probabilities."""
    from onepass.calibration import trust
    from onepass.heads import make_kind

    plain = task.model_copy(update={"options": {k: v for k, v in task.options.items() if k != "threshold"}})
    kind = make_kind(plain)
    logits, rows = splits[1]
    shown = trust(plain, kind, logits, rows).get("calibration")
    if shown is None:
        return None
    raw = plain.model_copy(update={"fitted": {k: v for k, v in task.fitted.items() if k != "calibration"}})
    labels = [[answer.label for answer in kind.decode(each, logits, rows.readings)] for each in (raw, plain)]
    return {
        "labels": len(task.labels),
        "rows": len(logits),
        "validation_rows": len(splits[0][0]),
        "form": task.fitted["calibration"]["form"],
        "before": shown["before"],
        "after": shown["after"],
        "changed_labels": sum(one != other for one, other in zip(*labels, strict=True)),
        "per_task": _reached(plain, splits, {"target_precision": target}),
        "per_label": _reached(plain, splits, {"target_precision": target, "per": "label"}),
    }


def _reached(task: Task, splits: Sequence[tuple[Any, Any]], rule: dict[str, Any]) -> dict[str, Any]:
    """What thresholds chosen on validation reach on test: over all answers, and in the mean over labels.

    `reachable` is None for a kind that has no thresholds: nothing was tried.
    """
    from onepass.heads import make_kind, options_of_kind

    if "threshold" not in options_of_kind(task.kind):
        return {"precision": None, "given": 0, "label_precision": None, "reachable": None, "unreachable": {}}
    task = task.model_copy(update={"options": task.options | {"threshold": rule}})
    kind = make_kind(task)
    chosen = kind.choose_thresholds(task, splits[0][0], splits[0][1].targets)
    task = task.model_copy(update={"fitted": task.fitted | {"thresholds": chosen["thresholds"]}})
    mentions = kind.mentions(task, splits[1][0], splits[1][1].targets)
    given, right = (sum(pair[place] for pair in mentions.values()) for place in (0, 1))
    precisions = [100.0 * hits / count for count, hits in mentions.values() if count]
    unreached = {label: found["reason"] for label, found in chosen["reached"].items() if found["threshold"] is None}
    return {
        "precision": 100.0 * right / given if given else None,
        "given": given,
        "label_precision": float(np.mean(precisions)) if precisions else None,
        "reachable": len(chosen["reached"]) - len(unreached),
        "unreachable": unreached,
    }


def _means(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over tasks; precisions over those in which a threshold was found."""
    found: dict[str, Any] = {
        f"{measure}_{when}": float(np.mean([row[when][measure] for row in rows]))
        for measure in MEASURES
        for when in ("before", "after")
    }
    found["changed_labels"] = sum(row["changed_labels"] for row in rows)
    for per, key in (("per_task", "precision"), ("per_label", "label_precision")):
        values = [row[per][key] for row in rows if row[per][key] is not None]
        found[per] = {
            "precision": float(np.mean(values)) if values else None,
            "tasks": len(values),
            "unreachable": [row["task"] for row in rows if row[per]["reachable"] == 0],
        }
    return found
