"""The `train:` part of a task file."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from onepass.data.samplers.annealed import Annealed
from onepass.errors import ConfigError
from onepass.tasks import Task, TaskFile
from onepass.training.options import DistillOptions, TrainOptions, check_train, sampler_of, train_options
from onepass.training.presets import PRESETS


def faults_of(**train: Any) -> list[str]:
    return check_train(TaskFile(path=Path("tasks.yaml"), tasks={}, train=train))


def test_the_defaults_have_no_fault():
    assert faults_of() == []
    assert faults_of(**asdict(TrainOptions())) == []


def test_an_unknown_option_is_named_with_the_nearest_one():
    (fault,) = faults_of(epoch=3)
    assert fault.startswith("train: Unknown option 'epoch'. Did you mean 'epochs'? Known: average, batch_size")


def test_all_faults_are_found_at_once():
    faults = faults_of(epoch=3, batch_size=-1, warmup="much", select="median", sampler="proportionate")
    assert [fault.split()[0] for fault in faults] == [
        "train:",
        "train.batch_size",
        "train.warmup",
        "train.select",
        "train.sampler:",
    ]
    assert (
        faults[3] == "train.select is 'median'; possible: mean, worst, weighted, {baseline: ..., floor: ..., by: ...}."
    )
    assert "Did you mean 'proportional'?" in faults[4]


@pytest.mark.parametrize(
    ("key", "value", "possible"),
    [
        ("epochs", -1, "a whole number from 0"),
        ("epochs", 1.5, "a whole number from 0"),
        ("epochs", True, "a whole number from 0"),
        ("epochs", "5", "a whole number from 0"),
        ("teachers", -1, "none, a whole number from 0 to 100"),
        ("teachers", True, "none, a whole number from 0 to 100"),
        ("teachers", 10**9, "none, a whole number from 0 to 100"),
        ("task_teachers", 101, "a whole number from 0 to 100"),
        ("batch_tokens", 0, "a whole number from 1"),
        ("max_length", 7, "a whole number from 8"),
        ("encoder_rate", -1e-5, "a number from 0"),
        ("head_rate", float("nan"), "a number from 0"),
        ("head_rate", float("inf"), "a number from 0"),
        ("warmup", 1.5, "a number from 0 to 1"),
        ("dropout", 1, "a number from 0 to 0.9"),
        ("average", 1.0, "a number from 0 to 0.9999"),
        ("evaluate_every", 0, "a number from 0.01"),
        ("seed", 2**32, "a whole number from 0 to 4294967295"),
        ("patience", None, "a whole number from 0"),
        ("precision", "fp16", "auto, fp32, bf16"),
        ("device", "gpu", "auto, cpu, cuda"),
        ("freeze", ["none"], "none, embeddings"),
    ],
)
def test_wrong_values_are_refused_with_what_is_possible(key: str, value: Any, possible: str):
    assert faults_of(**{key: value}) == [f"train.{key} is {value!r}; possible: {possible}."]


def test_steps_of_one_task_leave_nothing_to_choose_from():
    (fault,) = faults_of(batches="task", sampler="uncertainty")
    assert fault.startswith("train.batches is 'task'") and fault.endswith("Possible: mixed.")
    assert faults_of(batches="task", sampler="annealed") == faults_of(batches="mixed", sampler="uncertainty") == []


def test_whole_numbers_are_numbers():
    assert faults_of(evaluate_every=1, clip=0, warmup=0, average=0) == []


@pytest.mark.parametrize("sampler", [["uniform"], 3, {"name": "uniform", "drop": 1}, {"name": "annealed", "drop": 2}])
def test_a_sampler_that_cannot_be_made_is_a_fault(sampler: Any):
    (fault,) = faults_of(sampler=sampler)
    assert fault.startswith("train.sampler: ")


def test_a_sampler_may_have_options():
    sampler = sampler_of({"name": "annealed", "drop": 0.5})
    assert isinstance(sampler, Annealed)
    assert sampler.drop == 0.5


def test_options_are_made_from_the_values_and_cannot_be_changed():
    options = train_options({"epochs": 2})
    assert options == replace(TrainOptions(), epochs=2)
    with pytest.raises(AttributeError):
        options.epochs = 3  # type: ignore[misc]


def test_an_unknown_sampler_is_refused():
    with pytest.raises(ConfigError, match="Did you mean 'uniform'"):
        sampler_of("unifrom")


# --- presets --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid(name: str):
    assert faults_of(preset=name) == []
    assert train_options({"preset": name}).preset == name


def test_what_is_given_wins_over_the_preset(monkeypatch: pytest.MonkeyPatch):
    taught = {"teachers": "somewhere", "weight": 0.3}
    monkeypatch.setitem(PRESETS, "fast", {"epochs": 3, "rdrop": 1.0, "distill": taught})
    options = train_options({"preset": "fast", "epochs": 5, "distill": {"weight": 0.7}})
    assert (options.epochs, options.rdrop) == (5, 1.0)
    assert options.distill == DistillOptions(teachers="somewhere", weight=0.7)
    assert PRESETS["fast"]["distill"] == taught


def test_an_unknown_preset_is_refused():
    assert faults_of(preset="fats") == [
        "train.preset: Unknown preset 'fats'. Did you mean 'fast'? Known: best, default, fast."
    ]
    assert faults_of(preset=3) == ["train.preset is 3; possible: a text."]


# --- the floor under a task's own model -------------------------------------------------------------------------------


def test_a_baseline_is_read_before_the_training(tmp_path: Path):
    task = {"topic": Task(name="topic", text="text", label="topic")}

    def faults(baseline: Any) -> list[str]:
        train = {"select": {"baseline": baseline, "floor": 0.5}}
        return check_train(TaskFile(path=Path("tasks.yaml"), tasks=task, train=train))

    scores = tmp_path / "scores.json"
    scores.write_text('{"topic": 80, "tone": 70}')
    assert faults(str(scores)) == []
    scores.write_text('{"average": 1, "tasks": {"topic": {"score": 80.5}}}')
    assert faults(str(scores)) == []
    for text, part in (
        ('{"tone": 1}', "has no score of topic; it has tone"),
        ('{"topic": "x"}', "is 'x'"),
        ("[", "cannot be read"),
    ):
        scores.write_text(text)
        (fault,) = faults(str(scores))
        assert fault.startswith("train.select.baseline: ") and part in fault
    assert "cannot be read" in faults(str(tmp_path / "nothing.json"))[0]
    assert faults(str(tmp_path))[0].startswith(f"train.select.baseline: {tmp_path} is no model folder")
    assert faults_of(select={"floor": -1}) == [
        "train.select.floor is -1; possible: a number from 0.",
        "train.select has no baseline. Give it, as in {baseline: ...}.",
    ]


@pytest.mark.parametrize(
    ("rows", "epochs", "batch_size"),
    [(50, 20, 64), (800, 16, 64), (12_136, 8, 64), (52_908, 6, 128), (206_197, 4, 128)],
)
def test_epochs_and_batches_go_by_the_rows_unless_they_are_given(rows: int, epochs: int, batch_size: int):
    options = TrainOptions().sized(rows)
    assert (options.epochs, options.batch_size) == (epochs, batch_size)
    assert TrainOptions(epochs=3, batch_size=7).sized(rows, taught=True) == TrainOptions(epochs=3, batch_size=7)


def test_who_is_taught_and_whom_more_effort_is_asked_of_learns_longer():
    assert [TrainOptions().sized(rows, taught=True).epochs for rows in (50, 12_136, 162_787)] == [30, 12, 6]
    assert TrainOptions(effort=2).sized(12_136).epochs == 16
    assert TrainOptions(effort=0.1).sized(12_136).epochs == 2


def test_own_and_given_teachers_are_not_mixed():
    for own in ("teachers", "task_teachers"):
        (fault, *_) = faults_of(**{own: 2}, distill={"teachers": "runs/single"})
        assert fault.startswith(f"train.distill and train.{own}: ") and fault.endswith("Give one.")


@pytest.mark.parametrize(
    ("train", "fault"),
    [
        ({"distill": {"teachers": None}}, "train.distill.teachers is None; possible: a path, or a list of paths."),
        ({"distill": {"teachers": 5}}, "train.distill.teachers is 5; possible: a path, or a list of paths."),
        ({"epochs": 10**400}, "possible: a whole number from 0."),
        ({"sampler": {"name": ["a"]}}, "train.sampler: Unknown sampler"),
    ],
)
def test_what_is_no_value_at_all_is_refused_too(train: dict[str, Any], fault: str):
    (found,) = faults_of(**train)
    assert fault in found


def test_an_encoder_of_teachers_wants_teachers():
    assert faults_of(teacher_encoder="larger", teachers=0) == [
        "train.teacher_encoder: with train.teachers=0 there are none. Give teachers=1 or more."
    ]
    assert faults_of(teacher_encoder="larger", preset="fast") == [
        "train.teacher_encoder: with train.teachers=0 (of preset 'fast') there are none. Give teachers=1 or more."
    ]
    assert faults_of(teacher_encoder=3) == ["train.teacher_encoder is 3; possible: none, a text."]
    assert not faults_of(teacher_encoder="larger", teachers=0, task_teachers=1) + faults_of(teacher_encoder=None)


def test_the_word_none_is_no_value_where_there_may_be_none():
    assert train_options({"finetune": "none", "teacher_encoder": "none"}) == TrainOptions()
    assert train_options({"teachers": "none"}).teachers == 0  # not as many as the method is best with
    assert faults_of(teachers="none", distill="none") == []
    assert faults_of(epochs="none") == ["train.epochs is 'none'; possible: a whole number from 0."]
