"""A training that was killed goes on and ends with the weights of one that was not."""

import resource
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from onepass.atomic import draft_of, locked
from onepass.errors import ConfigError, FolderError
from onepass.folder import size_of
from onepass.model import Model
from onepass.training import checkpoint, run, train
from onepass.training.checkpoint import Checkpoints, checkpoint_folder
from onepass.training.loop import Trainer
from onepass.training.optimizer import make_optimizer

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


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Within the block a larger file cannot be written, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_checkpoint_that_finds_no_room_is_a_warning_and_the_training_goes_on(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = train(news, tmp_path / "whole", overrides=OPTIONS, progress=False)
    left: list[list[str]] = []

    def save(self: Checkpoints, *rest: Any) -> None:
        try:
            saved(self, *rest)
        finally:
            left.append([path.name for path in (tmp_path / "out").iterdir() if "lock" not in path.name])

    saved = Checkpoints.save
    monkeypatch.setattr(Checkpoints, "save", save)
    with files_of_at_most(2 * size_of(whole)):  # a checkpoint is five times as large
        model = train(news, tmp_path / "out" / "model", overrides=OPTIONS, progress=False)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(model)[name]), name
    assert left == [[]] * 6 and [path.name for path in (tmp_path / "out").iterdir()] == ["model"]
    assert "--resume could not go on from here" in caplog.text and "File too large" in caplog.text


def test_a_training_that_fills_the_disk_with_its_checkpoint_ends_with_its_model(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(news, tmp_path / "whole", overrides=OPTIONS, progress=False)
    out, used = tmp_path / "out", shutil.disk_usage(tmp_path)
    room = 3 * size_of(whole)  # enough for the model, which has to fit twice, and not beside a checkpoint

    def left(path: Path) -> Any:
        return used._replace(free=max(0, room - sum(file.stat().st_size for file in out.rglob("*") if file.is_file())))

    monkeypatch.setattr(shutil, "disk_usage", left)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", interrupted(Checkpoints.save))
        with pytest.raises(KeyboardInterrupt):
            train(news, out / "model", overrides=OPTIONS, progress=False)
    assert left(out).free < 2 * size_of(whole)
    resumed = train(news, out / "model", overrides=OPTIONS, resume=True, progress=False)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(resumed)[name]), name
    assert [path.name for path in out.iterdir()] == ["model"]


def test_a_checkpoint_stays_where_the_model_finds_no_room_without_it_either(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(news, tmp_path / "whole", overrides=OPTIONS, progress=False)
    out, used, conclude = tmp_path / "out", shutil.disk_usage(tmp_path), Trainer.conclude
    with monkeypatch.context() as patch:

        def fill_up(self: Trainer) -> None:  # somebody else does, at the end of the training
            conclude(self)
            patch.setattr(shutil, "disk_usage", lambda path: used._replace(free=0))
            patch.setattr("onepass.folder.size_of", lambda model: 2**30)
            patch.setattr(run, "size_of", lambda model: 2**30)

        patch.setattr(Trainer, "conclude", fill_up)
        with pytest.raises(FolderError, match=r"no space for the model: .*\.model\.training holds what is done so far"):
            train(news, out / "model", overrides=OPTIONS, progress=False)
    assert [path.name for path in out.iterdir() if path.is_dir()] == [".model.training"]
    resumed = train(news, out / "model", overrides=OPTIONS, resume=True, progress=False)
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(resumed)[name]), name


def test_a_first_stage_is_not_trained_again_for_a_second_that_is_another(
    news: Path, tmp_path: Path, kill_after: Kill
) -> None:
    options = [*OPTIONS, "train.finetune={epochs: 2}"]
    kill_after(8, news, tmp_path / "model", options)
    assert not (tmp_path / ".model.training").exists()  # nobody goes on from there any more
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / ".model.joint").rglob("*")}
    with pytest.raises(ConfigError, match=r"changed since the training in .*\.model\.joint was cut short"):
        train(news, tmp_path / "model", overrides=[*options, "train.seed=7"], resume=True, progress=False)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / ".model.joint").rglob("*")}


def test_a_checkpoint_that_found_no_room_is_not_tried_again_at_once(
    make_trainer: Callable[..., Trainer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("onepass.training.checkpoint.write_json", full)
    trainer, checkpoints = make_trainer(), Checkpoints(tmp_path / "model", "key", every_s=1000.0)
    state = trainer.new_state(make_optimizer(trainer.model.method, trainer.model.heads, trainer.options), [1])
    checkpoints.tried -= 2000.0
    assert checkpoints.due()
    with pytest.raises(FolderError, match="there is no space left on the disk"):
        checkpoints.save(trainer.model, 0, state, {})
    assert not checkpoints.due() and not list(tmp_path.glob(".model*"))


def test_the_seconds_of_a_resumed_training_are_those_of_both_its_runs(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def step(self: Trainer, *rest: Any) -> bool:
        nonlocal now
        now += 1.0
        return taken(self, *rest)

    taken = Trainer.step
    monkeypatch.setattr(Trainer, "step", step)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    whole = train(news, tmp_path / "whole", overrides=OPTIONS, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", interrupted(Checkpoints.save))
        with pytest.raises(KeyboardInterrupt):
            train(news, tmp_path / "stopped", overrides=OPTIONS, progress=False)
    resumed = train(news, tmp_path / "stopped", overrides=OPTIONS, resume=True, progress=False)
    assert resumed.training_record["seconds"] == whole.training_record["seconds"] > 0


def test_a_checkpoint_of_another_version_is_told_apart(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", interrupted(Checkpoints.save))
        patch.setattr(checkpoint, "FORMAT", 1)
        with pytest.raises(KeyboardInterrupt):
            train(news, tmp_path / "model", overrides=OPTIONS, progress=False)
    with pytest.raises(ConfigError, match="another version of onepass"):
        train(news, tmp_path / "model", overrides=OPTIONS, resume=True, progress=False)


def test_a_training_does_not_go_on_with_another_teacher(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tmp_path / "teacher"
    options = [*OPTIONS, f"train.distill={{teachers: {teacher}}}"]
    train(news, teacher, overrides=["train.epochs=1"], progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", interrupted(Checkpoints.save))
        with pytest.raises(KeyboardInterrupt):
            train(news, tmp_path / "model", overrides=options, progress=False)
    train(news, teacher, overrides=["train.epochs=1", "train.seed=1"], overwrite=True, progress=False)
    with pytest.raises(ConfigError, match="the options, the data or a teacher changed"):
        train(news, tmp_path / "model", overrides=options, resume=True, progress=False)


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
