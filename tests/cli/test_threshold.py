"""onepass threshold: what it says, what it changes, what it refuses."""

import json
import shutil
from pathlib import Path

import pytest

from onepass.contents import read_tasks


@pytest.fixture
def own(model: Path, tmp_path: Path) -> Path:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "rows.csv").write_text(
        "text,topic\n" + "".join(f"late goal {n},sport\nsenate vote {n},politics\n" for n in range(20))
    )
    return tmp_path / "model"


def test_a_target_is_chosen_on_a_file_and_written_with_its_proof(run, own):
    data = own.with_name("rows.csv")
    done = run("threshold", own, "topic", "--target-recall", 0.2, "--per-label", "--data", data, "--json")
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["threshold"] == {"target_recall": 0.2, "per": "label"}
    assert said["proof"]["change"] == 0 and said["proof"]["tasks"] == 3
    topic = read_tasks(own)[0]
    assert topic["thresholds"] == said["tasks"]["topic"] and topic["thresholds"]["rows"] == 40
    assert topic["options"]["threshold"] == said["threshold"] and topic["version"] == 2
    assert [task["version"] for task in read_tasks(own)[1:]] == [1, 1]


def test_withheld_answers_are_told_and_carry_versions(run, own):
    assert run("threshold", own, "--at", 0.999).exit_code == 0
    plain = run("predict", own, "late goal", "--tasks", "topic,tone")
    assert "topic  withheld: " in plain.stdout and "under its threshold of 0.999" in plain.stdout
    done = run("predict", own, "late goal", "--tasks", "topic,tone", "--json", "--versions")
    tasks = json.loads(done.stdout)["tasks"]
    assert tasks["topic"]["label"] is None and tasks["topic"]["abstained"] and tasks["topic"]["threshold"] == 0.999
    assert (tasks["topic"]["version"], tasks["tone"]["version"]) == (2, 1)
    assert tasks["topic"]["data"] == read_tasks(own)[0]["data"] != tasks["tone"]["data"]
    assert run("threshold", own, "topic", "--none").exit_code == 0
    tasks = json.loads(run("predict", own, "late goal", "--tasks", "topic", "--json").stdout)["tasks"]
    assert list(tasks["topic"]) == ["label", "score", "scores"]


def test_thresholds_are_taken_from_the_tasks_that_have_some(run, own):
    assert run("threshold", own, "topic", "--at", 0.9).exit_code == 0
    assert "topic: changed." in run("threshold", own, "--none").stderr
    assert [task["version"] for task in read_tasks(own)] == [3, 1, 1]
    again = run("threshold", own, "--none")
    assert (again.exit_code, again.stderr) == (2, "No task of the model has a threshold.\n")


def test_versions_come_with_the_rows_of_a_file_too(run, own):
    own.with_name("texts.csv").write_text("text\n" + "late goal\n" * 40)
    done = run("predict", own, "--input", own.with_name("texts.csv"), "--tasks", "topic", "--json", "--versions")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 40 and all(line["tasks"]["topic"]["version"] == 1 for line in lines)
    refused = run("predict", own, "late goal", "--versions")
    assert refused.exit_code == 2 and "needs --json" in refused.stderr


def test_a_table_shows_what_is_reached_and_what_is_not(run, own, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    done = run("threshold", own, "topic", "--target-precision", 0.95)  # on two validation rows
    assert done.exit_code == 0
    assert "2 answers are too few, 10 are needed" in done.stdout and "proof: " in done.stdout
    assert "warning: topic: a precision of 0.95 cannot be shown" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topic"], "Give one of --target-precision"),
        (["topic", "--at", 0.5, "--none"], "Give one of --target-precision"),
        (["topic", "--at", 0.5, "--label", "sport"], "--label and --per-label are for"),
        (["topic", "--best-f1", "--label", "sport", "--per-label"], "not both"),
        (["topic", "--at", 0.5, "--data", "rows.csv"], "--data is for choosing"),
        (["topic", "--at", 2], "a number between 0 and 1"),
        (["tone", "--best-f1"], "of kind regression"),
        (["topik", "--best-f1"], "Did you mean 'topic'?"),
    ],
)
def test_mistakes_are_explained_and_nothing_changes(run, own, arguments, message):
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    done = run("threshold", own, *arguments)
    assert done.exit_code == 2 and message in done.stderr and "Traceback" not in done.stderr
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


def test_info_and_evaluate_show_thresholds(run, own, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    run("threshold", own, "topic", "--target-precision", 0.9)
    shown = run("info", own).stdout
    assert "target precision 0.9; 2 of 2 labels never given" in shown
    known = json.loads(run("info", own, "--json").stdout)["tasks"]
    assert known[0]["thresholds"] == {"politics": None, "sport": None} and known[0]["version"] == 2
    assert known[0]["calibration"]["reason"] == "2 validation rows are too few, 50 are needed"
    assert "2 answers are too few" in known[0]["reached"][""]["reason"] and known[1]["threshold"] is None
    run("threshold", own, "topic", "same", "--at", 0.5)
    scored = run("evaluate", own)
    assert scored.exit_code == 0 and "calibration error" in scored.stdout and "given" in scored.stdout


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_in_a_file_the_cell_of_a_withheld_label_is_blank_and_its_score_is_there(run, own, ending):
    from onepass.data.files import read_chunks

    texts, output = own.with_name("texts.csv"), own.with_name(f"labelled.{ending}")
    texts.write_text("text\nlate goal\nsenate vote\n")
    run("threshold", own, "topic", "--at", 0.999)
    done = run("predict", own, "--input", texts, "--output", output, "--tasks", "topic")
    assert done.exit_code == 0, done.stderr
    (chunk,) = read_chunks(output)
    assert [label or None for label in chunk.columns["topic"]] == [None, None]
    assert all(0.5 <= float(score) < 0.999 for score in chunk.columns["topic_score"])
