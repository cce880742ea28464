"""A task is calibrated and gets its thresholds when it is trained, added or trained anew; nothing is made up."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import onepass
from onepass import living
from onepass.calibration import choose_thresholds, set_threshold, unreached
from onepass.model import Model
from onepass.tasks import make_task
from onepass.training.adding import AddOptions

QUICK = AddOptions(epochs=2, least_rows=10)


def write_rows(path: Path, rows: int, wrong: float, seed: int) -> Path:
    """Texts of two labels that their words tell, but for a share that is labelled wrongly."""
    generator = np.random.default_rng(seed)
    words = (("goal", "match", "late"), ("vote", "senate", "why"))
    lines = ["text,topic"]
    for row in range(rows):
        text = " ".join(generator.choice(words[row % 2], 4))
        lines.append(f"{text},{('sport', 'politics')[(row + (generator.random() < wrong)) % 2]}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, encoder: Path) -> Path:
    """A model of three tasks: one with enough validation rows, one with too few, one of numbers."""
    place = tmp_path_factory.mktemp("trust")
    write_rows(place / "train.csv", 200, 0.0, 0)
    write_rows(place / "validation.csv", 120, 0.2, 1)
    write_rows(place / "few.csv", 40, 0.2, 2)
    numbers = "\n".join(f"goal {n},{n}\nvote {n},{-n}" for n in range(20))
    (place / "numbers.csv").write_text(f"text,value\n{numbers}\n")
    (place / "tasks.yaml").write_text(
        f"""
encoder: {encoder}
tasks:
  topic: {{train: train.csv, validation: validation.csv, text: text, label: topic,
           threshold: {{target_precision: 0.7}}}}
  few: {{train: train.csv, validation: few.csv, text: text, label: topic, threshold: {{target_precision: 0.99}}}}
  value: {{kind: regression, train: numbers.csv, text: text, label: value}}
train: {{epochs: 3, batch_size: 8, max_length: 16, encoder_rate: 0.003, head_rate: 0.01}}
"""
    )
    onepass.train(place / "tasks.yaml", place / "model", progress=False)
    return place / "model"


@pytest.fixture
def model(folder: Path) -> Model:
    return onepass.load(folder)


def test_a_trained_task_is_calibrated_on_its_validation_rows(model: Model):
    found = model.tasks[0].fitted["calibration"]
    assert found["rows"] == 120 and found["form"] in ("temperature", "temperatures")
    record = model.records[0]["calibration"]
    # One validation row in five contradicts what was learned, so the raw probabilities promise too much.
    assert record["after"]["ece"] < record["before"]["ece"] and record["after"]["nll"] < record["before"]["nll"]


def test_too_few_rows_and_numbers_are_left_as_they_are_with_the_reason(model: Model):
    few, value = model.tasks[1].fitted["calibration"], model.tasks[2].fitted["calibration"]
    assert few == {"form": "none", "reason": "40 validation rows are too few, 50 are needed"}
    assert value["form"] == "none" and "no probability" in value["reason"]
    before, after = (model.records[1]["calibration"][key] for key in ("before", "after"))
    assert before == after and "calibration" not in model.records[2]


def test_thresholds_are_chosen_honoured_and_kept_with_the_task(model: Model, folder: Path):
    record = model.records[0]["thresholds"]
    assert record["rule"] == {"target_precision": 0.7} and record["reached"][""]["precision"] >= 0.7
    limit = model.tasks[0].fitted["thresholds"]["sport"]
    for answers in model.predict(["goal match", "vote", "is it good ?", "the"], tasks=["topic"]):
        answer = answers["topic"]
        assert answer.threshold == limit and answer.abstained == (answer.score < limit) == (answer.label is None)


def test_a_target_that_is_not_reached_withholds_every_answer_and_says_so(model: Model):
    assert set(model.tasks[1].fitted["thresholds"].values()) == {None}
    assert "not reachable" in model.records[1]["thresholds"]["reached"][""]["reason"]
    answer = model.predict("goal match late", tasks=["few"])["few"]
    assert answer.label is None and "a precision of 0.99 is not reached" in answer.reason
    assert max(answer.scores.values()) == answer.score


def test_evaluation_shows_what_calibration_and_thresholds_do(model: Model):
    result = onepass.evaluate(model)["tasks"]
    assert result["topic"]["calibration"] == model.records[0]["calibration"]
    assert result["topic"]["thresholds"]["precision"] >= 70 and 0 < result["topic"]["thresholds"]["given"] <= 100
    assert result["few"]["thresholds"] == {"given": 0.0}  # of no answer there is no precision
    assert "calibration" not in result["value"] and "thresholds" not in result["value"]
    assert result["few"]["score"] > 60  # as if nothing were withheld


def test_adding_and_updating_settle_the_task_and_no_other(folder: Path, tmp_path: Path):
    onepass.load(folder).save(copy := tmp_path / "model")
    keys: dict[str, Any] = {"text": "text", "label": "topic", "train": str(folder.parent / "train.csv")}
    keys |= {"validation": str(folder.parent / "validation.csv"), "threshold": {"best": "f1", "label": "sport"}}
    before = onepass.load(copy)
    added, _ = living.add_tasks(copy, [make_task("again", keys)], QUICK, progress=False)
    assert added.tasks[3].fitted["calibration"]["rows"] == 120
    assert list(added.tasks[3].fitted["thresholds"]) == ["sport"]
    updated, _ = living.update_task(copy, "again", {"validation": str(folder.parent / "few.csv")}, QUICK, False)
    assert updated.tasks[3].fitted["calibration"]["form"] == "none"
    assert updated.records[3]["thresholds"]["rows"] == 40  # by the same rule, on the new rows
    kept = onepass.load(copy)
    assert kept.tasks[:3] == before.tasks and kept.records[:3] == before.records
    assert kept.tasks[3] == updated.tasks[3] and kept.records[3] == updated.records[3]


def test_without_validation_rows_nothing_is_calibrated(folder: Path, tmp_path: Path):
    onepass.load(folder).save(copy := tmp_path / "model")
    keys = {"text": "text", "label": "topic", "train": str(folder.parent / "few.csv"), "threshold": {"best": "f1"}}
    added, _ = living.add_tasks(copy, [make_task("again", keys)], AddOptions(epochs=1), progress=False)
    assert added.tasks[3].fitted["calibration"] == {"form": "none", "reason": "there are no validation rows"}
    assert "no validation row has it" in added.records[3]["thresholds"]["reached"][""]["reason"]
    assert added.predict("goal", tasks=["again"])["again"].label is not None  # an F1 withholds nothing that is unknown


def test_a_threshold_can_be_changed_and_taken_away(model: Model):
    set_threshold(model, 0, 0.999)
    answer = model.predict("goal match", tasks=["topic"])["topic"]
    assert answer.label is None and answer.threshold == 0.999 and "thresholds" not in model.records[0]
    set_threshold(model, 0, None)
    choose_thresholds(model, 0, np.zeros((0, 2)), SimpleNamespace(targets=np.zeros(0, int)))
    answer = model.predict("goal match", tasks=["topic"])["topic"]
    assert answer.label is not None and answer.threshold is None and "thresholds" not in model.tasks[0].fitted


def test_what_is_not_reached_is_told_shortly():
    missed = {"threshold": None, "reason": "a precision of 0.9 is not reachable on validation: at most 0.5"}
    one = {"rule": {"target_precision": 0.9}, "reached": {"": missed}}
    assert unreached(one) == [f"{missed['reason']}; no answer is given"]
    two = {"rule": {"target_precision": 0.9}, "reached": {"a": missed, "b": {"threshold": 0.5}, "c": missed}}
    assert unreached(two) == [f"a, c: {missed['reason']}; it is never given"]
    many = {"rule": "R", "reached": {f"l{n}": missed | {"reason": f"at most 0.{n}"} for n in range(12)}}
    (message,) = unreached(many)
    assert message.startswith("12 of 12 labels do not reach R: l0, l1") and message.endswith("l9, ...")
