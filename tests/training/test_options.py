"""The `train:` part of a task file."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from onepass.data.samplers.annealed import Annealed
from onepass.errors import ConfigError
from onepass.tasks import TaskFile
from onepass.training.options import TrainOptions, check_train, sampler_of, train_options


def faults_of(**train: Any) -> list[str]:
    return check_train(TaskFile(path=Path("tasks.yaml"), tasks={}, train=train))


def test_the_defaults_have_no_fault():
    assert faults_of() == []
    assert faults_of(**asdict(TrainOptions())) == []


def test_an_unknown_option_is_named_with_the_nearest_one():
    (fault,) = faults_of(epoch=3)
    assert fault.startswith("train: Unknown option 'epoch'. Did you mean 'epochs'? Known: average, batch_size")


def test_all_faults_are_found_at_once():
    faults = faults_of(epoch=3, batch_size=0, warmup="much", select="median", sampler="proportionate")
    assert [fault.split()[0] for fault in faults] == [
        "train:",
        "train.batch_size",
        "train.warmup",
        "train.select",
        "train.sampler:",
    ]
    assert faults[3] == "train.select is 'median'; possible: mean, worst, weighted."
    assert "Did you mean 'proportional'?" in faults[4]


@pytest.mark.parametrize(
    ("key", "value", "possible"),
    [
        ("epochs", 0, "a whole number from 1"),
        ("epochs", 1.5, "a whole number from 1"),
        ("epochs", True, "a whole number from 1"),
        ("epochs", "5", "a whole number from 1"),
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
