"""The list of methods, and what is said about options that cannot be."""

from pathlib import Path
from typing import Any

import pytest

import onepass
from onepass.errors import ConfigError
from onepass.methods import METHODS, check_method, option_faults, value_faults
from onepass.tasks import MethodChoice, Task, TaskFile


def test_an_option_of_another_method_names_that_method() -> None:
    (fault,) = option_faults("mtop", {"experts": 4})
    assert "Unknown option 'experts'" in fault
    assert "It is an option of 'mttag'." in fault
    (fault,) = option_faults("mtop", {"expertss": 4})
    assert "It is an option" not in fault


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("camtl", {"frozen_share": 1.5}, "frozen_share is 1.5; possible: from 0 to 1"),
        ("camtl", {"frozen_share": -0.1}, "frozen_share is -0.1"),
        ("mttag", {"experts": 0}, "experts is 0; possible: a whole number from 1"),
        ("mttag", {"experts": -1}, "experts is -1"),
        ("mttag", {"experts": 65}, "experts is 65; possible: a whole number from 1 to 64"),
        ("mttag", {"experts": 2**53}, f"experts is {2**53}; possible: a whole number from 0 to 10000."),
        ("readers", {"tokens": 10**30}, f"tokens is {10**30}; possible: a whole number from 0 to 10000."),
        ("camtl", {"max_length": 2**31}, f"max_length is {2**31}; possible: a whole number from 0 to 10000."),
        ("readers", {"experts": 4}, "It is an option of 'mttag'"),
        ("prefix", {"prefix_length": 0}, "prefix_length is 0"),
        ("mtop", {"prompt_length": 0}, "prompt_length is 0"),
        ("pals", {"size": 7}, "cannot be divided among 6 heads"),
    ],
)
def test_options_that_cannot_be_are_refused_before_training(
    method: str, options: dict[str, Any], said: str, news: Path, tmp_path: Path
) -> None:
    overrides = [f"method.name={method}", *(f"method.{key}={value}" for key, value in options.items())]
    with pytest.raises(ConfigError, match=said):
        onepass.train(news, tmp_path / "model", overrides=overrides, progress=False)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"name": "readers", "depth": 0, "tokens": 0, "rank": 0}, ["depth", "tokens", "rank"]),
        ({"name": "readers", "depth": "deep", "tokens": 0, "rnak": 4}, ["depth", "rnak", "tokens"]),
        ({"name": "camtl", "frozen_share": 2, "max_length": 0}, ["frozen_share", "max_length"]),
        ({"name": "mtop", "prompt_length": 0, "single_rate": 0}, ["prompt_length", "single_rate"]),
        ({"name": "prefix", "prefix_length": 0, "prefix_dropout": 1}, ["prefix_length", "prefix_dropout"]),
        # What is said of good options together with a bad one is not told: they may be good with a good one.
        ({"name": "mtop", "prompts": "singel", "copy_heads": True}, ["prompts"]),
        ({"name": "pals", "heads": "four", "size": 100}, ["heads"]),
    ],
)  # fmt: skip
def test_all_faulty_options_are_told_at_once(choice: dict[str, Any], named: list[str]) -> None:
    method = MethodChoice(name=choice.pop("name"), options=choice)
    faults = check_method(TaskFile(path=Path(), tasks={}, method=method))
    assert len(faults) == len(named)
    for fault, name in zip(faults, named, strict=True):
        assert name in fault


@pytest.mark.parametrize("depth", [3, 49])
def test_a_depth_is_told_against_the_encoder_with_all_other_faults(depth: int, news: Path, tmp_path: Path) -> None:
    overrides = [f"method.depth={depth}", "train.epochs=-1"]
    with pytest.raises(
        ConfigError, match=rf"^2 faults:\n.*depth is {depth}; possible: from 1 to 2, the encoder's layers"
    ):
        onepass.train(news, tmp_path / "model", overrides=overrides, progress=False)


def test_a_depth_is_told_against_an_encoder_in_the_hubs_cache(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "models--some--encoder" / "snapshots" / "0123456789abcdef0123456789abcdef01234567"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes((encoder / "config.json").read_bytes())
    refs = tmp_path / "models--some--encoder" / "refs"
    refs.mkdir()
    (refs / "main").write_text(snapshot.name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    method = MethodChoice(options={"depth": 3})
    (fault,) = check_method(TaskFile(path=Path(), tasks={}, method=method, encoder="some/encoder"))
    assert "from 1 to 2, the encoder's layers" in fault
    assert check_method(TaskFile(path=Path(), tasks={}, method=method, encoder="some/other")) == []
    assert check_method(TaskFile(path=Path(), tasks={}, method=method, encoder="no hub/name/at all")) == []


@pytest.mark.parametrize(
    ("more", "expected"), [({}, 1), ({"teachers": 2}, 1), ({"teachers": 0, "task_teachers": 1}, 0)]
)
def test_a_method_is_told_against_the_encoder_of_its_teachers_too(
    more: dict[str, int], expected: int, encoder: Path
) -> None:
    method, train = MethodChoice(options={"depth": 3, "rank": 0}), {"teacher_encoder": str(encoder), **more}
    own, *others = check_method(TaskFile(path=Path(), tasks={}, method=method, train=train))
    assert "rank is 0" in own and len(others) == expected  # what is wrong around both is told once
    for fault in others:
        assert fault.startswith("train.teacher_encoder: method 'readers': depth is 3; possible: from 1 to 2")


def test_every_methods_own_values_have_no_fault() -> None:
    for name in METHODS:
        assert value_faults(MethodChoice(name=name), 8) == []


@pytest.mark.parametrize(
    ("of", "found"),
    [
        ("mtdnn", "of is mtdnn; possible: {name: METHOD"),
        ({"name": ["a"]}, "of is {'name': ['a']}; possible"),
        ({"name": "mtdnn", "options": 5}, "possible: {name: METHOD"),
        ({"name": "mtdnn", "tasks": "x"}, "possible: {name: METHOD"),
        ({"name": "mtdn"}, "method 'single', of: Unknown method 'mtdn'. Did you mean 'mtdnn'?"),
        ({"name": "mtdnn", "options": {"depht": 1}}, "Unknown option 'depht'"),
    ],
)
def test_what_is_no_other_method_is_refused_before_the_training(of: object, found: str) -> None:
    (fault,) = value_faults(MethodChoice(name="single", options={"of": of}), 8)
    assert found in fault


def test_what_training_would_refuse_is_found_before(encoder: Path) -> None:
    def faults(name: str, **options: Any) -> list[str]:
        method, tasks = MethodChoice(name=name, options=options), {"a": Task(name="a", text="text", label="label")}
        return check_method(TaskFile(path=Path(), tasks=tasks, method=method, encoder=str(encoder)))

    too_long = {"mtop": {"prompt_length": 600}, "ptuning": {"prompt_length": 500}, "camtl": {"max_length": 5}}
    for name, options in too_long.items():
        (fault,) = faults(name, **options)
        assert f"method {name!r}" in fault
    assert faults("readers", noise=float("inf")) == ["method 'readers': noise is inf; possible: a number."]
    assert "possible: a number." in faults("readers", noise=10**400)[0]
    (fault,) = faults("single", of={"name": "readers"})
    assert fault == "method 'single': of is no choice in a task file: train.finetune makes such models."
    assert faults("readers") == faults("single") == faults("camtl") == []
