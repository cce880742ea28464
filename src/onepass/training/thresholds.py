"""Giving the tasks of a trained model other thresholds, without training anything."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onepass.calibration import choose_thresholds, set_threshold
from onepass.errors import ConfigError, OnepassError, listed, unknown
from onepass.heads import make_kind, options_of_kind
from onepass.heads.thresholds import Rule, read_threshold
from onepass.model import Model
from onepass.training.evaluation import all_logits, score_again, score_decisions, validation_rows, without_rows

log = logging.getLogger(__name__)


def set_thresholds(model: Model, names: Sequence[str] | None, value: Any, data: Path | None = None) -> list[int]:
    """Give tasks (all that can have some, for None) another option `threshold`; returns their numbers.

    value: as in a task file; None takes the option away, without names from those that have it. A threshold that has
    to be chosen is chosen on the rows of `data`, which has the columns of the training, or else on the task's
    validation rows.
    All faults are raised at once, with nothing changed. The versions of the tasks go up by one.
    """
    if data is not None and not isinstance(value, dict):
        raise ConfigError(
            f"The rows of {data} would not be read: they are for choosing a threshold, and {value!r} is none to "
            "choose. Leave them out, or give a rule, such as {'target_precision': 0.9}."
        )
    numbers = [n for n in model.numbers(names) if names or "threshold" in options_of_kind(model.tasks[n].kind)]
    if not names and data is None and isinstance(value, dict):
        numbers = _with_rows(model, numbers)
    if not names and value is None:
        numbers = [number for number in numbers if "threshold" in model.tasks[number].options]
        if not numbers:
            raise ConfigError("No task of the model has a threshold.")
    _check(model, numbers, value)
    rows = validation_rows(model, numbers, data) if isinstance(value, dict) else {}
    for number in numbers:
        set_threshold(model, number, value)
        model.records[number]["version"] = model.records[number].get("version", 1) + 1
    for number, logits in (all_logits(model, rows) if rows else {}).items():
        choose_thresholds(model, number, logits, rows[number])
        if data is None:
            score_decisions(model, number, logits, rows[number])
    # A label that is named is given even where another is likelier, which changes the scores of any kind.
    decides = isinstance(value, dict) and value.get("label") is not None
    unscored = [number for number in numbers if number not in rows or data is not None]
    _score_anew(model, [number for number in unscored if decides or model.kinds[number].thresholds_decide])
    return numbers


def _score_anew(model: Model, numbers: Sequence[int]) -> None:
    """Let the records of tasks say what they reach on validation with the thresholds they have now, or nothing."""
    for number in numbers:
        if "validation" not in model.records[number].get("scores", {}):
            continue
        try:
            rows = validation_rows(model, [number])
        except OnepassError as error:
            log.warning("%s: its score on validation went with its old threshold (%s)", model.tasks[number].name, error)
            model.records[number]["scores"] = {}
        else:
            score_again(model, number, all_logits(model, rows)[number], rows[number])


def _with_rows(model: Model, numbers: Sequence[int]) -> list[int]:
    """The tasks that have validation rows to choose on; all of them if none has, for the caller to say so."""
    reasons = {number: without_rows(model, number, model.tasks[number]) for number in numbers}
    if all(reasons.values()):
        return list(numbers)
    for number, reason in reasons.items():
        if reason:
            log.warning("%s stays as it is: %s, and there are none to choose on", model.tasks[number].name, reason)
    return [number for number in numbers if not reasons[number]]


def _check(model: Model, numbers: Sequence[int], value: Any) -> None:
    rule, faults = read_threshold(value), []
    for task in (model.tasks[number] for number in numbers):
        if "threshold" not in options_of_kind(task.kind):
            faults.append(f"Task {task.name!r} can have no threshold: it is of kind {task.kind}.")
            continue
        if value is not None:
            # raises if this kind cannot use it
            make_kind(task.model_copy(update={"options": {**task.options, "threshold": value}}))
        if isinstance(rule, Rule) and rule.label is not None and rule.label not in task.labels:
            faults.append(f"Task {task.name!r}: {unknown('label', rule.label, task.labels)}")
    if not numbers:
        faults.append("None of the model's tasks is of a kind that can have a threshold.")
    if faults:
        raise ConfigError(listed(faults))
