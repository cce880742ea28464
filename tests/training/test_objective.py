"""What a step makes smaller, by hand."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from onepass.encoder.batch import Batch
from onepass.heads.classification import Classification
from onepass.heads.regression import Regression
from onepass.readout import Answers
from onepass.training.loop import Trainer
from onepass.training.objective import Objective, own_answers

MakeTrainer = Callable[..., Trainer]
TOPIC, TONE, SAME = 0, 1, 2
ROWS = [(TOPIC, 0), (TONE, 3), (SAME, 2)]


def losses_of(trainer: Trainer, training: bool = False) -> torch.Tensor:
    model = trainer.model.train(training)
    batch = Batch.of([trainer.sets[task].train.sequence(row) for task, row in ROWS])
    asked = torch.tensor([[task] for task, _ in ROWS])
    targets = [trainer.targets[task][row] for task, row in ROWS]
    found: torch.Tensor = Objective(model, None, trainer.options)(batch, asked, targets)
    return found


def answers(kind: Any, asks: list[int], logits: list[list[float]]) -> Answers:
    return Answers(kind, [0], np.array(asks), torch.tensor(logits))


def test_of_several_asks_the_first_of_each_text_is_its_own():
    groups = [answers(Classification(), [2, 1], [[2.0, 0.0], [1.0, 0.0]]), answers(Regression(), [3], [[4.0]])]
    (own,) = own_answers(groups, num_asked=2)
    assert own.asks.tolist() == [1] and own.logits.tolist() == [[2.0, 0.0]]
    assert own_answers(groups, num_asked=1) == groups


def test_a_batch_from_which_nothing_learns_takes_part_in_a_step_of_several_processes(make_trainer: MakeTrainer):
    """Otherwise the others would wait for its gradient, or take another message for it."""
    trainer = make_trainer()
    trainer.model.requires_grad_(False)
    losses_of(trainer).sum().backward()
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_two_passes_are_apart_by_the_mean_of_both_divergences(make_trainer: MakeTrainer):
    objective = Objective(make_trainer().model, None, make_trainer().options)
    one = [answers(Classification(), [1], [[0.0, 0.0]]), answers(Regression(), [0], [[1.0]])]
    two = [answers(Classification(), [1], [[math.log(3.0), 0.0]]), answers(Regression(), [0], [[3.0]])]
    there = 0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25)
    back = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    apart = objective.apart(one, two, torch.zeros(3, 1, dtype=torch.long))
    assert apart.tolist() == pytest.approx([4.0, (there + back) / 2, 0.0])


def test_passes_without_dropout_are_not_apart_and_with_it_they_are(make_trainer: MakeTrainer):
    plain, doubled = make_trainer(), make_trainer(rdrop=50.0)
    assert torch.allclose(losses_of(plain), losses_of(doubled), atol=1e-6)
    torch.manual_seed(3)
    once = losses_of(make_trainer(rdrop=1e-9), training=True)
    torch.manual_seed(3)
    more = losses_of(doubled, training=True)
    assert (more > once + 1e-4).any()


def test_a_second_pass_is_made_only_where_it_is_learned_from(
    make_trainer: MakeTrainer, caplog: pytest.LogCaptureFixture
):
    trainer = make_trainer(rdrop=1.0)
    passes: list[int] = []
    trainer.model.method.register_forward_pre_hook(lambda *_: passes.append(1))
    losses_of(trainer)
    assert len(passes) == 2 and "rdrop" not in caplog.text
    for kind in trainer.model.kinds:
        kind.read_windows(2, 0.25, "mean")
    losses_of(trainer)
    assert len(passes) == 3
    trainer.run()
    assert "train.rdrop does nothing: no task has one answer to the whole of a text" in caplog.text


def test_losses_are_divided_by_the_logarithm_of_the_outputs(make_trainer: MakeTrainer):
    plain, scaled = losses_of(make_trainer()), losses_of(make_trainer(loss_scale="log_classes"))
    assert (scaled / plain).tolist() == pytest.approx([1 / math.log(2), 1.0, 1 / math.log(2)])
    tagged = losses_of(make_trainer("mttag", loss_scale="log_classes"))  # which divides by itself: not twice
    assert torch.allclose(tagged, losses_of(make_trainer("mttag")))
