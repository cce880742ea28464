"""The second stage: each task from the model of all tasks."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import onepass
from onepass.errors import ConfigError, FolderError
from onepass.methods.single import OwnCopy
from onepass.model import Model
from onepass.training import run
from onepass.training.finetuning import copies_of
from onepass.training.loop import Trainer

TEXTS = ["late goal wins", "senate vote", "why is it good ?"]
SECOND = ["train.finetune={epochs: 2, encoder_rate: 0.001, head_rate: 0.01}", "epochs=2"]


def answers(model: Model) -> dict[str, list[float]]:
    found = model.predict(TEXTS, tasks=["topic", "tone"])
    return {"topic": [f["topic"].scores["sport"] for f in found], "tone": [f["tone"].label for f in found]}


@pytest.mark.parametrize("method", ["readers", "mtop", "mttag", "camtl", "adapter"])
def test_copies_answer_as_the_joint_model_and_survive_the_folder(method: str, make_trainer, tmp_path: Path):
    trainer: Trainer = make_trainer(method)
    trainer.model.choice = trainer.model.choice.model_copy(update={"name": method})
    for parameter in trainer.model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    joint = trainer.model.eval()
    copies = copies_of(joint, trainer.sets).eval()
    assert answers(copies) == {name: pytest.approx(values, abs=1e-5) for name, values in answers(joint).items()}
    copies.save(tmp_path / "copies")
    loaded = onepass.load(tmp_path / "copies")
    assert answers(loaded) == {name: pytest.approx(values, abs=1e-5) for name, values in answers(joint).items()}
    learning = {name for name, p in joint.method.named_parameters() if p.requires_grad and not name.startswith("tasks")}
    own = {name for name, p in loaded.method.tasks[1].method.named_parameters() if p.requires_grad}
    assert learning <= own  # what the method keeps fixed stays fixed


def test_a_second_stage_makes_a_model_per_task_that_is_no_worse_on_validation(news: Path, tmp_path: Path):
    news.with_name("topic-validation.csv").write_text(news.with_name("topic.csv").read_text())
    finetune = "train.finetune={epochs: 8, encoder_rate: 0.005, head_rate: 0.005, token_rate: 0.005}"
    options = [finetune, "epochs=2", "average=0", "warmup=0"]
    model = run.train(news, tmp_path / "out" / "model", overrides=options, progress=False)
    assert model.choice.name == "single" and model.choice.options["of"]["name"] == "readers"
    assert isinstance(model.method.tasks[0], OwnCopy) and not model.method.one_pass
    record = model.training_record
    assert record["rows_used"]["share"] == 1.0 and record["rows_used"]["updates"] >= 10 * 60
    stages = [entry["stage"] for entry in record["history"]]
    assert stages[:2] == ["train", "train"] and stages[2] == "task 1 of 3" and stages[-1] == "task 3 of 3"
    for name, kept in zip(model.names, model.records, strict=True):
        assert kept["scores"]["validation"]["score"] >= record["joint"][name]["validation"]["score"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]
    assert onepass.load(tmp_path / "out" / "model").predict("late goal", tasks=["topic"])["topic"].label
    better = {entry["stage"] for entry in record["history"] if entry["best"] and entry["epoch"] > 0}
    assert "task 1 of 3" in better
    for task in range(3):  # the shared encoder is that of the joint model
        own, joint = model.method.tasks[task].method.encoder, model.method.encoder
        changed = not torch.equal(own.layers[0].up.weight, joint.layers[0].up.weight)
        assert changed == (f"task {task + 1} of 3" in better)


def test_a_second_stage_that_learns_nothing_keeps_the_joint_weights(news: Path):
    still = "train.finetune={epochs: 1, encoder_rate: 0, head_rate: 0, token_rate: 0}"
    joint = run.train(news, progress=False)
    model = run.train(news, overrides=[still], progress=False)
    assert answers(model) == {name: pytest.approx(values, abs=1e-5) for name, values in answers(joint).items()}


def test_a_training_killed_in_its_second_stage_goes_on_there(
    news: Path, tmp_path: Path, kill_after: Callable[..., None]
):
    torch.set_num_threads(1)
    options = [*SECOND, "checkpoint_every_s=0", "evaluate_every=0.5"]
    whole = run.train(news, tmp_path / "whole", overrides=options, progress=False)
    kill_after(5, news, tmp_path / "model", options)
    assert (tmp_path / ".model.joint").is_dir()
    resumed = run.train(news, tmp_path / "model", overrides=options, resume=True, progress=False)
    assert answers(whole) == {name: pytest.approx(values, abs=1e-6) for name, values in answers(resumed).items()}
    assert len(resumed.training_record["history"]) == len(whole.training_record["history"])


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_a_training_stopped_between_its_stages_draws_in_the_second_what_it_would_have_drawn(
    dropout: float, news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    torch.set_num_threads(1)
    options = [*SECOND, f"dropout={dropout}"]
    whole = run.train(news, tmp_path / "whole", overrides=options, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(run, "copies_of", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run.train(news, tmp_path / "model", overrides=options, progress=False)
    resumed = run.train(news, tmp_path / "model", overrides=options, resume=True, progress=False)
    assert resumed.training_record["history"] == whole.training_record["history"]
    assert resumed.training_record["rows_used"] == whole.training_record["rows_used"]


def test_a_first_stage_that_cannot_be_kept_is_a_warning_and_the_second_goes_on(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def save(self: Model, path: Path, **keys: bool) -> None:
        if path.name == ".model.joint":
            raise FolderError(f"{path} could not be written.")
        saved(self, path, **keys)

    saved = Model.save
    monkeypatch.setattr(Model, "save", save)
    run.train(news, tmp_path / "model", overrides=SECOND, progress=False)
    assert "--resume could not go on from here" in caplog.text
    assert onepass.load(tmp_path / "model").choice.name == "single"


def test_a_new_training_leaves_nothing_of_one_that_was_killed(
    news: Path, tmp_path: Path, kill_after: Callable[..., None]
):
    kill_after(5, news, tmp_path / "out" / "model", [*SECOND, "checkpoint_every_s=0", "evaluate_every=0.5"])
    assert (tmp_path / "out" / ".model.joint").is_dir()
    run.train(news, tmp_path / "out" / "model", overrides=["epochs=1"], progress=False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]


@pytest.mark.parametrize("method", ["single", "prefix"])
def test_a_method_without_a_joint_model_is_refused(news: Path, method: str):
    with pytest.raises(ConfigError, match=f"train.finetune: method '{method}' trains no model of all tasks"):
        run.train(news, overrides=[*SECOND, f"method={method}"], progress=False)


def test_a_copy_of_nothing_or_of_copies_is_refused(news: Path):
    for of in ("{name: single}", "{options: {}}", "{name: readers, depth: 2}"):
        with pytest.raises(ConfigError, match="method 'single': of is"):
            run.train(news, overrides=["method=single", f"method.of={of}"], progress=False)
