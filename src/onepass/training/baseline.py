"""What tasks reach in models of their own: the scores that a common model is measured against."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepass.contents import read_tasks
from onepass.errors import ConfigError
from onepass.heads import KINDS, Kind
from onepass.tasks import Task

if TYPE_CHECKING:
    from onepass.training.options import Criterion, SelectOptions


def baseline_of(select: Criterion | SelectOptions, tasks: Sequence[Task]) -> dict[str, float]:
    """The scores of these tasks that a training is held to; none where its options have no floor."""
    return {} if isinstance(select, str) else read_baseline(select.baseline, tasks)


def read_baseline(source: str, tasks: Sequence[Task]) -> dict[str, float]:
    """The scores of these tasks in percent, by name, each in its own metric.

    Those of a model folder are those on validation. A file is {TASK: SCORE, ...} or what `onepass evaluate --json`
    writes.
    """
    path = Path(source)
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if missing := [task.name for task in tasks if task.name not in found]:
        raise ConfigError(f"{path} has no score of {', '.join(missing)}; it has {', '.join(found) or 'none'}.")
    return {task.name: _score(path, task, found[task.name]) for task in tasks}


def compared_scores(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """A task's validation scores as checkpoints are compared by them: before thresholds were chosen."""
    scores = record.get("scores", {})
    found: Mapping[str, Any] = scores.get("without_thresholds") or scores.get("validation", {})
    return found


def _score(path: Path, task: Task, found: Any) -> float:
    """One task's score, of a number or of all its scores, which may be those of another metric first."""
    scores = found if isinstance(found, dict) else {"score": found}
    metric = task.metric or next(iter(KINDS.get(task.kind, Kind).metrics), scores.get("metric"))
    theirs = scores.get("metric", metric)
    score: Any = scores.get("score" if theirs == metric else metric)
    if score is None and theirs != metric:
        raise ConfigError(
            f"{path}: the score of {task.name} is its {theirs}. Needed: its {metric}, as it is scored here."
        )
    if type(score) not in (int, float) or not math.isfinite(score):
        raise ConfigError(f"{path}: the score of {task.name} is {score!r}. Needed: a number, in percent.")
    return float(score)


def _of_folder(path: Path) -> dict[str, Any]:
    return {task["name"]: scores for task in read_tasks(path) if (scores := compared_scores(task))}


def _of_file(path: Path) -> dict[str, Any]:
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. Give a model folder or a JSON file.") from None
    tasks = value.get("tasks", value) if isinstance(value, dict) else None
    if not isinstance(tasks, dict):
        raise ConfigError(f"{path} holds no scores. Needed: {{TASK: SCORE, ...}}, in percent.")
    return tasks
