"""onepass export, and what uses the engine then."""

import json
import shutil

from onepass.cli.export import gate_parts


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


def test_rows_without_8_bits_are_a_mistake(run, model):
    for arguments in (["tasks.yaml"], ["--calibrate", "texts.csv"], ["tasks.yaml", "--int8", "--calibrate", "t.csv"]):
        assert run("export", model, *arguments).exit_code == 2


def test_what_was_tried_in_vain_is_told_in_words():
    tried = {"computed": "nothing, but all in 16", "failed": {"tone": {}, "topic": {}}}
    gate = {"computed": "all, by row", "tried": [tried], "tasks": {}}
    words = "tried before: nothing, but all in 16 (tone, topic did not pass)"
    assert gate_parts(gate) == ["computed in 8 bits: all, by row", words]
