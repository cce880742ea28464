"""The changes to a model folder, as the changing process makes them."""

import shutil
from pathlib import Path

import pytest

import onepass
from onepass.atomic import read_json, verify
from onepass.errors import OnepassError
from onepass.server.archive import pack, unpack
from onepass.server.changer import install, learn, remove
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
