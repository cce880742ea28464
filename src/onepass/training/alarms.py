"""Tasks that ended badly: no better than the same answer for every text, or too far under a model of their own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from onepass.model import Model
from onepass.training.baseline import compared_scores
from onepass.training.options import Criterion, SelectOptions
from onepass.training.sets import TaskSet

log = logging.getLogger(__name__)
LEAST_ROWS = 10
"""Of fewer validation rows nothing follows"""


def find_alarms(
    model: Model, sets: Sequence[TaskSet], select: Criterion | SelectOptions, baseline: Mapping[str, float]
) -> list[dict[str, Any]]:
    """The tasks of a trained model that ended badly, each with what can be done."""
    alarms = no_better_than_one_answer(model, sets)
    if isinstance(select, SelectOptions):
        alarms += under_floor(model, select.floor, baseline)
    problems: dict[str, list[str]] = {}  # by the advice, which is said once for all tasks that it is for
    for alarm in alarms:
        problem, _, advice = alarm["message"].partition(". ")
        problems.setdefault(advice, []).append(problem)
    for advice, own in problems.items():
        for problem in own:
            log.warning("%s.", problem)
        log.warning("%s", advice)
    return alarms


def under_floor(model: Model, floor: float, baseline: Mapping[str, float]) -> list[dict[str, Any]]:
    """Tasks whose score in the kept checkpoint is further under their baseline than the options allow."""
    alarms = []
    for name, record in zip(model.names, model.records, strict=True):
        score = compared_scores(record).get("score")
        if score is None or baseline[name] - score <= floor:
            continue
        message = (
            f"{name}: {score:.1f} on validation is {baseline[name] - score:.1f} under its own model's "
            f"{baseline[name]:.1f}, more than the {floor:g} allowed; no checkpoint was better for all tasks. "
            "Give it a larger weight, or a model of its own."
        )
        alarms.append({"task": name, "score": score, "baseline": baseline[name], "message": message})
    return alarms


def no_better_than_one_answer(model: Model, sets: Sequence[TaskSet]) -> list[dict[str, Any]]:
    alarms = []
    for number, item in enumerate(sets):
        if found := as_one_answer(model, number, item):
            rare = model.kinds[number].rare_advice
            advice = (
                "Look at its rows (onepass check); give it more room with weight: 3 in its task or "
                f"train.sampler=uniform; {rare}{'; ' if rare else ''}train longer; or leave the task out."
            )
            alarms.append(found | {"message": f"{found['message']}. {advice}"})
    return alarms


def as_one_answer(model: Model, number: int, item: TaskSet) -> dict[str, Any] | None:
    """What there is to say of a task that is no better on validation than the same answer for every text."""
    task, kind, rows = model.tasks[number], model.kinds[number], item.validation
    found = model.records[number].get("scores", {}).get("validation")
    if found is None or len(rows) < LEAST_ROWS:
        return None
    baseline = kind.baseline(task, item.train.targets, rows.targets, rows.readings)
    if baseline is None or baseline >= 100.0 or found["score"] > baseline:
        return None
    message = (
        f"{task.name}: {found['metric']} {found['score']:.1f} on {len(rows)} validation rows is no better than the "
        f"same answer for every text ({baseline:.1f})"
    )
    return {"task": task.name, "score": found["score"], "baseline": baseline, "message": message}
