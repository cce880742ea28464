"""The figures of the calibration bench, on answers whose calibration is known."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from onepass.bench.calibration import _means, _reached, _task_row, trust_of_suite
from onepass.cli.app import app
from onepass.errors import ConfigError
from onepass.heads import make_kind
from onepass.tasks import Task


def rows_of(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits three times too large, and labels drawn from what they should have been."""
    generator = np.random.default_rng(seed)
    honest = generator.normal(0, 1.5, (count, 3))
    p = np.exp(honest) / np.exp(honest).sum(-1, keepdims=True)
    return 3 * honest, (p.cumsum(-1) < generator.random((count, 1))).sum(-1)


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    task = Task(name="tone", text="text", label="tone", labels=["a", "b", "c"], options={"threshold": 0.99})
    drawn = [rows_of(2000, 0), rows_of(4000, 1)]
    found = make_kind(task).calibrate(task, *drawn[0])
    splits = [(logits, SimpleNamespace(targets=targets, readings=None)) for logits, targets in drawn]
    row = _task_row(task.model_copy(update={"fitted": {"calibration": found}}), splits, 0.85)
    assert row is not None
    return {"task": "tone", **row}


def test_the_error_falls_and_no_answer_changes(row: dict[str, Any]):
    assert row["before"]["ece"] > 15 and row["after"]["ece"] < 3
    assert row["changed_labels"] == 0 and (row["rows"], row["validation_rows"]) == (4000, 2000)


def test_precisions_are_those_of_the_test_rows(row: dict[str, Any]):
    one, each = row["per_task"], row["per_label"]
    assert 84 < one["precision"] < 90 and 0 < one["given"] < 2500 and one["reachable"] == 1
    assert 84 < each["label_precision"] < 90 and each["reachable"] == 3 and not each["unreachable"]


def test_what_is_not_reachable_is_named_and_counts_in_no_mean(row: dict[str, Any]):
    missed = row | {"task": "fog", "per_task": {"precision": None, "reachable": 0}}
    missed["per_label"] = {"label_precision": None, "reachable": 0}
    mean = _means([row, missed])
    assert mean["per_task"] == {"precision": row["per_task"]["precision"], "tasks": 1, "unreachable": ["fog"]}
    assert mean["per_label"]["unreachable"] == ["fog"]
    assert mean["ece_after"] == pytest.approx(row["after"]["ece"])


def test_a_kind_without_thresholds_is_none_for_which_they_are_not_reachable(row: dict[str, Any]):
    task = Task(name="names", kind="tagging", text="text", label="tags", labels=["O", "B-X"])
    none = _reached(task, [], {"target_precision": 0.9})
    mean = _means([row, row | {"task": "names", "per_task": none, "per_label": none}])
    assert none["reachable"] is None and mean["per_task"]["unreachable"] == mean["per_label"]["unreachable"] == []


def test_numbers_have_no_line():
    task = Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 0.0, "spread": 1.0})
    assert _task_row(task, [(np.zeros((3, 1)), SimpleNamespace(targets=np.zeros(3), readings=None))] * 2, 0.9) is None


def test_a_target_in_percent_is_refused_before_anything_is_read_or_trained():
    with pytest.raises(ConfigError, match=r"--target is 90, but a precision is above 0 and at most 1"):
        trust_of_suite("nowhere.yaml", target=90.0)


def test_a_suite_is_measured_with_a_model_of_it(model: Path):
    def run(*arguments: Any) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    folder = model.parent
    suite = folder / "with-tests.yaml"
    text = (folder / "tasks.yaml").read_text()
    suite.write_text(
        text.replace("train: topic.csv", "train: topic.csv\n    test: topic.csv")
        .replace("train: tone.csv", "train: tone.csv, test: tone.csv")
        .replace("train: same.csv", "train: same.csv, test: same.csv")
    )
    done = run("bench", "calibration", "--suite", suite, "--model", model, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["task"] for row in found["rows"]] == ["topic", "same"]
    assert found["mean"]["changed_labels"] == 0 and found["rows"][0]["form"] == "none"
    assert found["mean"]["per_task"]["unreachable"] == ["topic", "same"]
    other = folder / "other.yaml"
    other.write_text("tasks: {mood: {train: tone.csv, test: tone.csv, text: text, label: label}}")
    done = run("bench", "calibration", "--suite", other, "--model", model)
    assert done.exit_code == 2 and "has none of the tasks of" in done.stderr and "topic" in done.stderr
    assert "not reachable: topic, same" in run("bench", "calibration", "--suite", suite, "--model", model).stdout
    with pytest.raises(ConfigError, match="test"):
        trust_of_suite(folder / "tasks.yaml", model=model)
