"""onepass evaluate and onepass info: what is known about a model."""

import json
import shutil

import onepass
from onepass.atomic import write_manifest


def test_scores_come_as_one_json_object(run, model):
    result = run("evaluate", model, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert list(found["tasks"]) == ["topic", "tone", "same"]
    topic = found["tasks"]["topic"]
    assert (topic["metric"], topic["rows"], topic["split"]) == ("accuracy", 2, "validation")
    assert 0 <= topic["score"] <= 100


def test_another_task_file_gives_other_rows(run, model, tmp_path):
    (tmp_path / "test.csv").write_text("text,gold\ngoal,sport\nmatch,sport\nvote,politics\n")
    (tmp_path / "test.yaml").write_text("tasks: {topic: {test: test.csv, text: text, label: gold}}")
    found = json.loads(run("evaluate", model, tmp_path / "test.yaml", "--json").stdout)
    assert {name: (task["rows"], task["split"]) for name, task in found["tasks"].items()} == {"topic": (3, "test")}


def test_data_that_are_gone_can_be_named_anew(run, news, tmp_path):
    assert run("train", news, "-o", tmp_path / "model", "-q").exit_code == 0
    news.with_name("topic-validation.csv").unlink()
    result = run("evaluate", tmp_path / "model")
    assert result.exit_code == 2 and "name them in a task file: onepass evaluate MODEL TASKS.YAML" in result.stderr


def test_without_json_there_is_a_table(run, model):
    result = run("evaluate", model)
    assert "topic" in result.stdout and "accuracy" in result.stdout and "average" in result.stdout


def test_an_unknown_split_is_told(run, model):
    result = run("evaluate", model, "--split", "tests")
    assert result.exit_code == 2 and "Did you mean 'test'?" in result.stderr


def test_it_computes_where_it_is_told_and_says_where_it_could(run, model):
    assert run("evaluate", model, "--device", "cpu").exit_code == 0
    result = run("evaluate", model, "--device", "cuda:99")
    assert result.exit_code == 2 and "cannot be used. Possible: auto, cpu" in result.stderr


def test_info_shows_tasks_method_and_passes(run, model):
    result = run("info", model, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["method"]["name"] == "readers"
    assert found["passes_per_text"] == 1
    assert [task["name"] for task in found["tasks"]] == ["topic", "tone", "same"]
    topic = found["tasks"][0]
    assert (topic["kind"], topic["labels"]) == ("classification", ["politics", "sport"])
    assert topic["rows"] == {"train": 24, "validation": 2}
    assert topic["validation"]["metric"] == "accuracy"
    assert topic["parameters"] > 0


def test_info_needs_no_torch(process, model, tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    result = process("info", model, "--json", first=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["passes_per_text"] == 1


def test_info_tells_the_alarms_of_the_training_for_tasks_that_are_as_it_left_them(run, model, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    names = ("topic", "tone", "same")
    alarms = [{"task": name, "message": f"{name}: 50.0 is bad. Do this; or that."} for name in names]
    config["training"]["alarms"] = alarms
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder)
    shown = run("info", folder).stdout.splitlines()
    told = [line for line in shown if line.startswith(("alarm", "advice"))]
    assert told == [*(f"alarm    {name}: 50.0 is bad." for name in names), "advice   Do this; or that."]
    assert run("remove", folder, "same").exit_code == 0
    assert run("update", folder, "topic", "epochs=1", "-q").exit_code == 0
    assert json.loads(run("info", folder, "--json").stdout)["alarms"] == alarms[1:2]
    for new in ("mood", "topic2"):  # named twice, and another is given its old name: the alarm goes with the task
        assert run("rename", folder, "tone" if new == "mood" else "mood", new).exit_code == 0
    assert run("rename", folder, "topic", "tone").exit_code == 0
    (alarm,) = json.loads(run("info", folder, "--json").stdout)["alarms"]
    assert alarm == {"task": "topic2", "message": "topic2: 50.0 is bad. Do this; or that."}
    onepass.load(folder).save(folder, overwrite=True)
    assert run("copy", model, "same", folder).exit_code == 0  # it was trained elsewhere: nothing was said of this one
    assert json.loads(run("info", folder, "--json").stdout)["alarms"] == [alarm]


def test_info_of_a_folder_that_does_not_say_its_passes(run, model, tmp_path):
    shutil.copytree(model, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config.pop("one_pass") is True
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert json.loads(run("info", tmp_path / "model", "--json").stdout)["passes_per_text"] == 1
    config["method"] = {"name": "camtl", "options": {}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert json.loads(run("info", tmp_path / "model", "--json").stdout)["passes_per_text"] == 3


def test_info_can_be_read(run, model):
    result = run("info", model)
    assert result.exit_code == 0, result.stderr
    assert "bert, 2 layers, 16 wide" in result.stdout and "1 for all 3 tasks" in result.stdout


def test_info_breaks_no_word_in_eighty_columns(run, model, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("info", model).stdout
    assert [word for word in ("classification", "validation", "calibration", "politics") if word not in shown] == []
    assert "threshold" not in shown and "version" not in shown  # no task has one, all have the first


def test_info_about_something_else_is_a_clear_error(run, tmp_path):
    result = run("info", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no model folder" in result.stderr
