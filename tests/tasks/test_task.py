"""Task: names, labels, JSON."""

import pytest
from pydantic import ValidationError

from onepass.tasks import TASK_KEYS, Task, spelling


def test_no_spelling_leads_out_of_a_folder():
    for name in ("..", ".", "a/b", "../a", "/a", "a\\b", "a\n", "", "A", "-a", "a" * 65, "ä", "a b", "a\0"):
        with pytest.raises(ValidationError):
            Task(name=name, text=("t",), label="l")


@pytest.mark.parametrize("name", ["a", "0", "a.b-c_d", "a" * 64, "a.."])
def test_names_that_are_right(name):
    assert Task(name=name, text=("t",), label="l").name == name


@pytest.mark.parametrize("name", ["Healthy Living", "../../etc/passwd", "", "Größe", "日本", "-", "A" * 100, "\ud800"])
def test_the_suggested_spelling_is_valid(name):
    assert Task(name=spelling(name), text=("t",), label="l")


def test_a_task_survives_json(tmp_path):
    task = Task(name="t", text=("a", "b"), label="l", labels=("x",), train=tmp_path / "f.csv", test="hub:a/b")
    assert Task.model_validate_json(task.model_dump_json()) == task


def test_labels_that_are_numbers_become_text():
    assert Task(name="t", text=("a",), label="l", labels=[0, 1.5, "x"]).labels == ("0", "1.5", "x")


def test_labels_are_spelled_as_the_cells_of_a_file_are_read():
    assert Task(name="t", text=("a",), label="l", labels=[True, False]).labels == ("true", "false")
    assert Task(name="t", text=("a",), label="l", labels=[1.0, 2.0, " no "]).labels == ("1", "2", "no")


def test_what_training_finds_out_is_no_key_of_the_file():
    assert not {"name", "options", "fitted"} & set(TASK_KEYS)
