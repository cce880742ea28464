"""Scores by hand, and which rows they are of."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onepass
from onepass.errors import ConfigError, DataError
from onepass.model import Model
from onepass.tasks import Task, read_task_file
from onepass.training.evaluation import all_logits, as_given, average, evaluate, validation_rows
from onepass.training.sets import read_sets


@pytest.fixture
def loaded(model: Path) -> Model:
    return onepass.load(model)


def answer(model: Model, task: int, label: str) -> None:
    """Make a task answer the same for every text."""
    model.heads[task].weight.data.zero_()
    model.heads[task].bias.data.copy_(torch.tensor([float(other == label) for other in model.tasks[task].labels]))


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_scores_by_hand(loaded: Model, tmp_path: Path):
    write(tmp_path / "test.csv", "text,topic\ngoal,sport\nlate goal,sport\nmatch,sport\nvote,politics\n")
    file = write(tmp_path / "eval.yaml", "tasks:\n  topic: {test: test.csv, text: text, label: topic}\n")
    answer(loaded, 0, "sport")
    result = evaluate(loaded, file)
    assert result["average"] == 75.0
    topic = result["tasks"]["topic"]
    assert (topic["metric"], topic["score"], topic["rows"], topic["split"]) == ("accuracy", 75.0, 4, "test")
    # sport: precision 3/4, recall 1, F1 6/7; politics: 0.
    assert topic["macro_f1"] == pytest.approx(100 * 3 / 7)
    assert topic["matthews"] == 0.0


def test_each_row_gets_its_own_logits_whatever_the_batches(loaded: Model, model: Path, monkeypatch: pytest.MonkeyPatch):
    file = read_task_file(model.parent / "tasks.yaml")
    sets = read_sets(file, loaded.tokenizer)
    rows = {number: item.train for number, item in enumerate(sets)}
    together = all_logits(loaded, rows)
    monkeypatch.setattr("onepass.training.evaluation.EVALUATION_ROWS", 3)
    apart = all_logits(loaded, rows)
    for number in rows:
        np.testing.assert_allclose(together[number], apart[number], atol=1e-5)
    words = [line.rpartition(",")[0] for line in (model.parent / "topic.csv").read_text().splitlines()[1:]]
    labels = [predicted["topic"].label for predicted in loaded.predict(words, tasks=["topic"])]
    assert [loaded.tasks[0].labels[i] for i in together[0].argmax(-1)] == labels


def test_a_model_in_training_is_scored_without_dropout_and_goes_on_training(loaded: Model):
    expected = evaluate(loaded)
    loaded.train()
    assert evaluate(loaded) == expected
    assert loaded.training


def test_a_folder_is_scored_like_its_model(loaded: Model, model: Path):
    assert evaluate(model)["tasks"] == evaluate(str(model))["tasks"] == evaluate(loaded)["tasks"]


def test_without_a_test_file_validation_rows_are_scored(loaded: Model):
    result = evaluate(loaded)["tasks"]
    assert {name: (task["split"], task["rows"]) for name, task in result.items()} == {
        "topic": ("validation", 2),
        "tone": ("validation", 2),
        "same": ("validation", 2),
    }
    assert [result[name]["metric"] for name in ("topic", "tone", "same")] == ["accuracy", "spearman", "accuracy"]


def test_a_share_is_the_same_rows_as_in_training(loaded: Model):
    history = loaded.training_record["history"]
    best = [record for record in history if record["best"]][-1]
    found = evaluate(loaded, split="validation")
    assert {name: task["score"] for name, task in found["tasks"].items()} == best["scores"]
    assert found["average"] == best["average"]
    assert [task["rows"] for task in found["tasks"].values()] == [r["rows"]["validation"] for r in loaded.records]


def test_rows_that_are_no_longer_those_of_the_training_are_told(
    loaded: Model, news: Path, caplog: pytest.LogCaptureFixture
):
    evaluate(loaded, news, split="validation")
    assert not caplog.records
    evaluate(loaded, news, split="validation", overrides=["tasks.same.validation=0.4"])
    assert "same: its rows are not those of the training" in caplog.text and "tone" not in caplog.text
    caplog.clear()
    with (news.parent / "tone.csv").open("a") as file:
        file.write("late goal,0.5\nlate vote,-0.5\n")
    evaluate(loaded, news, split="validation")
    assert "tone: its rows are not those of the training" in caplog.text and "same" not in caplog.text


def test_a_metric_named_in_the_file_is_the_score(loaded: Model, tmp_path: Path):
    write(tmp_path / "test.csv", "text,topic\ngoal,sport\nvote,politics\nvote it,politics\nvote is,politics\n")
    text = "tasks:\n  topic: {test: test.csv, text: text, label: topic, metric: macro_f1}\n"
    answer(loaded, 0, "politics")
    topic = evaluate(loaded, write(tmp_path / "eval.yaml", text))["tasks"]["topic"]
    assert topic["metric"] == "macro_f1"
    assert topic["score"] == topic["macro_f1"] == pytest.approx(100 * 3 / 7)
    assert topic["accuracy"] == 75.0


def test_a_metric_over_groups_takes_the_groups_of_the_file(loaded: Model, tmp_path: Path):
    rows = "text,topic,question\ngoal,sport,1\nvote,politics,1\nvote it,politics,2\n"
    write(tmp_path / "test.csv", rows)
    text = "tasks:\n  topic: {test: test.csv, text: text, label: topic, metric: group_match, group_by: question}\n"
    answer(loaded, 0, "politics")
    topic = evaluate(loaded, write(tmp_path / "eval.yaml", text))["tasks"]["topic"]
    assert (topic["metric"], topic["score"]) == ("group_match", 50.0)


def test_a_share_for_validation_holds_whole_groups_when_trained_and_when_scored(
    news: Path, caplog: pytest.LogCaptureFixture
):
    lines = "".join(f"late goal {n},{['sport', 'politics'][n % 2]},q{n // 4}\n" for n in range(80))
    write(news.with_name("asked.csv"), f"text,topic,question\n{lines}")
    keys = "train: asked.csv, text: text, label: topic, metric: group_match, group_by: question"
    write(news, f"{news.read_text().partition('tasks:')[0]}tasks:\n  asked: {{{keys}}}\n")
    model = onepass.train(news, overrides=["epochs=1", "max_length=32"], progress=False)
    (held_back,) = validation_rows(model, [0]).values()
    sizes = Counter(reading.group for reading in held_back.readings or ())
    assert sizes and set(sizes.values()) == {4}
    result = evaluate(model, split="validation")["tasks"]["asked"]
    assert result["score"] == model.records[0]["scores"]["validation"]["score"]
    assert "not those of the training" not in caplog.text


def test_a_metric_or_a_kind_that_the_models_task_does_not_have_is_refused(loaded: Model, tmp_path: Path):
    write(tmp_path / "test.csv", "text,y\ngoal,1\n")
    text = """tasks:
  topic: {kind: regression, test: test.csv, text: text, label: y}
  tone: {test: test.csv, text: text, label: y, metric: macro_f1}
"""
    with pytest.raises(ConfigError) as caught:
        evaluate(loaded, write(tmp_path / "eval.yaml", text))
    assert "Task 'topic' is regression here, but classification in the model" in str(caught.value)
    assert "Task 'tone': Unknown metric of regression tasks 'macro_f1'. Known: pearson, r2, spearman" in str(
        caught.value
    )


def test_options_that_say_how_rows_are_read_come_from_the_file():
    trained = Task(
        name="qa", kind="choice", text="premise", label="right", options={"choices": ["a", "b"], "blank": "_"}
    )
    given = Task(name="qa", kind="choice", text="start", label="answer", test="t.csv", options={"choices": ["c", "d"]})
    found = as_given(trained, given)
    assert found.options == {"choices": ["c", "d"], "blank": "_"}
    assert (found.text, found.label, found.test) == (("start",), "answer", Path("t.csv"))
    sure = Task(name="tone", text="text", label="tone", labels=["a", "b"], options={"threshold": 0.9})
    assert as_given(sure, Task(name="tone", text="t", label="l", options={"threshold": 0.1})).options == sure.options


def test_a_metric_of_the_training_stays_the_score(tmp_path: Path, news: Path):
    trained = onepass.train(news, overrides=["tasks.topic.metric=matthews"], progress=False)
    topic = evaluate(trained)["tasks"]["topic"]
    assert topic["metric"] == "matthews" and topic["score"] == topic["matthews"]


def test_a_file_may_hold_some_of_the_tasks_under_other_column_names(loaded: Model, tmp_path: Path):
    write(tmp_path / "pairs.csv", "a,b,equal\ngoal,late goal,yes\ngoal,bad vote,no\nwhy,why,yes\n")
    text = "tasks:\n  same: {test: pairs.csv, text: [a, b], label: equal}\n"
    answer(loaded, 2, "no")
    result = evaluate(loaded, write(tmp_path / "eval.yaml", text))
    assert list(result["tasks"]) == ["same"]
    assert result["tasks"]["same"]["score"] == pytest.approx(100 / 3)


def test_numbers_are_scored_in_their_own_units(loaded: Model, tmp_path: Path):
    write(tmp_path / "test.csv", "text,tone\ngoal,10\nvote,20\n")
    text = "tasks:\n  tone: {test: test.csv, text: text, label: tone, kind: regression, metric: r2}\n"
    loaded.heads[1].weight.data.zero_()
    fitted = loaded.tasks[1].fitted
    loaded.heads[1].bias.data.fill_((10 - fitted["mean"]) / fitted["spread"])  # answers 10 always
    tone = evaluate(loaded, write(tmp_path / "eval.yaml", text))["tasks"]["tone"]
    assert tone["score"] == pytest.approx(100 * (1 - 100 / 50), rel=1e-4)  # squared errors 0 + 100, spread 2 * 25
    assert tone["spearman"] == 0.0


def test_an_unknown_task_is_named_with_the_nearest(loaded: Model, tmp_path: Path):
    write(tmp_path / "test.csv", "text,topic\ngoal,sport\n")
    text = "tasks:\n  topics: {test: test.csv, text: text, label: topic}\n"
    with pytest.raises(ConfigError, match=r"Unknown task of this model 'topics'. Did you mean 'topic'\?"):
        evaluate(loaded, write(tmp_path / "eval.yaml", text))


def test_a_label_the_model_does_not_know_is_refused_with_file_and_row(loaded: Model, tmp_path: Path):
    write(tmp_path / "test.csv", "text,topic\ngoal,sport\nvote,policy\n")
    text = "tasks:\n  topic: {test: test.csv, text: text, label: topic}\n"
    with pytest.raises(DataError, match=r"test.csv.*row 2.*'policy'. Labels: politics, sport"):
        evaluate(loaded, write(tmp_path / "eval.yaml", text))


def test_the_faults_of_all_files_come_at_once(loaded: Model, tmp_path: Path):
    write(tmp_path / "test.csv", "text,topic\nvote,policy\n")
    write(tmp_path / "tone.csv", "text,tone\nvote,nice\n")
    text = "tasks:\n  topic: {test: test.csv, text: text, label: topic}\n"
    text += "  tone: {test: tone.csv, text: text, label: tone, kind: regression}\n"
    with pytest.raises(DataError, match=r"(?s)2 faults.*'policy'.*'nice'"):
        evaluate(loaded, write(tmp_path / "eval.yaml", text))


def test_a_text_where_the_task_reads_pairs_is_refused(loaded: Model, tmp_path: Path):
    write(tmp_path / "test.csv", "first,second,same\ngoal,goal,yes\n")
    text = "tasks:\n  same: {test: test.csv, text: first, label: same}\n"
    with pytest.raises(DataError, match=r"reads 1 text columns here \(first\).*trained on 2 \(first, second\)"):
        evaluate(loaded, write(tmp_path / "eval.yaml", text))


def test_a_share_without_rows_is_said(loaded: Model, tmp_path: Path):
    write(tmp_path / "few.csv", "text,topic\ngoal,sport\nvote,politics\n")
    text = "tasks:\n  topic: {train: few.csv, text: text, label: topic, validation: 0.1}\n"
    with pytest.raises(DataError, match="has no validation rows"):
        evaluate(loaded, write(tmp_path / "eval.yaml", text))


def test_a_task_without_any_file_is_said(loaded: Model, tmp_path: Path):
    text = "tasks:\n  topic: {text: text, label: topic}\n"
    with pytest.raises(DataError, match="'topic' names no validation file, and no training file"):
        evaluate(loaded, write(tmp_path / "eval.yaml", text))


def test_overrides_that_nothing_reads_are_refused(loaded: Model, news: Path):
    for file in (None, read_task_file(news)):
        with pytest.raises(ConfigError, match="overrides go with the path of a task file"):
            evaluate(loaded, file, overrides=["tasks.topic.metric=macro_f1"])
    with pytest.raises(ConfigError, match="overrides go with the path of a task file"):
        onepass.train(read_task_file(news), overrides=["epochs=2"])


def test_an_unknown_split_is_refused(loaded: Model):
    with pytest.raises(ConfigError, match="Unknown split 'tets'"):
        evaluate(loaded, split="tets")


def test_the_average_is_that_of_the_tasks_scores():
    results: dict[str, dict[str, Any]] = {"a": {"score": 50.0}, "b": {"score": 90.0}, "c": {"score": 70.0}}
    assert average(results) == 70.0
