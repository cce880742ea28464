"""The rows of all tasks of a task file."""

import logging
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onepass.data import reading
from onepass.data.examples import Ragged
from onepass.data.files import read_chunks
from onepass.encoder.loading import load_encoder
from onepass.errors import DataError
from onepass.tasks import read_task_file
from onepass.training.sets import fingerprint, path_of, read_sets


@pytest.fixture
def tokenizer(encoder: Path):
    return load_encoder(encoder, max_length=8)[1]


def test_tasks_know_their_labels_and_numbers_their_mean(news: Path, tokenizer):
    topic, tone, same = read_sets(read_task_file(news), tokenizer)
    assert topic.task.labels == ("politics", "sport")
    assert same.task.labels == ("no", "yes")
    assert tone.task.labels == ()
    assert tone.task.fitted["mean"] == pytest.approx(tone.train.targets.mean())
    assert (len(topic.train), len(topic.validation)) == (24, 2)
    assert (len(tone.train), len(tone.validation)) == (22, 2)


def test_the_faults_of_all_files_come_at_once(news: Path, tokenizer):
    (news.parent / "topic.csv").write_text("text,subject\nx,y\n")
    (news.parent / "same.csv").write_text("first,second,same\na,b,yes\nc,d,yes\n")
    with pytest.raises(DataError) as error:
        read_sets(read_task_file(news), tokenizer)
    assert "2 faults" in str(error.value)
    assert "topic.csv" in str(error.value) and "'topic'" in str(error.value)
    assert "same.csv" in str(error.value) and "only 'yes'" in str(error.value)


def test_a_wide_table_is_read_once_for_all_its_tasks(tmp_path: Path, tokenizer, monkeypatch: pytest.MonkeyPatch):
    names = ["calm", "loud", "odd"]
    rows = [
        f"the goal {i}," + ",".join(str(i // 7 % 2) if i % (k + 1) == 0 else "" for k in range(3)) for i in range(60)
    ]
    (tmp_path / "wide.csv").write_text("\n".join([f"text,{','.join(names)}", *rows]))
    tasks = {name: {"train": tmp_path / "wide.csv", "text": "text", "label": name} for name in names}
    tasks["sum"] = tasks["calm"] | {"kind": "regression", "validation": tmp_path / "wide.csv"}
    alone = [read_sets(read_task_file({"tasks": {name: tasks[name]}}), tokenizer)[0] for name in tasks]
    opened = []
    monkeypatch.setattr(reading, "read_chunks", lambda *a, **k: opened.append(a[0]) or read_chunks(*a, **k))
    found = read_sets(read_task_file({"tasks": tasks}), tokenizer)
    assert len(opened) == 3  # for labels, for train, for validation
    for one, other in zip(found, alone, strict=True):
        assert one.task == other.task
        for mine, theirs in ((one.train, other.train), (one.validation, other.validation)):
            assert np.array_equal(mine.ids, theirs.ids) and np.array_equal(mine.rows, theirs.rows)
            assert np.array_equal(mine.targets, theirs.targets)


def test_faults_of_several_tasks_of_a_wide_table_come_at_once(tmp_path: Path, tokenizer):
    (tmp_path / "wide.csv").write_text("text,one,two,three\na,,x,1\nb,,y,2\n")
    keys = {"train": tmp_path / "wide.csv", "text": "text"}
    tasks = {
        "one": keys | {"label": "one"},
        "two": keys | {"label": "two", "kind": "regression"},
        "three": keys | {"label": "three", "labels": ["1"]},
    }
    with pytest.raises(DataError) as error:
        read_sets(read_task_file({"tasks": tasks}), tokenizer)
    assert "task 'two' has 'x' where a number" in str(error.value) and "task 'three' has label '2'" in str(error.value)
    tasks["two"], tasks["three"] = keys | {"label": "two"}, keys | {"label": "three"}
    with pytest.raises(DataError, match="task 'one' has no row to learn from"):
        read_sets(read_task_file({"tasks": tasks}), tokenizer)


def test_a_label_that_only_validation_has_is_refused(news: Path, tokenizer):
    (news.parent / "topic-validation.csv").write_text("text,topic\nlate match,sports\n")
    with pytest.raises(DataError, match=r"'sports'\. Labels: politics, sport"):
        read_sets(read_task_file(news), tokenizer)


def test_labelled_rows_without_a_text_are_left_out_and_said(news: Path, tokenizer, caplog: pytest.LogCaptureFixture):
    with (news.parent / "topic.csv").open("a") as file:
        file.write(" ,sport\n")
    with caplog.at_level(logging.WARNING):
        topic = read_sets(read_task_file(news), tokenizer)[0]
    assert len(topic.train) == 24
    assert "topic: 1 rows of train have a label but no text" in caplog.text


def test_texts_that_are_cut_are_said(news: Path, tokenizer, caplog: pytest.LogCaptureFixture):
    with (news.parent / "topic.csv").open("a") as file:
        file.write("the goal the goal the goal the goal,sport\n")
    with caplog.at_level(logging.INFO):
        read_sets(read_task_file(news), tokenizer)
    assert "topic: 1 of 25 texts of train are cut to 8 tokens" in caplog.text


def test_the_fingerprint_changes_with_texts_and_targets_but_not_with_the_order(news: Path, tokenizer):
    rows = read_sets(read_task_file(news), tokenizer)[1].train
    first = fingerprint(rows)
    assert fingerprint(rows.take(np.arange(len(rows))[::-1])) == first
    assert fingerprint(rows.take(np.arange(len(rows) - 1))) != first
    rows.targets[0] += 1.0
    assert fingerprint(rows) != first


def test_the_fingerprint_tells_labels_and_long_rows_apart(news: Path, tokenizer):
    rows = read_sets(read_task_file(news), tokenizer)[0].train
    found = set()
    for labels in ([1.0, 1.0, 0.0], [0.0, 0.0, 1.0]):  # 1 + 2 is 3
        found.add(fingerprint(replace(rows, targets=np.tile(np.float32(labels), (len(rows), 1)))))
    for middle in (0.0, 1.0):  # numpy shows a long array without its middle
        tags = np.zeros(3000)
        tags[1500] = middle
        targets = np.empty(len(rows), object)
        targets[:] = [Ragged(tags)] * len(rows)
        found.add(fingerprint(replace(rows, targets=targets)))
    assert len(found) == 4


def test_no_rows_have_a_fingerprint_too(news: Path, tokenizer):
    rows = read_sets(read_task_file(news), tokenizer)[0].train
    assert fingerprint(rows.take(np.arange(0))) != fingerprint(rows)


def test_a_file_too_small_for_validation_is_read_and_said(news: Path, tokenizer, caplog: pytest.LogCaptureFixture):
    (news.parent / "topic.csv").write_text("text,topic\nlate goal,sport\nsenate vote,politics\nlate match,sport\n")
    topic = read_sets(read_task_file(news, ["tasks.topic.validation=0.1"]), tokenizer)[0]
    assert (len(topic.train), len(topic.validation)) == (3, 0)
    assert fingerprint(topic.validation) != fingerprint(topic.train)
    assert "topic: none of its 3 rows can be spared for validation: it is not scored" in caplog.text


def test_hub_data_needs_its_extra(news: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setenv("ONEPASS_CACHE", str(tmp_path))
    task = read_task_file(news).tasks["topic"].model_copy(update={"train": "hub:glue/sst2"})
    with pytest.raises(DataError, match=r"onepass\[datasets\]"):
        path_of(task, "train")
