"""Tables about the tasks of a trained model."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onepass.bench.tasks import relations
from onepass.cli.app import app
from onepass.errors import ConfigError, DataError
from onepass.model import Model


def test_every_task_is_set_against_every_other(model: Path) -> None:
    found = json.loads(CliRunner().invoke(app, ["bench", "tasks", str(model), "--json"]).stdout)
    assert found["similarity"]["topic"].keys() == {"tone", "same"}
    assert found["affinity"]["topic"].keys() == {"topic", "tone", "same"}
    mean = sum(found["similarity"]["topic"].values()) / 2
    assert found["mean_similarity"]["topic"] == pytest.approx(mean, rel=1e-4)
    shown = CliRunner().invoke(app, ["bench", "tasks", str(model)])
    assert shown.exit_code == 0, shown.output
    assert "CovSim" in shown.stdout


def test_a_model_of_other_tasks_cannot_be_compared_with(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "other")
    other = Model.load(tmp_path / "other")
    other.discard(2)
    with pytest.raises(ConfigError, match="other tasks"):
        relations(Model.load(model), other)


def test_one_task_has_no_other_to_stand_to(model: Path) -> None:
    alone = Model.load(model)
    alone.discard(2)
    alone.discard(1)
    with pytest.raises(ConfigError, match="one task"):
        relations(alone)


def test_a_task_without_a_file_of_its_rows_is_named(model: Path) -> None:
    taught = Model.load(model)
    taught.tasks[1] = taught.tasks[1].model_copy(update={"train": None})
    with pytest.raises(DataError, match="'tone' names no train file, as after rows sent to a server"):
        relations(taught)
