"""Other thresholds for a trained model: chosen on validation rows or on a file, nothing else changed."""

import json
from pathlib import Path

import pytest
import torch

import onepass
from onepass.errors import ConfigError, DataError, OnepassError
from onepass.model import Model
from onepass.training import train
from onepass.training.evaluation import all_logits, validation_rows
from onepass.training.thresholds import set_thresholds


@pytest.fixture
def loaded(model: Path) -> Model:
    return onepass.load(model)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Labelled texts with the columns of `topic`: as many right as wrong, and twenty of them."""
    lines = [f"late goal {n},{'sport' if n % 2 else 'politics'}" for n in range(20)]
    (tmp_path / "rows.csv").write_text("text,topic\n" + "\n".join(lines) + "\n")
    return tmp_path / "rows.csv"


def test_a_threshold_is_chosen_on_a_file(loaded: Model, rows: Path):
    loaded.set_threshold("topic", {"target_precision": 0.3}, rows)
    record = loaded.records[0]["thresholds"]
    assert record["rule"] == {"target_precision": 0.3} and record["rows"] == 20
    assert record["reached"][""]["precision"] == 0.5
    assert loaded.records[0]["version"] == 2 and loaded.records[1].get("version", 1) == 1
    loaded.set_threshold("topic", {"target_precision": 0.9}, rows)
    assert "not reachable" in loaded.records[0]["thresholds"]["reached"][""]["reason"]
    assert loaded.predict("late goal", tasks=["topic"])["topic"].abstained
    with pytest.raises(ConfigError, match=r"rows\.csv would not be read: .* 0\.5 is none to choose"):
        loaded.set_threshold("topic", 0.5, rows)
    loaded.set_threshold("topic", None)
    assert not loaded.predict("late goal", tasks=["topic"])["topic"].abstained
    assert loaded.records[0]["version"] == 4 and "threshold" not in loaded.tasks[0].options


def test_a_score_goes_with_the_threshold_it_was_reached_with(news: Path, tmp_path: Path):
    rows = [{"text": f"late goal {n}", "moods": ["glad", "calm"] if n % 2 else ["calm"]} for n in range(20)]
    (news.parent / "moods.jsonl").write_text("\n".join(map(json.dumps, rows)))
    keys = "train: moods.jsonl, text: text, label: moods, kind: multilabel, validation: 0.3, threshold: 0.01"
    news.write_text(news.read_text().replace("tasks:\n", f"tasks:\n  moods: {{{keys}}}\n"))
    model = train(news, tmp_path / "model", overrides=["epochs=1"], progress=False)
    (number,) = model.numbers(["moods"])

    def score() -> float:
        return float(model.records[number]["scores"]["validation"]["score"])

    before = score()
    model.set_threshold("moods", 0.99)
    assert before > 0 and score() == 0.0
    model.set_threshold("moods", 0.01)
    assert score() == before
    (news.parent / "moods.jsonl").unlink()
    model.set_threshold("moods", 0.99)
    assert model.records[number]["scores"] == {}


def test_a_label_that_is_moved_by_a_file_moves_the_score_on_validation_too(news: Path, rows: Path):
    model = train(news, overrides=["epochs=1"], progress=False)
    with torch.no_grad():
        model.heads[0].weight.zero_()
        model.heads[0].bias.copy_(torch.tensor([1.0, 0.0]))  # politics for every text
    model.records[0]["scores"] = {"validation": {"metric": "accuracy", "score": -1.0}}
    model.set_threshold("topic", {"label": "sport", "target_recall": 0.9}, rows)
    recorded = model.records[0]["scores"]
    assert recorded["without_thresholds"]["score"] == -1.0
    assert recorded["validation"]["score"] == onepass.evaluate(model, split="validation")["tasks"]["topic"]["score"]


def test_without_a_file_it_is_chosen_on_the_validation_rows(loaded: Model):
    assert set_thresholds(loaded, None, {"best": "f1"}) == [0, 2]  # numbers have no thresholds
    assert [loaded.records[n]["thresholds"]["rows"] for n in (0, 2)] == [2, 2]
    rows = validation_rows(loaded, [0])
    assert len(all_logits(loaded, rows)[0]) == 2


@pytest.mark.parametrize(
    ("names", "value", "message"),
    [
        (["tone"], 0.5, "Task 'tone' can have no threshold: it is of kind regression."),
        (["topic"], {"best": "f1", "label": "sports"}, "Unknown label 'sports'. Did you mean 'sport'?"),
        (["topik"], 0.5, "Did you mean 'topic'?"),
        (["topic"], 1.5, "threshold is 1.5; possible: a number between 0 and 1"),
        (["topic"], {"target_precision": "high"}, "possible: a number above 0, at most 1"),
    ],
)
def test_mistakes_are_explained_and_nothing_changes(loaded: Model, names: list[str], value: object, message: str):
    before = list(loaded.tasks), [dict(record) for record in loaded.records]
    with pytest.raises(ConfigError) as caught:
        set_thresholds(loaded, names, value)
    assert message in str(caught.value)
    assert (list(loaded.tasks), loaded.records) == before


def test_a_file_that_does_not_fit_is_refused_and_nothing_changes(loaded: Model, tmp_path: Path):
    (tmp_path / "strange.csv").write_text("text,topic\nvote,weather\n")
    before = list(loaded.tasks)
    for data, message in (("strange.csv", "'weather'"), ("missing.csv", "missing.csv")):
        with pytest.raises(OnepassError, match=message):
            set_thresholds(loaded, ["topic"], {"best": "f1"}, tmp_path / data)
    assert loaded.tasks == before


def test_a_task_that_learned_from_all_its_rows_needs_a_file(loaded: Model):
    loaded.records[2]["rows"] = {"train": 24, "validation": 0}
    with pytest.raises(DataError, match="'same' has no validation rows"):
        set_thresholds(loaded, ["same"], {"best": "f1"})


def test_of_all_tasks_those_without_rows_to_choose_on_stay_as_they_are(loaded: Model, caplog: pytest.LogCaptureFixture):
    loaded.records[2]["rows"] = {"train": 24, "validation": 0}
    assert set_thresholds(loaded, None, {"best": "f1"}) == [0]
    assert "same stays as it is" in caplog.text and "threshold" not in loaded.tasks[2].options
    assert set_thresholds(loaded, None, 0.6) == [0, 2]
    loaded.records[0]["rows"] = {"train": 24, "validation": 0}
    loaded.tasks[0] = loaded.tasks[0].model_copy(update={"validation": 0.1})
    with pytest.raises(DataError, match="'topic' has no validation rows"):
        set_thresholds(loaded, None, {"best": "f1"})
