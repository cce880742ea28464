"""A training that was killed goes on and ends with the weights of one that was not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from onepass.atomic import draft_of, locked
from onepass.errors import ConfigError, FolderError
from onepass.model import Model
from onepass.training import train
from onepass.training.checkpoint import Checkpoints, checkpoint_folder

Kill = Callable[..., None]
OPTIONS = ["train.epochs=3", "train.batch_size=8", "train.evaluate_every=0.5", "train.checkpoint_every_s=0"]


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def interrupted(save: Callable[..., None]) -> Callable[..., None]:
    def then_stop(self: Checkpoints, *rest: Any) -> None:
        save(self, *rest)
        raise KeyboardInterrupt

    return then_stop


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def test_a_killed_training_ends_with_the_same_weights(news: Path, tmp_path: Path, kill_after: Kill) -> None:
    whole = train(news, tmp_path / "whole", overrides=OPTIONS, progress=False)
    kill_after(4, news, tmp_path / "killed", OPTIONS)
    assert_goes_on_to(whole, news, tmp_path / "killed")


def test_an_interrupted_training_ends_with_the_same_weights(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(news, tmp_path / "whole", overrides=OPTIONS, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", interrupted(Checkpoints.save))
        with pytest.raises(KeyboardInterrupt):
            train(news, tmp_path / "stopped", overrides=OPTIONS, progress=False)
    assert_goes_on_to(whole, news, tmp_path / "stopped")


def assert_goes_on_to(whole: Model, news: Path, output: Path) -> None:
    resumed = train(news, output, overrides=OPTIONS, resume=True, progress=False)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(resumed)[name]), name
    assert [entry["scores"] for entry in resumed.training_record["history"]] == [
        entry["scores"] for entry in whole.training_record["history"]
    ]


def test_a_method_with_stages_goes_on_in_its_stage(news: Path, tmp_path: Path, kill_after: Kill) -> None:
    options = [*OPTIONS, "method=single"]
    whole = train(news, tmp_path / "whole", overrides=options, progress=False)
    kill_after(8, news, tmp_path / "killed", options)  # six evaluations a task: in the second task
    resumed = train(news, tmp_path / "killed", overrides=options, resume=True, progress=False)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(resumed)[name]), name


def test_nothing_is_left_of_the_checkpoints_when_the_model_is_saved(news: Path, tmp_path: Path) -> None:
    train(news, tmp_path / "out" / "model", overrides=OPTIONS, progress=False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]


def test_a_checkpoint_that_was_half_written_is_cleared_away(news: Path, tmp_path: Path) -> None:
    left = draft_of(checkpoint_folder(tmp_path / "out" / "model"))
    left.mkdir(parents=True)
    train(news, tmp_path / "out" / "model", overrides=OPTIONS, progress=False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]


def test_resuming_without_a_checkpoint_starts_from_the_beginning_and_says_so(
    news: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "onepass"):
        model = train(news, tmp_path / "model", overrides=OPTIONS, resume=True, progress=False)
    assert model.training_record["history"][0]["epoch"] < 1
    assert "beginning anew: there is no" in caplog.text


def test_a_training_in_whose_place_another_begins_is_told_of(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Checkpoints, "save", interrupted(Checkpoints.save))
    for _ in range(2):
        assert "was cut short" not in caplog.text
        with pytest.raises(KeyboardInterrupt):
            train(news, tmp_path / "model", overrides=OPTIONS, progress=False)
    assert ".model.training holds a training that was cut short" in caplog.text and "--resume" in caplog.text


def test_a_second_training_to_the_same_output_is_refused_before_it_begins(news: Path, tmp_path: Path) -> None:
    with locked(tmp_path / "model.training"), pytest.raises(FolderError, match="Another process is training to"):
        train(news, tmp_path / "model", progress=False)
    train(news, tmp_path / "model", overrides=["epochs=1"], progress=False)


def test_other_options_or_data_are_not_mixed_into_a_training(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoints, "save", interrupted(Checkpoints.save))
    with pytest.raises(KeyboardInterrupt):
        train(news, tmp_path / "model", overrides=OPTIONS, progress=False)
    with pytest.raises(ConfigError, match="changed since"):
        train(news, tmp_path / "model", overrides=[*OPTIONS, "train.seed=7"], resume=True, progress=False)
    topics = news.with_name("topic.csv")
    header, *rows = topics.read_text().splitlines(keepends=True)
    for changed in ([*rows, "one more late goal,sport\n"], rows[::-1]):
        topics.write_text("".join([header, *changed]))
        with pytest.raises(ConfigError, match="changed since"):
            train(news, tmp_path / "model", overrides=OPTIONS, resume=True, progress=False)
