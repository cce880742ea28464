"""onepass export, and what uses the engine then."""

import json
import shutil
from pathlib import Path

from onepass.atomic import write_manifest
from onepass.cli.export import gate_parts
from onepass.engine import gate


def test_an_exported_folder_is_answered_by_the_engine_alike_and_without_torch(run, process, model, tmp_path):
    own = tmp_path / "model"
    shutil.copytree(model, own)
    before = json.loads(run("predict", own, "the late goal wins", "--json").stdout)
    done = run("export", own)
    assert done.exit_code == 0, done.stderr
    assert "has an engine for its 3 tasks, in fp32" in done.stdout
    without_torch = tmp_path / "none" / "torch"
    without_torch.mkdir(parents=True)
    (without_torch / "__init__.py").write_text("raise ImportError('torch is not wanted here')")
    after = process("predict", own, "the late goal wins", "--json", first=without_torch.parent)
    assert after.returncode == 0, after.stderr
    answers = json.loads(after.stdout)["tasks"]
    assert answers.keys() == before["tasks"].keys()
    assert answers["topic"]["label"] == before["tasks"]["topic"]["label"]
    assert abs(answers["topic"]["score"] - before["tasks"]["topic"]["score"]) < 1e-4


def test_the_result_is_there_for_programs(run, model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    found = json.loads(run("export", tmp_path / "model", "--json").stdout)
    assert found["precision"] == "fp32" and found["tasks"] == 3 and found["difference"] < 1e-4


def test_a_folder_that_is_no_model_is_refused(run, tmp_path):
    done = run("export", tmp_path)
    assert done.exit_code == 2 and "no model folder" in done.stderr


def test_8_bits_are_judged_on_the_validation_rows_of_the_training(run, model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    done = run("export", tmp_path / "model", "--int8")
    assert done.exit_code == 0, done.stderr
    assert "computed in 8 bits:" in done.stdout
    found = json.loads((tmp_path / "model" / "engine" / "gate.json").read_text())
    judged = found["tasks"] or found["tried"][0]["failed"]
    assert all(task["metric"] and task["before"] is not None for task in judged.values())
    shown = json.loads(run("info", tmp_path / "model", "--json").stdout)["engine"]
    assert shown["precision"] == found["precision"] and shown["gate"] == found
    assert run("info", tmp_path / "model").stdout.count(f"engine   {found['precision']}") == 1


def test_a_task_without_rows_is_judged_on_the_texts_of_another_by_what_changes(run, model, tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "MOST_CHANGED", 100.0)
    monkeypatch.setattr(gate, "MOST_LOST", 100.0)
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    _forget_rows(folder, "topic")
    done = run("export", folder, "--int8")
    assert done.exit_code == 0, done.stderr
    told = " ".join(done.stderr.split())
    assert "topic has no validation rows: it names no file" in told and "It is judged on the texts of tone" in told
    judged = json.loads((folder / "engine" / "gate.json").read_text())["tasks"]
    assert judged["topic"]["rows"] == judged["tone"]["rows"] > 0 and judged["topic"]["metric"] is None
    assert judged["tone"]["metric"] == "spearman"

    _forget_rows(folder, "same")  # the only one on pairs
    done = run("export", folder, "--int8")
    assert (
        done.exit_code == 2
        and "Task 'same' has no validation rows" in done.stderr
        and "Task 'topic'" not in done.stderr
    )
    (tmp_path / "pairs.csv").write_text("first,second,same\n" + "goal,late goal,yes\ngoal,bad vote,no\n" * 60)
    file = tmp_path / "pairs.yaml"
    file.write_text("tasks: {same: {validation: pairs.csv, text: [first, second], label: same}}")
    done = run("export", folder, file, "--int8")  # the others keep the rows of their training
    assert done.exit_code == 0, done.stderr
    judged = json.loads((folder / "engine" / "gate.json").read_text())["tasks"]
    assert judged["same"]["rows"] == 120 and judged["tone"]["rows"] < 10


def _forget_rows(folder: Path, name: str) -> None:
    """As if a server had taught the task, which keeps none of the rows it is sent."""
    path = folder / "tasks" / name / "task.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"train": None, "validation": 0.1}))
    write_manifest(folder)


def test_rows_without_8_bits_are_a_mistake(run, model):
    for arguments in (["tasks.yaml"], ["--calibrate", "texts.csv"], ["tasks.yaml", "--int8", "--calibrate", "t.csv"]):
        assert run("export", model, *arguments).exit_code == 2


def test_what_was_tried_in_vain_is_told_in_words():
    tried = {"computed": "nothing, but all in 16", "failed": {"tone": {}, "topic": {}}}
    found = {"computed": "all, by row", "tried": [tried], "tasks": {}}
    words = "tried before: nothing, but all in 16 (tone, topic did not pass)"
    assert gate_parts(found) == ["computed in 8 bits: all, by row", words]
