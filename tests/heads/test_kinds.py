"""Kinds by name."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from onepass.errors import ConfigError
from onepass.heads import KINDS, check_kinds, make_kind
from onepass.heads.regression import Regression
from onepass.tasks import Task, TaskFile

NEEDED: dict[str, dict[str, Any]] = {
    "classification": {"options": {"group_by": "question"}},
    "choice": {"options": {"choices": ["one", "two"]}},
    "words": {"options": {"words": "word"}},
    "extraction": {"text": ["question", "context"]},
}


def faults_of(**keys: Any) -> list[str]:
    task = Task(**({"name": "tone", "text": "text", "label": "tone"} | keys))
    return check_kinds(TaskFile(path=Path("tasks.yaml"), tasks={"tone": task}))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_metrics_and_no_faults_without_options(name: str):
    assert KINDS[name].metrics
    assert faults_of(kind=name, **NEEDED.get(name, {})) == []
    for metric in KINDS[name].metrics:
        assert faults_of(kind=name, metric=metric, **NEEDED.get(name, {})) == []


@pytest.mark.parametrize("name", KINDS)
def test_no_option_has_the_name_of_a_key_that_every_task_has(name: str):
    """In a task file both stand side by side, and the key would be taken."""
    assert not set(inspect.signature(KINDS[name]).parameters) & set(Task.model_fields)


def test_a_kind_is_made_with_the_options_of_its_task():
    task = Task(name="tone", kind="regression", text="text", label="tone", options={"standardise": False})
    kind = make_kind(task)
    assert isinstance(kind, Regression) and not kind.standardise


def test_an_unknown_kind_is_named_with_the_nearest():
    (fault,) = faults_of(kind="regresion")
    assert fault.startswith("Task 'tone': Unknown kind 'regresion'. Did you mean 'regression'?")
    with pytest.raises(ConfigError, match="Did you mean 'regression'"):
        make_kind(Task(name="tone", kind="regresion", text="text", label="tone"))


def test_a_metric_of_another_kind_is_refused():
    (fault,) = faults_of(kind="regression", metric="accuracy")
    assert "Unknown metric of regression tasks 'accuracy'" in fault
    assert "pearson, r2, spearman" in fault


def test_unknown_keys_and_wrong_options_are_found_at_once():
    faults = faults_of(kind="regression", options={"lable": "x", "standardise": "maybe"}, metric="mse")
    assert len(faults) == 3
    assert any("Did you mean 'label'" in fault for fault in faults)
    assert any("standardise is 'maybe'" in fault for fault in faults)


@pytest.mark.parametrize("name", ["choice", "words", "extraction"])
def test_a_kind_that_needs_more_than_a_text_says_so(name: str):
    (fault,) = faults_of(kind=name)
    assert fault.startswith("Task 'tone': ") and "needed" in fault.lower()
    with pytest.raises(ConfigError, match="eeded"):
        make_kind(Task(name="tone", kind=name, text="text", label="tone"))


def test_losses_know_among_how_many_answers_they_decide():
    """What their size at the start is the logarithm of; spans have as many as the text has tokens."""
    found = {name: kind.classes(kind.__new__(kind), 4) for name, kind in KINDS.items()}
    assert found == dict.fromkeys(("classification", "multilabel", "words", "tagging", "regression"), 4) | {
        "choice": 2,
        "extraction": 1,
    }
