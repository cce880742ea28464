"""What a method tells of its tasks after a training, for the record and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onepass.model import Model
from onepass.training.sets import TaskSet
from onepass.where import pack

ROWS = 64
"""Validation rows of each task that are looked at"""


def findings_of(model: Model, sets: Sequence[TaskSet]) -> dict[str, Any]:
    """By task name, for example which experts a task's tokens go to; most methods have nothing to tell."""
    batches = []
    for task, item in enumerate(sets):
        rows = range(min(len(item.validation), ROWS))
        if len(rows):
            batch, asked, _ = pack([(task, item.validation, row) for row in rows])
            batches.append((batch.to(model.device), asked))
    return {model.names[task]: found for task, found in model.method.findings(batches).items()}
