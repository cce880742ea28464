"""Opening a model folder while its files are checked."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import onepass
from onepass import living
from onepass.atomic import write_manifest
from onepass.engine import engine
from onepass.engine.engine import Engine
from onepass.engine.opening import Opening
from onepass.engine.runtime import Program
from onepass.errors import FolderError
from onepass.tasks import Task


def test_the_graph_is_compiled_before_what_reads_tasks_is_imported():
    code = (
        "import sys, onepass.engine.opening\n"
        "late = {'pydantic', 'yaml', 'torch', 'onepass.tasks', 'onepass.heads', 'tokenizers'}\n"
        "sys.exit(', '.join(sorted(late & set(sys.modules))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stderr.strip() == ""


def test_an_opening_becomes_an_engine(folder: Path):
    opened, plain = Engine(Opening(folder, 1)), Engine(folder, 1)
    assert opened.predict("the late goal wins") == plain.predict("the late goal wins")
    assert opened.recipe == plain.recipe


def test_a_changed_file_is_said_before_what_came_of_it(folder: Path, tmp_path: Path):
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    weights = damaged / "encoder.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(FolderError, match=r"encoder\.safetensors was changed"):
        Engine(Opening(damaged))


@pytest.mark.parametrize("moment", ["find_folder", "verify", "tasks"])
def test_a_folder_that_is_changed_while_it_is_opened_is_read_as_it_is_then(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Tasks are numbered: with one of them gone, another's weights would answer."""
    path, fewer = (Path(shutil.copytree(folder, tmp_path / name)) for name in ("model", "fewer"))
    living.remove_task(fewer, "topic")
    right = Engine(fewer, 1).predict("the late goal wins")
    where = {"find_folder": (Engine, "_open"), "verify": (engine, "read_config"), "tasks": (engine, "task_of")}[moment]
    real = getattr(*where)

    def change(*given: Any) -> Any:
        if fewer.exists():
            shutil.move(path, tmp_path / "before")
            shutil.move(fewer, path)
        return real(*given)

    monkeypatch.setattr(*where, change)
    assert Engine(Opening(path, 1)).predict("the late goal wins") == right


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the graphs that are compiled."""
    made: list[int] = []
    compiled = Program.__init__

    def count(self: Program, *given: Any) -> None:
        made.append(1)
        compiled(self, *given)

    monkeypatch.setattr(Program, "__init__", count)
    return made


def test_an_engine_is_opened_again_for_other_tasks_without_a_new_graph(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = Path(shutil.copytree(folder, tmp_path / "changed"))
    before = Engine(changed, 1)
    texts = ["the late goal wins", "a vote"]
    known = before.predict(texts)
    living.remove_task(changed, "tone")
    living.rename_task(changed, "spam", "junk")
    fresh = Engine(changed, 1).predict(texts)
    made = counted(monkeypatch)
    after = before.reopened()
    assert after.predict(texts) == fresh and set(fresh[0]) == set(known[0]) - {"tone", "spam"} | {"junk"}
    assert before.predict(texts) == known  # what serves is as it was
    assert after.reopened().predict(texts) == fresh
    assert not made


def test_an_engine_of_another_encoder_is_opened_whole(make_folder: Any, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(make_folder(), tmp_path / "changed"))
    before = Engine(changed, 1)
    shutil.rmtree(changed)
    shutil.copytree(make_folder("roberta"), changed)
    assert before.reopened().predict("a vote") == Engine(changed, 1).predict("a vote")


def test_graphs_that_depend_on_the_number_of_tasks_are_made_for_each(make_folder: Any, tmp_path: Path) -> None:
    """Many readers read keys and values, few the text's states."""
    tasks = [Task(name=f"t{number}", text="text", label="t", labels=["a", "b"]) for number in range(5)]
    changed = Path(shutil.copytree(make_folder(tasks=tasks, tokens=1), tmp_path / "changed"))
    many = Engine(changed, 1)
    living.remove_task(changed, "t4")
    few = many.reopened()
    assert many._core.runner.form != few._core.runner.form
    assert few.predict("a vote") == Engine(changed, 1).predict("a vote")


def test_a_damaged_task_is_said_and_the_engine_before_goes_on(folder: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(folder, tmp_path / "changed"))
    engine = Engine(changed, 1)
    known = engine.predict("a vote")
    weights = changed / "tasks" / "spam" / "weights.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-4] + b"\xff\xff\xff\xff")
    with pytest.raises(FolderError, match="was changed"):
        engine.reopened()
    write_manifest(changed)
    with pytest.raises(FolderError, match="not finite"):
        engine.reopened()
    assert engine.predict("a vote") == known


@pytest.mark.parametrize("name", ["head.weight", "head.bias", "method.tokens", "method.pooler.weight"])
def test_weights_of_another_shape_are_said_before_anything_is_asked(name: str, folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    weights = sorted(other.glob("tasks/*/weights.safetensors"))[-1]
    tensors = load_file(weights)
    tensors[name] = np.zeros([size + 1 for size in tensors[name].shape], np.float32)
    save_file(tensors, weights)
    write_manifest(other)
    for of_engine in (True, False):
        with pytest.raises(
            FolderError, match=f"{weights} does not hold the weights of this task: {name} is .*expected"
        ):
            onepass.load(other, engine=of_engine)


def test_files_that_are_overwritten_change_nothing_for_an_engine_that_runs(folder: Path, tmp_path: Path) -> None:
    changed = Path(shutil.copytree(folder, tmp_path / "changed"))
    engine = Engine(changed, 1)
    known = engine.predict("a vote")
    for weights in changed.rglob("*.safetensors"):
        data = bytearray(weights.read_bytes())
        data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
        weights.write_bytes(data)  # into the same file, as cp does
    assert engine.predict("a vote") == known
