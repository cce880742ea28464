"""What every method must keep, whatever it does inside. A new method is picked up from METHODS by itself."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder
from onepass.methods import METHODS
from onepass.model import Model
from onepass.training.optimizer import make_optimizer
from onepass.training.options import TrainOptions

MakeModel = Callable[..., Model]
every_method = pytest.mark.parametrize("name", METHODS)


def packed(model: Model, texts: list[str]) -> Batch:
    return Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])


def all_logits(model: Model, texts: list[str], tasks: list[int] | None = None) -> list[np.ndarray]:
    return model.logits(packed(model, texts), tasks if tasks is not None else list(range(len(model.tasks))))


def ask_one_each(model: Model, texts: list[str]) -> tuple[Batch, Tensor, list[float | int]]:
    """A training batch: each text asks one task, the tasks in turn."""
    asked = torch.tensor([[i % len(model.tasks)] for i in range(len(texts))])
    targets: list[float | int] = [
        float(i) / 4 if model.tasks[int(task)].kind == "regression" else (i // 4) % 2 for i, task in enumerate(asked)
    ]
    return packed(model, texts), asked, [np.float32(t) if isinstance(t, float) else t for t in targets]


@every_method
def test_one_logit_per_label(name: str, make_model: MakeModel, texts: list[str]) -> None:
    model = make_model(name)
    shapes = [logits.shape for logits in all_logits(model, texts)]
    assert shapes == [(8, 3), (8, 2), (8, 1), (8, 2)]


@every_method
def test_other_rows_and_their_lengths_change_nothing(name: str, make_model: MakeModel, texts: list[str]) -> None:
    model = make_model(name)
    together = all_logits(model, texts)
    for row in (0, 1, 3):
        alone = all_logits(model, [texts[row]])
        for one, all_rows in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], all_rows[row], atol=1e-5)


@every_method
def test_the_order_of_rows_changes_nothing(name: str, make_model: MakeModel, texts: list[str]) -> None:
    model = make_model(name)
    forwards, backwards = all_logits(model, texts), all_logits(model, texts[::-1])
    for one, other in zip(forwards, backwards, strict=True):
        np.testing.assert_allclose(one, other[::-1], atol=1e-5)


@every_method
def test_asking_fewer_tasks_or_in_another_order_changes_nothing(
    name: str, make_model: MakeModel, texts: list[str]
) -> None:
    model = make_model(name)
    every = all_logits(model, texts)
    for asked in ([2], [3, 0], [1, 2, 3, 0]):
        for task, logits in zip(asked, all_logits(model, texts, asked), strict=True):
            np.testing.assert_allclose(logits, every[task], atol=1e-5)


@every_method
def test_training_and_serving_compute_the_same(name: str, make_model: MakeModel, texts: list[str]) -> None:
    """Mixed batches, one ask a row, against all tasks asked of all rows."""
    model = make_model(name)
    every = all_logits(model, texts)
    batch, asked, _ = ask_one_each(model, texts)
    with torch.no_grad():
        for group in model(batch, asked):
            for ask, logits in zip(group.asks, group.logits.numpy(), strict=True):
                np.testing.assert_allclose(logits, every[int(asked[ask])][ask], atol=1e-5)


@every_method
def test_the_encoder_runs_as_often_as_the_method_says(name: str, make_model: MakeModel, texts: list[str]) -> None:
    """Counted in texts that enter a first layer: one pass reads every text once, whatever is asked."""
    model = make_model(name)
    read = 0

    def count(_module: object, inputs: tuple[Tensor, ...]) -> None:
        nonlocal read
        read += len(inputs[1])  # type: ignore[arg-type]  # the layout's number of sequences

    for module in model.modules():
        if isinstance(module, Encoder):
            module.layers[0].register_forward_pre_hook(count)
    all_logits(model, texts)
    assert read == len(texts) * (1 if model.method.one_pass else len(model.tasks))
    assert METHODS[name].reads_once({}) == model.method.one_pass  # what is said of a folder that is not loaded


@every_method
def test_every_trainable_parameter_learns_after_an_evaluation(
    name: str, make_model: MakeModel, texts: list[str]
) -> None:
    model = make_model(name)
    all_logits(model, texts)  # what is kept from it must not stand in the way
    model.train()
    for stage in model.method.stages():
        for _ in range(2):  # the second fails if the first left a graph behind
            model.zero_grad()
            tasks = list(range(len(model.tasks))) if stage.tasks is None else list(stage.tasks)
            asked = torch.tensor([[tasks[i % len(tasks)]] for i in range(len(texts))])
            targets = [np.float32(0.3) if model.tasks[int(t)].kind == "regression" else 1 for t in asked]
            model.losses(packed(model, texts), asked, targets, stage.forward).mean().backward()
        learned = {
            key for key, weight in model.named_parameters() if weight.grad is not None and weight.grad.abs().sum() > 0
        }
        others = tuple(
            f"{part}.{task}."
            for task in range(len(model.tasks))
            if task not in tasks
            for part in ("method.tasks", "heads")
        )
        fixed = {id(parameter) for parameter in stage.fixed}
        skipped = ("method.encoder.",) if stage.freeze_encoder else ()
        skipped += tuple(f"method.{part}" for part in model.method.routed)
        expected = {
            key
            for key, weight in model.named_parameters()
            if weight.requires_grad
            and id(weight) not in fixed
            and not key.startswith(others + skipped)
            and "table" not in key  # words no text has
        }
        assert expected <= learned, f"{stage.name}: {expected - learned}"


@every_method
def test_a_task_that_no_row_asks_has_no_gradient_at_all(name: str, make_model: MakeModel, texts: list[str]) -> None:
    model = make_model(name).train()
    asked = torch.tensor([[i % 2] for i in range(len(texts))])  # tasks 0 and 1 only
    model.losses(packed(model, texts), asked, [1] * len(texts)).mean().backward()
    for task in (2, 3):
        for module in (model.method.tasks[task], model.heads[task]):
            assert all(parameter.grad is None for parameter in module.parameters())


@every_method
def test_saved_and_loaded_it_gives_the_same_logits(
    name: str, make_model: MakeModel, texts: list[str], tmp_path: Path
) -> None:
    model = make_model(name)
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    for one, other in zip(all_logits(model, texts), all_logits(loaded, texts), strict=True):
        np.testing.assert_array_equal(one, other)


@every_method
def test_it_overfits_sixteen_rows(name: str, make_model: MakeModel, texts: list[str]) -> None:
    model = make_model(name).train()
    rows = texts + [text + " w1 w2" for text in texts]
    batch, asked, targets = ask_one_each(model, rows)
    options = TrainOptions(encoder_rate=2e-3, head_rate=1e-2, token_rate=1e-2, weight_decay=0.0)
    encoders = [p for m in model.modules() if isinstance(m, Encoder) for p in m.parameters() if p.requires_grad]
    frozen = encoders if any(stage.freeze_encoder for stage in model.method.stages()) else []
    for parameter in frozen:
        parameter.requires_grad_(False)
    optimizer = make_optimizer(model.method, model.heads, options)
    start = model.losses(batch, asked, targets).mean().item()
    goal = (0.6 if frozen else 0.1) * start
    for _ in range(150):
        optimizer.zero_grad()
        loss = model.losses(batch, asked, targets).mean()
        if loss.item() < goal:
            return
        loss.backward()
        optimizer.step()
    pytest.fail(f"the loss went from {start:.3f} to {loss.item():.3f} in 150 steps, not under {goal:.3f}")
