"""onepass demo: its parts, and (slow) the whole of it."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

import onepass.cli.demo as demo_module
from onepass.data.check import check_data
from onepass.data.files import column_names, read_chunks
from onepass.examples import TASK_FILE, TEST_FILE, TEST_TABLE
from onepass.heads import make_kind
from onepass.model import Model
from onepass.tasks import read_task_file


def test_the_example_data_have_no_faults():
    for path, split, least in ((TASK_FILE, "train", 150), (TEST_FILE, "test", 60)):
        file = read_task_file(path, require=())
        report = check_data(file, {name: make_kind(task) for name, task in file.tasks.items()})
        assert report.faults == []
        rows = [counts.rows[split] for counts in report.tasks.values()]
        assert len(rows) == 6 and min(rows) >= least


def test_no_text_is_in_two_places_of_the_example_data():
    texts = [
        text
        for path in TASK_FILE.parent.glob("*.csv")
        for chunk in read_chunks(path, ["text"])
        for text in chunk.columns["text"]
    ]
    texts += demo_module.NEW_TEXTS
    assert len({text.casefold() for text in texts}) == len(texts)
    assert "text" in column_names(TEST_TABLE)


def test_something_else_in_the_output_folder_is_not_replaced(run, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = run("demo", "-o", tmp_path)
    assert result.exit_code == 2 and "no earlier demo" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_ordinary_model_is_not_replaced_but_an_earlier_demo_may_be(run, model, tmp_path):
    copy = tmp_path / "model"
    shutil.copytree(model, copy)
    assert run("demo", "-o", copy).exit_code == 2
    config = json.loads((copy / "config.json").read_text())
    config["training"]["demo"] = True
    (copy / "config.json").write_text(json.dumps(config))
    demo_module.check_place(copy)


def test_one_pass_and_many_are_timed_in_turn(model):
    timing = demo_module.measure(Model.load(model))
    assert timing["tasks"] == 3 and timing["texts"] == 16
    assert timing["one_pass_ms"] > 0 and timing["passes_ms"] > 0


def test_the_commands_shown_name_files_that_exist_or_are_free(tmp_path):
    (tmp_path / "tasks.yaml").write_text("mine")
    predict, init, train = (shlex.split(line, comments=True) for line in demo_module.next_commands(tmp_path / "demo"))
    assert str(tmp_path / "demo") in predict
    assert all(Path(argument).is_file() for argument in init if argument.endswith(".csv"))
    assert init[-1] == train[-3] == str(tmp_path / "tasks-2.yaml")


@pytest.mark.slow
def test_the_demo_answers_all_tasks_in_one_pass(process, tmp_path):
    result = process("demo", "-o", tmp_path / "demo", "--json", env={"OMP_NUM_THREADS": "2"})
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [len(answer["tasks"]) for answer in found["answers"]] == [6] * 5
    assert found["test"]["average"] > 75
    assert process("info", tmp_path / "demo").returncode == 0
