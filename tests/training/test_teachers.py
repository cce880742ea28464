"""Teachers that a training trains for itself."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from onepass.errors import ConfigError, EncoderError
from onepass.tasks import read_task_file
from onepass.training import run
from onepass.training.options import TrainOptions, train_options
from onepass.training.teachers import teacher_files, teachers_folder, teachers_wanted


@pytest.fixture(scope="module")
def larger(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of another width, whose words have other numbers."""
    import transformers

    folder = tmp_path_factory.mktemp("larger")
    torch.manual_seed(0)  # or it would depend on which tests ran before
    config = transformers.BertConfig.from_pretrained(encoder, hidden_size=24)
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer = json.loads((encoder / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    first, last = "late", "senate"
    vocab[first], vocab[last] = vocab[last], vocab[first]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


FAST = ("head_rate=0.005", "token_rate=0.005", "encoder_rate=0.005", "average=0", "warmup=0", "clip=0")


@pytest.mark.parametrize(
    ("options", "num_tasks", "device", "wanted"),
    [
        ({}, 2, "cuda", 3),
        ({}, 2, "cpu", 0),
        ({}, 1, "cuda", 0),
        ({"teachers": 2}, 1, "cpu", 2),
        ({"teachers": 0}, 2, "cuda", 0),
        ({"teacher_encoder": "larger"}, 1, "cpu", 3),
    ],
)
def test_a_method_is_trained_with_its_teachers_on_a_gpu(
    options: dict[str, Any], num_tasks: int, device: str, wanted: int
):
    assert teachers_wanted(TrainOptions(**options), 3, num_tasks, device) == wanted


def test_the_teachers_are_trained_learned_from_and_removed(news: Path, tmp_path: Path):
    output = tmp_path / "model"
    model = run.train(news, output, overrides=[*FAST, "epochs=12", "teachers=2"], progress=False)
    found = model.predict(["late goal wins", "senate vote"], tasks=["topic"])
    assert [answer["topic"].label for answer in found] == ["sport", "politics"]
    assert sorted(path.name for path in tmp_path.iterdir() if "model" in path.name) == ["model"]
    alone = run.train(news, overrides=[*FAST, "epochs=12", "teachers=0"], progress=False)
    assert alone.predict("why senate")["topic"].score != model.predict("why senate")["topic"].score


def test_models_of_each_task_are_teachers_too_and_who_is_taught_learns_longer(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trained: list[tuple[str, float, int, int]] = []

    class Noted(run.Trainer):
        def run(self, resume: bool = False) -> None:
            super().run(resume)
            options = self.options
            trained.append((self.model.choice.name, options.encoder_rate, options.epochs, options.seed))

    monkeypatch.setattr(run, "Trainer", Noted)
    overrides = [*FAST, "epochs=0", "effort=0.1", "teachers=1", "task_teachers=1", "sampler=uncertainty"]
    model = run.train(news, tmp_path / "model", overrides=overrides, progress=False)
    assert trained == [("readers", 0.005, 2, 1000), ("single", 5e-5, 2, 2000), ("readers", 0.005, 3, 0)]
    assert model.training_record["options"]["task_teachers"] == 1
    assert not teachers_folder(tmp_path / "model").exists()


def test_a_model_per_task_keeps_smaller_rates_and_is_trained_for_tasks_that_learn_from_it(news: Path):
    overrides = ["train.encoder_rate=1e-5", "train.head_rate=1", "train.task_teachers=1", "tasks.topic.windows=2"]
    file = read_task_file(news, overrides)
    _, (alone,) = teacher_files(file, train_options(file.train), 0)
    assert (alone.train["encoder_rate"], alone.train["head_rate"]) == (1e-5, 5e-4)
    assert list(alone.tasks) == ["tone", "same"]
    file = read_task_file(news, ["train.task_teachers=1"])
    _, (alone,) = teacher_files(file, train_options(file.train), 0)
    assert (alone.train["encoder_rate"], alone.train["head_rate"]) == (5e-5, 5e-4)
    assert list(alone.tasks) == ["topic", "tone", "same"]


def test_tasks_that_learn_from_labels_alone_have_no_model_of_their_own_as_teacher(news: Path, tmp_path: Path):
    overrides = [*FAST, "epochs=1", "teachers=0", "task_teachers=1", "tasks.topic.windows=2"]
    model = run.train(news, tmp_path / "model", overrides=overrides, progress=False)
    assert model.names == ["topic", "tone", "same"]


def test_the_seconds_of_the_teachers_count(news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    now, ended = 0.0, [0.0]

    class Slow(run.Trainer):
        def run(self, resume: bool = False) -> None:
            nonlocal now
            if len(ended) == 3 and not resume:
                raise KeyboardInterrupt
            super().run(resume)
            ended.append(now)

        def step(self, *arguments: Any) -> bool:
            nonlocal now
            now += 1.0
            return super().step(*arguments)

    monkeypatch.setattr(run, "Trainer", Slow)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    overrides = [*FAST, "epochs=2", "teachers=1", "task_teachers=1"]
    with pytest.raises(KeyboardInterrupt):
        run.train(news, tmp_path / "model", overrides=overrides, progress=False)
    model = run.train(news, tmp_path / "model", overrides=overrides, progress=False, resume=True)
    assert len(ended) == 4 and model.training_record["seconds"] == now == ended[-1]


def test_teachers_may_have_another_encoder(
    news: Path, tmp_path: Path, larger: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    trained: list[tuple[str, int, float, float]] = []

    class Noted(run.Trainer):
        def run(self, resume: bool = False) -> None:
            super().run(resume)
            width, chosen = self.model.method.encoder.config.width, self.options
            trained.append((self.model.choice.name, width, chosen.encoder_rate, chosen.effort))

    monkeypatch.setattr(run, "Trainer", Noted)
    overrides = [*FAST, "epochs=12", "teachers=1", "task_teachers=1", f"teacher_encoder={larger}"]
    model = run.train(news, tmp_path / "model", overrides=overrides, progress=False)
    assert trained == [("readers", 24, 5e-5, 0.5), ("single", 24, 5e-5, 0.5), ("readers", 16, 0.005, 1)]
    found = model.predict(["late goal wins", "senate vote"], tasks=["topic"])
    assert [answer["topic"].label for answer in found] == ["sport", "politics"]
    assert "trained without teachers" not in caplog.text


def test_an_encoder_of_teachers_is_found_beside_the_task_file_and_missed_before_anything_is_trained(
    news: Path, tmp_path: Path, larger: Path
):
    (news.parent / "larger").symlink_to(larger)
    assert read_task_file(news, ["train={teacher_encoder: no/such}"]).train["teacher_encoder"] == "no/such"
    news.write_text(news.read_text().replace("train: {", "train: {teacher_encoder: larger, "))
    assert read_task_file(news).train["teacher_encoder"] == str(news.parent / "larger")
    assert read_task_file(news, ["train.teachers=three"]).train["teachers"] == "three"  # no folder of this name
    with pytest.raises(EncoderError, match="gone"):
        run.train(news, tmp_path / "model", overrides=["train.teacher_encoder=./gone"], progress=False)
    assert not (tmp_path / "model").exists()


def test_tasks_of_kinds_that_learn_from_labels_alone_are_trained_without_teachers(
    news: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    for key in ("tone", "same"):
        news.write_text("\n".join(line for line in news.read_text().splitlines() if f"  {key}:" not in line))
    news.write_text(news.read_text().replace("label: topic", "label: topic\n    windows: 4"))
    with caplog.at_level("INFO"):
        model = run.train(news, tmp_path / "model", overrides=["preset=best", "epochs=1"], progress=False)
    assert model.training_record["options"]["teachers"] == model.training_record["options"]["task_teachers"] == 0
    assert "trained without teachers: no task is of a kind that learns from them" in caplog.text
    with pytest.raises(ConfigError, match="no task is of a kind that learns from a teacher"):
        run.train(news, overrides=[f"train.distill={{teachers: {tmp_path / 'model'}}}"], progress=False)


def test_a_resumed_training_keeps_the_teachers_that_were_finished(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    output, options = tmp_path / "model", [*FAST, "epochs=2", "teachers=2"]
    seeds: list[int] = []

    class Counted(run.Trainer):
        def run(self, resume: bool = False) -> None:
            if not resume and len(seeds) == 1:
                raise KeyboardInterrupt
            seeds.append(self.options.seed)
            super().run(resume)

    monkeypatch.setattr(run, "Trainer", Counted)
    with pytest.raises(KeyboardInterrupt):
        run.train(news, output, overrides=options, progress=False)
    (first,) = teachers_folder(output).glob("*-0")
    written = (first / "MANIFEST.json").stat().st_mtime_ns
    kept: list[int] = []
    monkeypatch.setattr(run, "teach", lambda *args, **keys: kept.append((first / "MANIFEST.json").stat().st_mtime_ns))
    run.train(news, output, overrides=options, progress=False, resume=True)
    assert seeds == [1000, 2000, 0] and kept == [written]
    assert output.is_dir() and not teachers_folder(output).exists()
    # Teachers of a training with other options are not this one's.
    assert not list(tmp_path.glob(".model*"))


def test_groups_of_tasks_have_models_per_task_as_teachers_and_as_second_stage(news: Path, tmp_path: Path):
    """A model per task has no groups; what is trained before would be lost if it was told then."""
    groups = ["tasks.topic.group=a", "tasks.tone.group=a"]
    overrides = [*FAST, *groups, "epochs=1", "teachers=0", "task_teachers=1", "train.finetune={epochs: 1}"]
    model = run.train(news, tmp_path / "model", overrides=overrides, progress=False)
    assert model.choice.name == "single" and model.predict("late goal")["topic"].label


def test_tasks_that_learn_from_labels_alone_are_told_why(news: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    overrides = [*FAST, "epochs=1", "teachers=1", "tasks.topic.windows=2"]
    with caplog.at_level("INFO"):
        run.train(news, tmp_path / "model", overrides=overrides, progress=False)
    assert "topic learn from labels alone: no teacher knows them, or they are read in windows" in caplog.text
