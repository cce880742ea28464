"""A task that learned nothing is said, and one that did is not."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onepass.data.items import Reading
from onepass.heads import make_kind
from onepass.tasks import Task
from onepass.training import evaluate, run
from onepass.training.loop import Trainer

STILL = ["head_rate=0", "token_rate=0", "encoder_rate=0"]


@pytest.mark.parametrize(
    ("keys", "known", "targets", "expected"),
    [
        ({"labels": ["a", "b"]}, [0, 1, 1], [1, 1, 0, 1], 75.0),
        ({"labels": ["a", "b"], "metric": "matthews"}, [0, 1, 1], [1, 1, 0, 1], 0.0),
        ({"kind": "regression"}, [1.0, 2.0], [5.0, 7.0, 6.0], 0.0),
        ({"kind": "multilabel", "labels": ["a", "b"], "metric": "micro_f1"}, [[1, 0], [1, 0]], [[1, 1], [0, 0]], 50.0),
    ],
)
def test_the_commonest_answer_by_hand(keys: dict[str, object], known: list, targets: list, expected: float):
    task = Task(name="task", text="text", label="label", **keys)
    found = make_kind(task).baseline(task, np.array(known), np.array(targets))
    assert found == pytest.approx(expected)


def test_the_commonest_answer_of_rows_that_belong_together():
    task = Task(
        name="task", text="text", label="label", labels=["no", "yes"], metric="group_match", options={"group_by": "q"}
    )
    readings = [Reading(group=group) for group in ("a", "a", "b")]
    found = make_kind(task).baseline(task, np.array([0, 0, 1]), np.array([0, 1, 0]), readings)
    assert found == pytest.approx(50.0)  # of two questions one has only answers that are wrong


def test_the_commonest_answer_among_candidates_and_for_words():
    choice = Task(name="task", kind="choice", text="text", label="label", options={"choices": ["one", "two"]})
    known = [np.array([0.0, 1.0]), np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0])]
    targets = [np.array([1.0]), np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    assert make_kind(choice).baseline(choice, known, targets) == pytest.approx(200 / 3)
    tags = Task(name="task", kind="tagging", text="text", label="label", labels=["O", "B-x"], metric="word_accuracy")
    assert make_kind(tags).baseline(tags, [], [np.array([0, 1, 0]), np.array([0])]) == pytest.approx(75.0)


def test_a_task_no_better_than_its_commonest_answer_is_an_alarm(news: Path, caplog: pytest.LogCaptureFixture):
    rows = "\n".join(f"the match {n},{'sport' if n % 5 else 'politics'}" for n in range(50))
    news.with_name("topic-validation.csv").write_text(f"text,topic\n{rows}\n")
    news.with_name("topic.csv").write_text(f"text,topic\n{rows}\n")
    with caplog.at_level(logging.WARNING):
        model = run.train(news, overrides=STILL, progress=False)
    (alarm,) = model.training_record["alarms"]  # the other tasks have two validation rows each
    assert alarm["task"] == "topic" and alarm["baseline"] == 80.0 and alarm["score"] <= 80.0
    assert "no better than the same answer for every text (80.0)" in caplog.text and "class_weights" in caplog.text


def test_what_helps_several_tasks_is_said_once(news: Path, caplog: pytest.LogCaptureFixture):
    text = "text,topic,tone\n" + "\n".join(
        f"the match {n},{'sport' if n % 5 else 'politics'},{'calm' if n % 5 else 'angry'}" for n in range(50)
    )
    for name in ("topic", "topic-validation"):
        news.with_name(f"{name}.csv").write_text(f"{text}\n")
    tasks = "".join(
        f"  {name}: {{train: topic.csv, validation: topic-validation.csv, text: text, label: {name}}}\n"
        for name in ("topic", "tone")
    )
    news.write_text(re.sub(r"(?s)tasks:.*?(?=^\w|\Z)", f"tasks:\n{tasks}", news.read_text(), flags=re.MULTILINE))
    with caplog.at_level(logging.WARNING):
        model = run.train(news, overrides=STILL, progress=False)
    assert len(model.training_record["alarms"]) == 2
    assert caplog.text.count("no better than") == 2 and caplog.text.count("class_weights") == 1


def test_thresholds_count_in_what_is_recorded_and_in_alarms(news: Path):
    """With halves no label is ever given; with thresholds of their own they are."""
    rows = "\n".join(f'{{"text": "the match {n}", "topic": {["[]", "[]", "[1]", "[2]"][n % 4]}}}' for n in range(60))
    news.with_name("topics.jsonl").write_text(rows)
    tasks = "tasks:\n  topics: {kind: multilabel, train: topics.jsonl, validation: 0.5, text: text, label: topic}\n"
    news.write_text(re.sub(r"(?s)tasks:.*?(?=^\w|\Z)", tasks, news.read_text(), flags=re.MULTILINE))
    model = run.train(news, overrides=STILL, progress=False)
    (alarm,) = model.training_record["alarms"]
    assert "for rare labels use threshold: {best: f1}; train longer" in alarm["message"]
    model = run.train(news, overrides=[*STILL, "tasks.topics.threshold={best: f1}"], progress=False)
    recorded = model.records[0]["scores"]
    assert recorded["validation"]["score"] == evaluate(model, split="validation")["average"] > 0
    assert [found["score"] for found in model.training_record["alarms"]] == [recorded["validation"]["score"]]
    assert recorded["without_thresholds"]["score"] == alarm["score"] == 0
    model.set_threshold("topics", None)
    assert model.records[0]["scores"] == {"validation": recorded["without_thresholds"]}


def test_a_task_that_learned_is_no_alarm(news: Path):
    rows = news.with_name("topic.csv").read_text()
    news.with_name("topic-validation.csv").write_text(rows)
    fast = ["head_rate=0.005", "token_rate=0.005", "encoder_rate=0.005", "average=0", "warmup=0", "epochs=12"]
    model = run.train(news, overrides=fast, progress=False)
    assert model.training_record["alarms"] == []


def test_a_task_too_far_under_its_own_model_is_an_alarm(news: Path, tmp_path: Path):
    (tmp_path / "alone.json").write_text('{"topic": 300, "tone": -100, "same": -100}')
    select = f"select={{baseline: {tmp_path / 'alone.json'}, floor: 5}}"
    model = run.train(news, overrides=[select], progress=False)
    (alarm,) = model.training_record["alarms"]
    assert alarm["task"] == "topic" and "under its own model's 300.0, more than the 5 allowed" in alarm["message"]


@pytest.mark.parametrize("more", [[], ["train.finetune={epochs: 1}"]])
def test_a_baseline_that_is_gone_at_the_end_loses_no_training(
    more: list[str], news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def evaluate(self: Trainer, *arguments: Any) -> None:
        evaluated(self, *arguments)
        scores.unlink(missing_ok=True)

    scores = tmp_path / "alone.json"
    scores.write_text('{"topic": 300, "tone": -100, "same": -100}')
    evaluated = Trainer.evaluate
    monkeypatch.setattr(Trainer, "evaluate", evaluate)
    model = run.train(news, tmp_path / "model", overrides=[f"select={{baseline: {scores}}}", *more], progress=False)
    assert [alarm["task"] for alarm in model.training_record["alarms"]] == ["topic"] and not scores.exists()


def test_a_model_folder_is_a_baseline(news: Path, model: Path):
    overrides = [f"train.select.baseline={model}", "train.select.floor=0"]
    again = run.train(news, overrides=overrides, progress=False)
    assert again.training_record["alarms"] == []  # the same training reaches the same scores
    assert again.training_record["options"]["select"] == {"baseline": str(model), "floor": 0, "by": "mean"}
