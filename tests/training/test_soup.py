"""The mean of several trainings' weights."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import onepass
from onepass.errors import ConfigError
from onepass.methods import METHODS
from onepass.tasks import read_task_file
from onepass.training import run, soup
from onepass.training.best import Best
from onepass.training.options import train_options
from onepass.training.soup import Soup, weights_of
from onepass.training.teachers import teacher_files

OPTIONS = ["soup=2", "epochs=2", "evaluate_every=0.5", "checkpoint_every_s=0"]
FAST = ["encoder_rate=0.01", "head_rate=0.01", "token_rate=0.01"]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, torch.Tensor]]:
    """The weights of every training that is a part of a soup."""
    found: list[dict[str, torch.Tensor]] = []

    def train_one(*arguments):
        model = train(*arguments)
        found.append(weights_of(model))
        return model

    train = soup.train_one
    monkeypatch.setattr(soup, "train_one", train_one)
    return found


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_model_is_the_mean_of_trainings_that_begin_alike(method: str, news: Path, tmp_path: Path, parts):
    options = [*OPTIONS, f"method={method}", "epochs=1"]
    model = run.train(news, tmp_path / "model", overrides=options, progress=False)
    alone = run.train(news, overrides=[*options, "soup=1"], progress=False)
    learned = [name for name, tensor in parts[0].items() if not torch.equal(tensor, parts[1][name])]
    assert learned
    for name, tensor in weights_of(model).items():
        assert torch.equal(parts[0][name], alone.state_dict()[name]), name  # the first is a training by itself
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, (parts[0][name] + parts[1][name]) / 2, rtol=0, atol=1e-6)
        else:
            assert torch.equal(tensor, parts[0][name]), name
    loaded = onepass.load(tmp_path / "model")
    for name, tensor in weights_of(model).items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name


def test_the_record_is_of_all_trainings_and_nothing_is_left_beside_the_model(news: Path, tmp_path: Path):
    model = run.train(news, tmp_path / "out" / "model", overrides=OPTIONS, progress=False)
    alone = run.train(news, overrides=[*OPTIONS, "soup=1"], progress=False).training_record
    record = model.training_record
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]
    assert record["rows_used"]["updates"] == 2 * alone["rows_used"]["updates"] and record["rows_used"]["share"] == 1
    stages = list(dict.fromkeys(entry["stage"] for entry in record["history"]))
    assert stages == ["train, training 1", "train, training 2", "mean of the weights"]
    assert record["options"]["soup"] == 2 and record["options"]["seed"] == 0
    found = onepass.evaluate(model, news, split="validation")["tasks"]
    for name, kept in zip(model.names, model.records, strict=True):
        assert kept["scores"]["validation"]["score"] == pytest.approx(record["history"][-1]["scores"][name])
        assert found[name]["score"] == pytest.approx(record["history"][-1]["scores"][name])


@pytest.mark.parametrize("checkpoints", [2, 6])  # in the first training, and in the second
def test_a_killed_soup_goes_on_where_it_was(
    checkpoints: int, news: Path, tmp_path: Path, kill_after: Callable[..., None]
):
    whole = run.train(news, tmp_path / "whole", overrides=OPTIONS, progress=False)
    kill_after(checkpoints, news, tmp_path / "model", OPTIONS)
    assert (tmp_path / ".model.training-1").is_dir() == (checkpoints > 4)
    assert {path.name for path in run.left_beside(tmp_path / "model")} == {
        path.name for path in tmp_path.glob(".model.*") if path.is_dir()
    }
    resumed = run.train(news, tmp_path / "model", overrides=OPTIONS, resume=True, progress=False)
    for name, tensor in weights_of(whole).items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    assert resumed.training_record["history"] == whole.training_record["history"]
    assert resumed.training_record["rows_used"] == whole.training_record["rows_used"]
    assert not list(tmp_path.glob(".model.*"))


def test_a_new_training_begins_anew_beside_what_a_killed_one_left(
    news: Path, tmp_path: Path, kill_after: Callable[..., None]
):
    kill_after(6, news, tmp_path / "out" / "model", OPTIONS)
    run.train(news, tmp_path / "out" / "model", overrides=["epochs=1"], progress=False)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]


def test_where_the_mean_is_worse_than_each_the_best_is_kept(
    news: Path, parts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def add(self: Soup, *arguments):
        before(self, *arguments)
        for name, tensor in self.mean.items():
            if "encoder" in name:
                tensor.mul_(0.0)

    before = Soup.add
    monkeypatch.setattr(Soup, "add", add)
    news.with_name("topic-validation.csv").write_text(news.with_name("topic.csv").read_text())
    model = run.train(news, overrides=[*OPTIONS, *FAST, "epochs=12"], progress=False)
    assert "the best of them is kept" in caplog.text
    entries = model.training_record["history"][:-1]
    best = max(range(2), key=lambda n: max(e["average"] for e in entries if e["stage"].endswith(f"training {n + 1}")))
    assert all(torch.equal(tensor, parts[best][name]) for name, tensor in weights_of(model).items())
    assert model.training_record["history"][-1]["average"] == max(entry["average"] for entry in entries)


def test_a_mean_by_hand_and_when_it_is_spoiled():
    mixed = Soup(Best("mean", []))
    for value, score in ((1.0, 80.0), (3.0, 90.0), (8.0, 85.0)):
        mixed.add({"w": torch.tensor([value, -value]), "n": torch.tensor(7)}, {"topic": {"score": score}})
    assert mixed.mean["w"].tolist() == [4.0, -4.0] and mixed.mean["n"] == 7
    assert mixed.best_weights["w"].tolist() == [3.0, -3.0] and mixed.best_scores == {"topic": {"score": 90.0}}
    assert mixed.spoiled({"topic": {"score": 79.0}}) and not mixed.spoiled({"topic": {"score": 80.0}})
    assert mixed.spoiled({"topic": {"score": float("nan")}})


def test_a_soup_is_fine_tuned_as_one_training_is(news: Path, tmp_path: Path):
    second = "train.finetune={epochs: 1, encoder_rate: 0, head_rate: 0, token_rate: 0}"
    joint = run.train(news, overrides=OPTIONS, progress=False)
    model = run.train(news, tmp_path / "model", overrides=[*OPTIONS, second], progress=False)
    assert model.choice.name == "single"
    scores = {name: answer.scores for name, answer in joint.predict("late goal wins", tasks=["topic"]).items()}
    found = model.predict("late goal wins", tasks=["topic"])
    assert found["topic"].scores == pytest.approx(scores["topic"], abs=1e-5)


def test_a_soup_learns_from_teachers_that_are_none(news: Path):
    file = read_task_file(news, ["train.soup=3", "train.teachers=2", "train.task_teachers=1"])
    teachers = [one for some in teacher_files(file, train_options(file.train), 2) for one in some]
    assert [train_options(one.train).soup for one in teachers] == [1, 1, 1]
    model = run.train(file, progress=False)
    assert len({entry["stage"] for entry in model.training_record["history"]}) == 4


def test_a_soup_of_nothing_is_refused(news: Path):
    with pytest.raises(ConfigError, match=r"train\.soup is 0; possible: a whole number from 1 to 100"):
        run.train(news, overrides=["soup=0"], progress=False)
