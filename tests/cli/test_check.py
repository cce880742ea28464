"""onepass check and onepass init: before anything is trained."""

import json
import shutil

import pytest


def test_good_data_have_no_faults(run, news):
    result = run("check", news)
    assert result.exit_code == 0, result.stderr
    assert "topic (classification): train 24, validation 2" in result.stdout


def test_warnings_do_not_fail(run, news):
    found = json.loads(run("check", news, "--json").stdout)
    assert found["faults"] == [] and found["warnings"]


def test_faults_exit_with_2_and_are_on_stdout(run, news, tmp_path):
    (tmp_path / "topic-validation.csv").write_text("text,topic\ngoal,sports\n")
    result = run("check", news, "--json")
    assert result.exit_code == 2
    assert [fault["sort"] for fault in json.loads(result.stdout)["faults"]] == ["unknown label"]
    assert "Traceback" not in result.stderr


def test_data_are_checked_without_torch(process, news, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not wanted here')")
    written = tmp_path / "guessed.yaml"
    for arguments in (["init", tmp_path / "topic.csv", "-o", written], ["check", written]):
        result = process(*arguments, first=tmp_path)
        assert result.returncode == 0, result.stderr
    assert "topic (classification): train 24" in result.stdout


def test_method_and_training_are_checked_too(run, news):
    result = run("check", news, "method=mtpo", "train.epoch=1")
    assert result.exit_code == 2
    assert "Did you mean 'mtop'" in result.stderr and "Did you mean 'epochs'" in result.stderr


def test_the_encoder_is_checked_too(run, news, encoder):
    assert "encoder: There is no folder /nowhere" in run("check", news, "encoder=/nowhere").stderr
    result = run("check", news, "max_length=512")
    assert result.exit_code == 2 and "has positions for 64 tokens. Give train.max_length=64" in result.stderr
    plain = news.with_name("plain.yaml")
    task = "{train: topic.csv, text: text, label: topic}"
    plain.write_text(f"encoder: {encoder / 'config.json'}\ntasks: {{a: {task}}}")
    assert "config.json is a file. An encoder is a folder" in run("check", plain).stderr


@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json"])
def test_an_encoder_without_one_of_its_files_is_a_fault(run, news, encoder, tmp_path, missing):
    shutil.copytree(encoder, tmp_path / "other")
    (tmp_path / "other" / missing).unlink()
    result = run("check", news, f"encoder={tmp_path / 'other'}")
    assert result.exit_code == 2 and f"encoder: There is no {missing} in" in result.stderr


def test_init_writes_a_task_file_that_trains(run, news, tmp_path, encoder):
    (tmp_path / "files").mkdir()
    written = tmp_path / "files" / "guessed.yaml"
    result = run("init", tmp_path / "topic.csv", tmp_path / "tone.csv", "-o", written)
    assert result.exit_code == 0, result.stderr
    checked = run("check", written)
    assert checked.exit_code == 0, checked.output
    trained = run("train", written, "-o", tmp_path / "out", "-q", f"encoder={encoder}", "epochs=1", "max_length=32")
    assert trained.exit_code == 0, trained.stderr


def test_init_tells_of_files_in_which_it_found_no_task(run, news, tmp_path):
    (tmp_path / "prices.csv").write_text("id,price\n1,5\n2,7\n")
    result = run("init", tmp_path / "topic.csv", tmp_path / "prices.csv", "-o", tmp_path / "new.yaml")
    assert result.exit_code == 0
    assert "warning: prices.csv: no text or no label was found. Columns: id, price." in result.stderr


def test_init_does_not_write_over_a_task_file(run, news, tmp_path):
    before = news.read_text()
    result = run("init", tmp_path / "topic.csv", "-o", news)
    assert result.exit_code == 2 and "exists already" in result.stderr
    assert news.read_text() == before


def test_init_can_write_to_stdout(run, news, tmp_path):
    result = run("init", tmp_path / "topic.csv", "-o", "-")
    assert result.exit_code == 0, result.stderr
    assert "tasks:" in result.stdout


def test_init_tells_what_is_wrong_with_a_file(run, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    result = run("init", tmp_path / "empty.csv", "-o", tmp_path / "tasks.yaml")
    assert result.exit_code == 2 and "empty" in result.stderr
    assert not (tmp_path / "tasks.yaml").exists()


def test_the_encoder_of_teachers_is_looked_at_too(run, news):
    result = run("check", news, "teacher_encoder=./nowhere")
    assert result.exit_code == 2 and "train.teacher_encoder: " in result.stderr and "nowhere" in result.stderr


def test_a_model_is_no_task_file(run, model):
    result = run("check", model)
    assert result.exit_code == 2 and "is a trained model. Give the task file that it was trained from." in result.stderr
