"""What tasks reach in models of their own: the scores that a common model is measured against."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepass.contents import read_tasks
from onepass.errors import ConfigError

if TYPE_CHECKING:
    from onepass.training.options import Criterion, SelectOptions


def baseline_of(select: Criterion | SelectOptions, names: Sequence[str]) -> dict[str, float]:
    """The scores of these tasks that a training is held to; none where its options have no floor."""
    return {} if isinstance(select, str) else read_baseline(select.baseline, names)


def read_baseline(source: str, names: Sequence[str]) -> dict[str, float]:
    """The scores of these tasks in percent: of a model folder those on validation, of a JSON file what it says.

    The file is {TASK: SCORE, ...} or what `onepass evaluate --json` writes.
    """
    path = Path(source)
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if missing := [name for name in names if name not in found]:
        raise ConfigError(f"{path} has no score of {', '.join(missing)}; it has {', '.join(found) or 'none'}.")
    return {name: found[name] for name in names}


def compared_score(record: Mapping[str, Any]) -> float | None:
    """A task's validation score as checkpoints are compared by it: before thresholds were chosen."""
    scores = record.get("scores", {})
    found: Mapping[str, Any] = scores.get("without_thresholds") or scores.get("validation", {})
    return found.get("score")


def _of_folder(path: Path) -> dict[str, float]:
    scores = {task["name"]: compared_score(task) for task in read_tasks(path)}
    return {name: float(score) for name, score in scores.items() if score is not None}


def _of_file(path: Path) -> dict[str, float]:
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}. Give a model folder or a JSON file.") from None
    tasks = value.get("tasks", value) if isinstance(value, dict) else None
    if not isinstance(tasks, dict):
        raise ConfigError(f"{path} holds no scores. Needed: {{TASK: SCORE, ...}}, in percent.")
    scores: dict[str, float] = {}
    for name, item in tasks.items():
        score: Any = item.get("score") if isinstance(item, dict) else item
        if type(score) not in (int, float) or not math.isfinite(score):
            raise ConfigError(f"{path}: the score of {name} is {score!r}. Needed: a number, in percent.")
        scores[name] = float(score)
    return scores
