"""onepass export, and what uses the engine then."""

import json
import shutil


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
