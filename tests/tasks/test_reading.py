"""The task file: what is read of it, overrides, faults."""

import os
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from onepass.errors import ConfigError
from onepass.tasks import Task, read_task_file

TOPIC = "{train: topic.csv, text: headline, label: topic}"


@pytest.fixture
def write(tmp_path):
    """Writes a task file next to topic.csv and a folder."""
    (tmp_path / "topic.csv").write_text("headline,topic\na,b\n")
    (tmp_path / "folder").mkdir()

    def write(content):
        path = tmp_path / "tasks.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def faults(path, *overrides, **arguments):
    with pytest.raises(ConfigError) as caught:
        read_task_file(path, overrides, **arguments)
    return str(caught.value)


def read(path, *overrides):
    return read_task_file(path, overrides)


class TestAFileThatIsRight:
    def test_defaults_are_filled_in(self, write, tmp_path):
        file = read(write(f"tasks: {{topic: {TOPIC}}}"))
        assert (file.encoder, file.method.name, file.method.options, file.train) == ("embedded", "readers", {}, {})
        task = file.tasks["topic"]
        assert (task.name, task.kind, task.text, task.label) == ("topic", "classification", ("headline",), "topic")
        assert (task.labels, task.metric, task.validation, task.test, task.weight) == ((), None, 0.1, None, 1.0)
        assert task.train == tmp_path / "topic.csv"

    def test_every_key_is_read(self, write, tmp_path):
        path = write(
            """
            encoder: folder
            method: {name: mtop, depth: 2}
            tasks:
              b:
                kind: multilabel
                train: topic.csv
                validation: topic.csv
                test: hub:glue/sst2
                text: [premise, hypothesis]
                label: 3
                labels: [yes, no, 0, 1.50, true]
                metric: macro_f1
                weight: 2
                threshold: 0.5
              a: {train: ./topic.csv, text: t, label: l, validation: 0.25}
            train: {epochs: 5, learning_rate: 2e-5}
            """
        )
        file = read(path)
        assert file.encoder == str(tmp_path / "folder")
        assert (file.method.name, file.method.options) == ("mtop", {"depth": 2})
        assert list(file.tasks) == ["b", "a"]
        assert file.tasks["b"] == Task(
            name="b",
            kind="multilabel",
            train=tmp_path / "topic.csv",
            validation=tmp_path / "topic.csv",
            test="hub:glue/sst2",
            text=("premise", "hypothesis"),
            label="3",
            labels=("yes", "no", "0", "1.50", "true"),
            metric="macro_f1",
            weight=2.0,
            options={"threshold": 0.5},
        )
        assert file.tasks["a"].validation == 0.25
        assert file.train == {"epochs": 5, "learning_rate": 2e-5}

    def test_a_key_without_a_value_counts_as_not_written(self, write):
        file = read(write(f"encoder:\nmethod:\ntrain:\ntasks:\n  topic: {TOPIC[:-1]}, metric: , labels: ~}}"))
        assert (file.encoder, file.method.name, file.tasks["topic"].metric) == ("embedded", "readers", None)

    @pytest.mark.parametrize("encoder", ["embedded", "bert-base-uncased", "org/name@main"])
    def test_an_encoder_that_is_no_folder_keeps_its_name(self, write, tmp_path, encoder):
        (tmp_path / "embedded").mkdir()
        assert read(write(f"encoder: {encoder}\ntasks: {{topic: {TOPIC}}}")).encoder == encoder

    def test_a_byte_order_mark_is_no_part_of_the_first_key(self, write):
        assert list(read(write(b"\xef\xbb\xbf" + f"tasks: {{topic: {TOPIC}}}".encode())).tasks) == ["topic"]

    def test_one_task_can_take_the_keys_of_another(self, write):
        file = read(write(f"tasks:\n  a: &a {TOPIC}\n  b: {{<<: *a, label: tone}}"))
        assert (file.tasks["b"].label, file.tasks["b"].text) == ("tone", ("headline",))

    def test_train_is_not_asked_for_when_only_test_is_required(self, write):
        path = write("tasks: {topic: {test: topic.csv, text: headline, label: topic}}")
        assert read_task_file(path, require=("test",)).tasks["topic"].train is None
        assert "task 'topic' has no train." in faults(path)


class TestOverrides:
    PATH = f"method: readers\ntasks: {{topic: {TOPIC}, a.b: {TOPIC}}}\ntrain: {{epochs: 5, seed: 1}}"

    @pytest.fixture
    def path(self, write):
        return write(self.PATH)

    def test_training_options_with_and_without_their_prefix(self, path):
        assert read(path, "train.epochs=1", "learning_rate=2e-5").train == {
            "epochs": 1,
            "seed": 1,
            "learning_rate": 2e-5,
        }

    def test_a_part_of_a_training_option_needs_no_prefix_either(self, path):
        assert read(path, "finetune.epochs=2").train["finetune"] == {"epochs": 2}
        assert read(path, "sampler=annealed", "sampler.drop=0.5").train["sampler"] == {"name": "annealed", "drop": 0.5}

    def test_the_method_and_its_options(self, path):
        method = read(path, "method.depth=1").method
        assert (method.name, method.options) == ("readers", {"depth": 1})
        assert read(path, "method=mtop").method.name == "mtop"
        assert read(path, "method={name: mtop, tokens: 2}", "method.depth=1").method.options == {
            "tokens": 2,
            "depth": 1,
        }

    def test_a_key_of_one_task_even_if_its_name_has_dots(self, path):
        file = read(path, "tasks.a.b.metric=macro_f1", "tasks.topic.labels=[yes, 1.50]", "tasks.topic.margin=2")
        assert (file.tasks["a.b"].metric, file.tasks["topic"].metric) == ("macro_f1", None)
        assert file.tasks["topic"].labels == ("yes", "1.50")
        assert file.tasks["topic"].options == {"margin": 2}

    def test_a_key_inside_of_a_key_of_one_task(self, path):
        file = read(path, "tasks.topic.threshold.target_precision=0.9", "tasks.a.b.threshold.per=label")
        named = read(path, "tasks.topic.threshold.label=1.0").tasks["topic"].options["threshold"]
        assert named == {"label": "1.0"}  # a label is as it is written
        assert file.tasks["topic"].options == {"threshold": {"target_precision": 0.9}}
        assert file.tasks["a.b"].options == {"threshold": {"per": "label"}}

    def test_paths_start_at_the_working_folder(self, path, tmp_path, monkeypatch):
        here = tmp_path / "here"
        here.mkdir()
        (here / "other.csv").write_text("x")
        monkeypatch.chdir(here)
        file = read(path, "tasks.topic.train=other.csv", "encoder=../folder")
        assert file.tasks["topic"].train == here / "other.csv"
        assert file.encoder == str(here / "../folder")
        assert read(path, "encoder=name").encoder == "name"

    def test_one_task_is_changed_when_two_share_their_keys(self, write):
        file = read(write(f"tasks: {{a: &a {TOPIC}, b: *a}}"), "tasks.b.label=tone")
        assert (file.tasks["a"].label, file.tasks["b"].label) == ("topic", "tone")

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ("epochs", "override 'epochs': write it as key=value"),
            ("=1", "write it as key=value"),
            ("train.=1", "write it as key=value"),
            ("encodr=x", "Unknown key 'encodr'. Did you mean 'encoder'?"),
            ("tran.epochs=1", "Unknown key 'tran'. Did you mean 'train'?"),
            ("tasks.topik.metric=x", "Unknown task 'topik'. Did you mean 'topic'? Known: a.b, topic."),
            ("tasks.topic=x", "write it as tasks.NAME.KEY=value"),
            ("tasks=x", "write it as tasks.NAME.KEY=value"),
            ("train.epochs=[1", "override 'train.epochs=[1': not valid YAML"),
            ("train=5", "override 'train=5': train is 5."),
            ("encoder.x=5", "encoder is a mapping"),
            ("tasks.topic.weight=heavy", "override 'tasks.topic.weight=heavy': task 'topic': weight is 'heavy'."),
            ("tasks.topic.train=none.csv", "there is no file"),
        ],
    )
    def test_what_an_override_can_be_is_said(self, path, override, message):
        assert message in faults(path, override)


class TestFaults:
    @pytest.mark.parametrize(
        ("keys", "message"),
        [
            ("{train: topic.csv, label: x}", "task 't' has no text. Needed: a column, or a list of two."),
            ("{train: topic.csv, text: x, lable: y}", "task 't' has no label. Did you mean it by 'lable'?"),
            ("{text: x, label: y}", "task 't' has no train. Needed: a data file, or hub:NAME."),
            ("{train: topic.csv, text: [a, b, c], label: x}", "task 't': text is a list of 3. Possible: a column"),
            ("{train: topic.csv, text: [], label: x}", "task 't': text is empty."),
            ("{train: topic.csv, text: [a, a], label: x}", "task 't': text holds 'a' twice."),
            ("{train: topic.csv, text: {a: b}, label: x}", "task 't': text is a mapping."),
            ("{train: topic.csv, text: [[a], [b]], label: x}", "task 't': text is a list of 2."),
            ("{train: topic.csv, text: a, label: a}", "task 't' reads column 'a' both as text and as label."),
            ("{train: topic.csv, text: a, label: ''}", "task 't': label is empty."),
            ("{train: topic.csv, text: a, label: [b]}", "task 't': label is a list of 1."),
            (
                "{train: topic.csv, text: a, label: b, labels: 'yes, no'}",
                "task 't': labels is 'yes, no'. Possible: a list",
            ),
            ("{train: topic.csv, text: a, label: b, labels: [x, x]}", "task 't': labels holds 'x' twice."),
            ("{train: topic.csv, text: a, label: b, labels: [x, ' ']}", "task 't': labels holds an empty name."),
            (
                "{train: topic.csv, text: a, label: b, validation: 1}",
                "task 't': validation is 1. Possible: a data file",
            ),
            ("{train: topic.csv, text: a, label: b, validation: 0.0}", "task 't': validation is 0.0."),
            ("{train: topic.csv, text: a, label: b, validation: .nan}", "task 't': validation is nan."),
            ("{train: topic.csv, text: a, label: b, validation: true}", "task 't': validation is True."),
            ("{train: topic.csv, text: a, label: b, validation: [v]}", "task 't': validation is a list of 1."),
            ("{train: 0.5, text: a, label: b}", "task 't': train is 0.5. Possible: a data file"),
            ("{train: '', text: a, label: b}", "task 't': train is empty."),
            ("{train: topic.csv, text: a, label: b, weight: 0}", "task 't': weight is 0. Possible: a number above 0."),
            ("{train: topic.csv, text: a, label: b, weight: .inf}", "task 't': weight is inf."),
            ("{train: topic.csv, text: a, label: b, weight: '2'}", "task 't': weight is '2'."),
            ("{train: topic.csv, text: a, label: b, kind: [c]}", "task 't': kind is a list of 1."),
            ("{train: topik.csv, text: a, label: b}", "topik.csv'. Did you mean 'topic.csv'?"),
            ("{train: folder, text: a, label: b}", "folder' is a folder. Give a data file."),
            ("{train: none/topic.csv, text: a, label: b}", "There is no folder"),
            (f"{{train: {'x' * 5000}, text: a, label: b}}", "cannot be read: File name too long."),
            ('{train: "a\\0b", text: a, label: b}', "there is no file"),
            ("just text", "task 't' is 'just text'. Needed: a mapping with train, text and label."),
            ("", "task 't' is empty."),
        ],
    )
    def test_a_fault_names_task_and_key_and_what_is_possible(self, write, keys, message):
        path = write(f"tasks:\n  t: {keys}")
        assert message in faults(path)
        assert faults(path).startswith(f"{path}, line 2: ")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "is empty. A task file is a mapping"),
            ("# nothing", "is empty."),
            ("- a\n- b", "is a list of 2."),
            ("text,label\na,b", "is 'text,label a,b'."),
            ("tasks: [", "not valid YAML"),
            (b"tasks: \xff", "line 1: byte 0xff is not UTF-8."),
            (b"encoder: x\ntasks: \xe9", "line 2: byte 0xe9 is not UTF-8."),
            ("{}", "tasks is empty."),
            ("tasks:", "tasks is empty."),
            ("tasks: {}", "tasks is empty."),
            ("tasks: [a]", "tasks is a list of 1. Needed: a mapping from each task's name to its keys."),
            (f"task: {{t: {TOPIC}}}", "Unknown key 'task'. Did you mean 'tasks'?"),
            (f"tasks: {{t: {TOPIC}}}\nencoder: 5", "line 2: encoder is 5. Possible: embedded, a hub name, a folder."),
            (f"tasks: {{t: {TOPIC}}}\nencoder: ' '", "encoder is ' '."),
            (f"tasks: {{t: {TOPIC}}}\nmethod: [a]", "line 2: method is a list of 1."),
            (f"tasks: {{t: {TOPIC}}}\nmethod: {{name: 3}}", "method is a mapping."),
            (f"tasks: {{t: {TOPIC}}}\ntrain: 5", "line 2: train is 5."),
            (f"tasks:\n  t: {TOPIC}\n  t: {TOPIC}", "line 3: tasks has 't' twice, in line 2 and here."),
            (f"tasks:\n  t: {TOPIC[:-1]}, label: x}}", "tasks.t has 'label' twice"),
            (f"tasks:\n  Healthy Living: {TOPIC}", "'Healthy Living' is no task name. Did you mean 'healthy_living'?"),
        ],
    )
    def test_a_fault_of_the_file_says_where_it_is(self, write, content, message):
        path = write(content)
        assert message in faults(path)
        assert str(path) in faults(path)

    def test_all_faults_come_at_once(self, write):
        bad = "  Bad Name: {text: a, label: b}\n  t: {train: none.csv, text: a, label: b, weight: 0}\n  u:\n"
        path = write(f"encodr: x\ntasks:\n{bad}")
        message = faults(path, "tasks.v.metric=x", checks=[lambda file: ["what a layer above knows"]])
        for part in (
            "8 faults",
            "'encodr'",
            "no task name",
            "has no train",
            "none.csv",
            "weight is 0",
            "'u' is",
            "'v'",
        ):
            assert part in message
        assert "what a layer above knows" in message

    def test_checks_see_the_valid_part(self, write):
        seen = []
        path = write(f"method: mtop\ntasks:\n  good: {TOPIC}\n  bad: {{text: a}}\n")
        faults(path, checks=[lambda file: seen.append(file) or []])
        assert (seen[0].method.name, list(seen[0].tasks)) == ("mtop", ["good"])

    def test_a_file_that_is_not_there(self, write, tmp_path):
        write("tasks:")
        assert "Did you mean 'tasks.yaml'?" in faults(tmp_path / "task.yaml")
        assert "is a folder" in faults(tmp_path)
        assert "There is no folder" in faults(tmp_path / "none" / "tasks.yaml")
        os.mkfifo(tmp_path / "pipe.yaml")
        assert "pipe.yaml is no file that can be read more than once" in faults(tmp_path / "pipe.yaml")
        os.mkfifo(tmp_path / "pipe.csv")
        task = write("tasks: {a: {train: pipe.csv, text: a, label: b}}")
        assert "pipe.csv' is no file that can be read more than once" in faults(task)

    def test_a_data_file_given_by_mistake_is_not_parsed(self, write):
        assert "is no task file but data" in faults(write("a,b\n" * 3_000_000))

    def test_a_data_file_given_by_mistake_gets_the_command_that_makes_a_task_file(self, tmp_path):
        (tmp_path / "tone.csv").write_text("text,label\n")
        assert faults(tmp_path / "tone.csv").endswith(
            f"Write a task file for it with: onepass init {tmp_path}/tone.csv"
        )


def test_a_mapping_is_read_like_a_file_with_paths_from_the_working_folder(write, tmp_path, monkeypatch):
    write("")
    monkeypatch.chdir(tmp_path)
    keys = {"train": "topic.csv", "text": "headline", "label": "topic"}
    given = {"encoder": tmp_path / "folder", "tasks": {"topic": keys, 7: keys}, "train": {"epochs": 3}}
    file = read_task_file(given, ["train.epochs=1", "tasks.topic.metric=macro_f1"])
    assert file.tasks["topic"].train == tmp_path / "topic.csv" and file.tasks["topic"].metric == "macro_f1"
    assert (file.encoder, file.train, list(file.tasks)) == (str(tmp_path / "folder"), {"epochs": 1}, ["topic", "7"])
    assert given["train"] == {"epochs": 3} and "metric" not in keys
    assert faults({"tasks": {"a": {"train": "topic.csv", "label": "topic"}}}).startswith("The task file: task 'a' has")


def test_values_from_python_are_read_as_a_file_would_have_them(write, tmp_path, monkeypatch):
    write("")
    monkeypatch.chdir(tmp_path)
    keys = MappingProxyType({"train": Path("topic.csv"), "text": ("headline",), "label": "topic"})
    teachers = {"distill": {"teachers": [Path("model")]}, "select": {"baseline": Path("single")}}
    given = {"tasks": {7: keys}, "train": teachers | {"teacher_encoder": tmp_path / "large"}}
    file = read_task_file(given, ["tasks.7.metric=macro_f1"])
    assert file.tasks["7"].train == tmp_path / "topic.csv" and file.tasks["7"].metric == "macro_f1"
    assert file.train == {
        "distill": {"teachers": [str(tmp_path / "model")]},
        "select": {"baseline": str(tmp_path / "single")},
        "teacher_encoder": str(tmp_path / "large"),
    }
    assert faults(given, "tasks.8.metric=macro_f1").endswith("Unknown task '8'. Known: 7.")


def test_one_override_may_be_given_by_itself(write):
    assert read_task_file(write(f"tasks:\n  topic: {TOPIC}"), "epochs=2").train == {"epochs": 2}


def test_a_table_in_place_of_a_file_is_named_as_one():
    table = np.zeros((2, 2))
    assert "train is a ndarray." in faults({"tasks": {"a": {"train": table, "text": "text", "label": "label"}}})
