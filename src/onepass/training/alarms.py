"""Tasks that learned nothing: no better on validation than the same answer for every text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from onepass.model import Model
from onepass.training.sets import TaskSet

log = logging.getLogger(__name__)
LEAST_ROWS = 10
"""Of fewer validation rows nothing follows"""


def find_alarms(model: Model, sets: Sequence[TaskSet]) -> list[dict[str, Any]]:
    """The tasks of a trained model that are no better than their commonest answer, each with what can be done."""
    alarms = []
    for task, kind, record, item in zip(model.tasks, model.kinds, model.records, sets, strict=True):
        found = record.get("scores", {}).get("validation")
        if found is None or len(item.validation) < LEAST_ROWS:
            continue
        baseline = kind.baseline(task, item.train.targets, item.validation.targets)
        if baseline is None or baseline >= 100.0 or found["score"] > baseline:
            continue
        message = (
            f"{task.name}: {found['metric']} {found['score']:.1f} on {len(item.validation)} validation rows is no "
            f"better than the same answer for every text ({baseline:.1f}). Look at its rows (onepass check); give it "
            "more room with weight: 3 in its task or train.sampler=square_root; for rare labels use class_weights: "
            "balanced or another metric; train longer; or leave the task out."
        )
        log.warning("%s", message)
        alarms.append({"task": task.name, "score": found["score"], "baseline": baseline, "message": message})
    return alarms
