"""What a step on one task does to another."""

from pathlib import Path

import numpy as np
import pytest
import torch

import onepass
from onepass.analysis.affinity import affinity, left_out, shared_parameters
from onepass.errors import ConfigError
from onepass.model import Model
from onepass.tasks import read_task_file
from onepass.training.sets import TaskSet, read_sets


def trained(news: Path, method: str, *options: str) -> tuple[Model, list[TaskSet]]:
    file = read_task_file(news, [f"method.name={method}", "train.epochs=1", *options])
    model = onepass.train(file, progress=False)
    return model, read_sets(file, model.tokenizer)


def test_a_step_on_a_task_helps_itself_and_leaves_the_model_as_it_was(news: Path) -> None:
    model, sets = trained(news, "mtdnn")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = affinity(model, sets, batches=2)
    assert set(found) == {"topic", "tone", "same"} == set(found["topic"])
    assert all(found[task][task] > 0 for task in found)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_step_on_a_task_that_is_learned_well_helps_itself_too(news: Path) -> None:
    well = ("epochs=40", "encoder_rate=0.01", "head_rate=0.02", "average=0", "evaluate_every=40", "dropout=0")
    model, sets = trained(news, "mtdnn", *well)
    found = affinity(model, sets, batches=2)
    assert all(0 < found[task][task] < 0.1 for task in found), found  # 0.05 is what the slope promises


def test_a_copy_of_a_task_is_helped_as_the_task_itself(news: Path) -> None:
    model, sets = trained(news, "mtdnn")
    model.add(sets[0].task.model_copy(update={"name": "copy"}))
    model.heads[3].load_state_dict(model.heads[0].state_dict())
    generator = np.random.default_rng(0)
    rows = generator.integers(0, len(sets[0].train), 64)
    same = TaskSet(sets[0].task, sets[0].train.take(rows), sets[0].validation)
    found = affinity(model, [*sets, same], batches=4)
    assert found["topic"]["copy"] > 0
    assert found["copy"]["topic"] > 0


def test_methods_that_share_nothing_that_learns_are_refused(news: Path) -> None:
    for method in ("frozen", "adapter"):
        model, sets = trained(news, method)
        assert shared_parameters(model) == []
        with pytest.raises(ConfigError, match="shares no weights"):
            affinity(model, sets)


def test_left_out_is_the_score_with_a_task_less_that_without_it() -> None:
    assert left_out({"a": 80.0, "b": 90.0}, {"a": {"b": 92.0}, "b": {"a": 75.0}}) == {"a": {"b": -2.0}, "b": {"a": 5.0}}
