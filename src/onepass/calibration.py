"""Settling a trained task on rows it did not learn from: its temperatures, its thresholds, and what they reach.

The kinds know how; here it is written down. What answers need goes to `task.fitted`, which every reader of a task
folder has; how well it went goes to the task's record.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from onepass.heads import Kind, make_kind
from onepass.heads.scaling import not_calibrated
from onepass.tasks import Task

if TYPE_CHECKING:
    from onepass.data.examples import Examples
    from onepass.model import Model

log = logging.getLogger(__name__)


def settle(model: Model, number: int, logits: Any, rows: Examples) -> None:
    """Calibrate one of a model's tasks on validation rows, and choose the thresholds that its options ask for."""
    task, kind, found = model.tasks[number], model.kinds[number], not_calibrated("there are no validation rows")
    if len(logits):
        found = kind.calibrate(task, logits, rows.targets, rows.readings)
    model.tasks[number] = task = _fitted(task, calibration=found)
    model.records[number] |= trust(task, kind, logits, rows)
    choose_thresholds(model, number, logits, rows)


def choose_thresholds(model: Model, number: int, logits: Any, rows: Examples) -> None:
    """Choose the thresholds that a task's options ask for; where they ask for none, none are left."""
    task, kind, record = model.tasks[number], model.kinds[number], model.records[number]
    found = kind.choose_thresholds(task, logits, rows.targets)
    model.tasks[number] = _fitted(task, thresholds=found.get("thresholds"))
    record.pop("thresholds", None)
    if found:
        record["thresholds"] = {"rule": task.options["threshold"], "rows": len(logits), "reached": found["reached"]}
        for message in unreached(record["thresholds"]):
            log.warning("%s: %s", task.name, message)


def set_threshold(model: Model, number: int, value: Any) -> None:
    """Give a task another option `threshold` (None: none); those chosen for the one before go."""
    task = model.tasks[number]
    options = {key: kept for key, kept in task.options.items() if key != "threshold"}
    if value is not None:
        options["threshold"] = value
    model.tasks[number] = _fitted(task.model_copy(update={"options": options}), thresholds=None)
    model.kinds[number] = make_kind(model.tasks[number])
    model.records[number].pop("thresholds", None)
    scores = model.records[number].get("scores", {})
    if "without_thresholds" in scores:
        model.records[number]["scores"] = {"validation": scores["without_thresholds"]}


def trust(task: Task, kind: Kind, logits: Any, rows: Examples) -> dict[str, Any]:
    """How far a task's probabilities are from what happens, as they came and calibrated; nothing without any."""
    known = rows.targets, rows.readings
    if not len(logits) or not (after := kind.reliability(task, logits, *known)):
        return {}
    before = kind.reliability(_fitted(task, calibration=None), logits, *known)
    return {"calibration": {"rows": len(logits), "before": before, "after": after}}


def unreached(record: dict[str, Any]) -> list[str]:
    """What a task's chosen thresholds do not reach, in words; `record` is that of `choose_thresholds`."""
    missed: dict[str, list[str]] = {}
    for label, found in record["reached"].items():
        if "reason" in found:
            withheld = found["threshold"] is None and "target_precision" in record["rule"]
            effect = "nothing is withheld" if not withheld else "it is never given" if label else "no answer is given"
            missed.setdefault(f"{found['reason']}; {effect}", []).append(label)
    if len(missed) > 3:  # a set of many labels: how many, and which, is enough
        names = [label for labels in missed.values() for label in labels]
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        return [f"{len(names)} of {len(record['reached'])} labels do not reach {record['rule']}: {shown}"]
    return [f"{', '.join(labels)}: {why}" if any(labels) else why for why, labels in missed.items()]


def _fitted(task: Task, **values: Any) -> Task:
    """The task with other fitted values; None takes one away."""
    fitted = {key: value for key, value in (task.fitted | values).items() if value is not None}
    return task.model_copy(update={"fitted": fitted})
