"""Tasks put into a folder and taken out without torch; the folder is what torch would have made of it."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import onepass
from onepass.atomic import read_json, verify, write_json
from onepass.errors import OnepassError
from onepass.server.archive import pack, unpack
from onepass.server.changer import install
from onepass.server.exchange import PROBES, Elsewhere, exchanged, largest_change, probed
from onepass.server.folder import revision_of


@pytest.fixture
def folder(served: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(served, tmp_path / "model"))


@pytest.fixture
def archived(served: Path, tmp_path: Path) -> Path:
    unpack(pack(served, "topic"), tmp_path / "archived", 10_000_000)
    return tmp_path / "archived"


def change(folder: Path, change: str, name: str, **facts: Any) -> None:
    with exchanged(folder, {"change": change, "name": name, **facts}):
        pass


def test_a_task_comes_in_as_torch_would_bring_it_in(folder: Path, archived: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    for name in ("subject", "topic"):  # a new one, and one in the place of another
        change(folder, "install", name, archived=str(archived))
        install(other, {"name": name, "archived": str(archived)})
    assert verify(folder) == verify(other)
    assert read_json(folder / "tasks" / "topic" / "task.json")["version"] == 2
    answers = onepass.load(folder).predict("late goal", tasks=["topic", "subject"])
    assert answers["topic"].scores == pytest.approx(answers["subject"].scores)


def test_a_task_is_taken_out_and_the_last_one_stays(folder: Path) -> None:
    before = probed(onepass.load(folder, engine=True, threads=1))
    change(folder, "remove", "tone")
    after = probed(onepass.load(folder, engine=True, threads=1))
    assert after.keys() == before.keys() - {"tone"}
    assert len(set(map(len, PROBES))) == 8 and all(len(answers) == 8 for answers in after.values())
    assert max(largest_change(before[name], after[name]) for name in after) <= 1e-5
    verify(folder)
    assert "tone" not in (folder / "README.md").read_text()
    *others, last = after
    for name in others:
        change(folder, "remove", name)
    for name, why in ((last, "last task"), ("nothing", "nothing")):
        with pytest.raises(OnepassError, match=why):
            change(folder, "remove", name)


def test_nothing_changes_if_the_new_folder_does_not_prove_itself(folder: Path, archived: Path) -> None:
    before = revision_of(folder)
    job = {"change": "install", "name": "subject", "archived": str(archived)}
    with contextlib.suppress(OnepassError), exchanged(folder, job) as (draft, files):
        assert revision_of(draft) != before and (draft / "tasks" / "subject").is_dir() and files > 5
        raise OnepassError("it answers nonsense")
    assert revision_of(folder) == before and not (folder / "tasks" / "subject").exists()
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".model")] == []


def test_damaged_tasks_are_refused(folder: Path, archived: Path) -> None:
    before = revision_of(folder)
    known, weights = read_json(archived / "task.json"), load_file(archived / "weights.safetensors")
    for spoilt in ([], {}, {**known, "kind": "nothing"}, {**known, "labels": []}, {**known, "version": "x"}):
        write_json(archived / "task.json", spoilt)
        with pytest.raises(OnepassError):
            change(folder, "install", "subject", archived=str(archived))
    write_json(archived / "task.json", known)
    name = next(iter(weights))
    save_file({**weights, name: np.full_like(weights[name], np.nan)}, archived / "weights.safetensors")
    with pytest.raises(OnepassError, match="not finite"):
        change(folder, "install", "subject", archived=str(archived))
    assert revision_of(folder) == before


SPOILT = {
    "no scores": {"scores": None},
    "scores that are a text": {"scores": "x"},
    "a score that is a text": {"scores": {"validation": {"score": "x", "metric": "accuracy", "rows": 2}}},
    "no rows": {"rows": None},
    "rows that are a list": {"rows": [1]},
    "a version that is a text": {"version": "x"},
    "a version without end": {"version": float("inf")},
    "a label that is no text": {"labels": ["\ud800", "sport"]},
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT.keys())
def test_what_a_damaged_task_says_of_itself_is_refused_by_a_worker_and_by_torch(
    folder: Path, archived: Path, spoilt: dict[str, Any]
) -> None:
    before = revision_of(folder)
    path = archived / "task.json"
    path.write_text(json.dumps(read_json(path) | spoilt).replace("Infinity", "1e999"))
    with pytest.raises(OnepassError, match="This is no task that the model can take"):
        change(folder, "install", "subject", archived=str(archived))
    with pytest.raises(OnepassError, match="This is no task that the model can take"):
        install(folder, {"name": "subject", "archived": str(archived)})
    assert revision_of(folder) == before


def test_weights_of_another_form_are_for_torch_to_judge(folder: Path, archived: Path) -> None:
    weights = load_file(archived / "weights.safetensors")
    first = next(name for name in weights if name.startswith("method."))
    for form in (
        {**weights, "method.more": weights[first]},
        {name: array for name, array in weights.items() if name != first},
        {**weights, "head.bias": np.zeros(7, np.float32)},
    ):
        save_file(form, archived / "weights.safetensors")
        with pytest.raises(Elsewhere):
            change(folder, "install", "subject", archived=str(archived))


def test_answers_that_are_no_numbers_are_no_small_change() -> None:
    one, two = [np.zeros(2)], [np.array([0.0, np.nan])]
    assert not largest_change(one, two) <= 1
    assert largest_change(one, [np.zeros(3)]) == float("inf")
    assert largest_change(one, one) == 0
