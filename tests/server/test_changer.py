"""The changes to a model folder, as the changing process makes them."""

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onepass
from onepass.atomic import read_json, verify
from onepass.errors import OnepassError
from onepass.living import change_thresholds
from onepass.server.archive import pack, unpack
from onepass.server.changer import install, learn, main, remove
from onepass.server.folder import revision_of


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


@pytest.fixture
def archived(model: Path, tmp_path: Path) -> Path:
    unpack(pack(model, "topic"), tmp_path / "job" / "archived", 10_000_000)
    return tmp_path / "job" / "archived"


def test_an_archived_task_answers_as_it_did(folder: Path, archived: Path) -> None:
    install(folder, {"name": "subject", "archived": str(archived)})
    answers = onepass.load(folder).predict("late goal", tasks=["topic", "subject"])
    assert answers["topic"].scores == pytest.approx(answers["subject"].scores)


def test_a_task_of_the_same_name_is_replaced_by_a_later_version(folder: Path, archived: Path) -> None:
    install(folder, {"name": "topic", "archived": str(archived)})
    verify(folder)
    assert read_json(folder / "tasks" / "topic" / "task.json")["version"] == 2
    assert set(onepass.load(folder).names) == {"topic", "tone", "same"}


@pytest.mark.parametrize("file", ["weights.safetensors", "task.json"])
def test_a_damaged_task_is_refused_and_nothing_changes(folder: Path, archived: Path, file: str) -> None:
    data = (archived / file).read_bytes()
    (archived / file).write_bytes(data[: len(data) // 2])
    before = revision_of(folder)
    with pytest.raises((OnepassError, KeyError, TypeError, ValueError)):
        install(folder, {"name": "subject", "archived": str(archived)})
    assert revision_of(folder) == before


def test_a_task_gets_other_labels_only_if_that_is_said(folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    keys = {"train": str(rows), "text": "text", "label": "label"}
    with pytest.raises(OnepassError, match=r'over HTTP "labels": \[\]'):
        learn(folder, {"name": "topic", "keys": keys, "options": {}})
    learn(folder, {"name": "topic", "keys": {**keys, "labels": []}, "options": {}})
    assert read_json(folder / "tasks" / "topic" / "task.json")["labels"] == ["x", "y"]


@pytest.mark.parametrize("name", ["goals", "tone"])
def test_the_other_tasks_are_scored_when_the_rows_of_a_taught_one_are_gone(
    folder: Path, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"text": "goal {row}", "label": "{row % 2}"}}\n' for row in range(120)))
    keys = {"train": str(rows), "text": "text", "label": "label", "kind": "classification"}
    learn(folder, {"name": name, "keys": keys, "options": {"epochs": 1}})
    rows.unlink()
    assert read_json(folder / "tasks" / name / "task.json")["train"] is None
    assert set(onepass.evaluate(folder)["tasks"]) == {"topic", "tone", "same"} - {name}
    assert f"{name} is not scored: it names no file of its rows" in caplog.text
    assert name not in change_thresholds(folder, None, {"best": "f1"})[2]


def test_rows_of_one_label_teach_nothing(folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a", "label": "x"}\n')
    before = revision_of(folder)
    with pytest.raises(OnepassError, match="needs at least two labels"):
        learn(folder, {"name": "one", "keys": {"train": str(rows), "text": "text", "label": "label"}, "options": {}})
    assert revision_of(folder) == before


def test_a_task_is_removed(folder: Path) -> None:
    assert "unchanged" in remove(folder, {"name": "tone"})
    assert not (folder / "tasks" / "tone").exists()


def test_what_is_warned_of_is_told_with_the_proof(folder: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    labels = onepass.load(folder).tasks[0].labels
    rows.write_text(
        "".join(json.dumps({"text": f"text {n}", "label": (labels[0], "new")[n % 2]}) + "\n" for n in range(8))
    )
    keys = {"train": str(rows), "text": "text", "label": "label"}
    name = onepass.load(folder).names[0]
    job = {"change": "learn", "name": name, "folder": str(folder), "keys": keys, "options": {"epochs": 1}}
    changer = [sys.executable, "-m", "onepass.server.changer"]
    found = subprocess.run(changer, input=json.dumps(job), capture_output=True, text=True, check=True)
    told = json.loads(found.stdout)
    assert any("new labels" in warning and warning.endswith(": new") for warning in told["warnings"]), told
    assert "unchanged" in told["proof"]


def test_a_refusal_does_not_name_the_folder_of_the_rows(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a", "label": "x"}\n')
    keys = {"train": str(rows), "text": "text", "label": "label"}
    job = {"change": "learn", "folder": str(folder), "name": "x", "keys": keys, "options": {}}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(job)))
    main()
    assert json.loads(capsys.readouterr().out)["error"].startswith("rows.jsonl: Task 'x' needs at least two labels")
