"""Rates of the groups, and their schedule."""

from collections.abc import Callable

import pytest
import torch

from onepass.methods import METHODS
from onepass.training.loop import Trainer
from onepass.training.optimizer import BETAS, EPSILON, PlainAdamW, make_optimizer, rate_at, set_rates

MakeTrainer = Callable[..., Trainer]


def test_encoder_tokens_and_heads_have_rates_of_their_own(make_trainer: MakeTrainer):
    trainer = make_trainer("readers", encoder_rate=1e-5, token_rate=2e-4, head_rate=3e-3)
    model = trainer.model
    optimizer = make_optimizer(model.method, model.heads, trainer.options)
    rates = {id(p): group["rate"] for group in optimizer.param_groups for p in group["params"]}
    assert {rates[id(p)] for p in model.method.encoder.parameters()} == {1e-5}
    assert {rates[id(task.tokens)] for task in model.method.tasks} == {2e-4}
    assert {rates[id(p)] for task in model.method.tasks for p in task.pooler.parameters()} == {3e-3}
    assert {rates[id(p)] for p in model.heads.parameters()} == {3e-3}


def test_matrices_decay_and_norms_and_biases_do_not(make_trainer: MakeTrainer):
    trainer = make_trainer(weight_decay=0.25)
    model = trainer.model
    optimizer = make_optimizer(model.method, model.heads, trainer.options)
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {decays[id(p)] for p in model.parameters() if p.ndim > 1} == {0.25}
    assert {decays[id(p)] for p in model.parameters() if p.ndim == 1} == {0.0}


@pytest.mark.parametrize("method", METHODS)
def test_everything_that_learns_is_in_one_group(method: str, make_trainer: MakeTrainer):
    trainer = make_trainer(method)
    model = trainer.model
    optimizer = make_optimizer(model.method, model.heads, trainer.options)
    places = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(places) == sorted(id(p) for p in model.parameters() if p.requires_grad)


def test_the_plain_optimizer_makes_the_steps_of_torch():
    torch.manual_seed(0)
    start = [torch.randn(3, 4), torch.randn(4), torch.randn(2)]
    found = []
    for make in (PlainAdamW, lambda groups: torch.optim.AdamW(groups, betas=BETAS, eps=EPSILON)):
        torch.manual_seed(1)
        weights = [torch.nn.Parameter(value.clone()) for value in start]
        optimizer = make(
            [
                {"params": weights[:1], "lr": 0.1, "weight_decay": 0.3},
                {"params": weights[1:], "lr": 0.01, "weight_decay": 0.0},
            ]
        )
        for step in range(5):
            optimizer.zero_grad()
            for weight in weights[: 3 if step == 2 else 2]:  # the third has a gradient once
                weight.grad = torch.randn_like(weight)
            optimizer.step()
        found.append(weights)
    for one, other, before in zip(*found, start, strict=True):
        torch.testing.assert_close(one, other)
        assert not torch.equal(one, before)


@pytest.mark.parametrize(
    ("progress", "warmup", "share"),
    [(0.0, 0.5, 0.0), (0.25, 0.5, 0.5), (0.5, 0.5, 1.0), (0.75, 0.5, 0.5), (1.0, 0.5, 0.0)],
)
def test_the_rate_rises_and_falls_in_straight_lines(progress: float, warmup: float, share: float):
    assert rate_at(progress, warmup) == pytest.approx(share)


def test_without_warmup_the_rate_only_falls_and_with_nothing_else_it_only_rises():
    assert [rate_at(progress, 0.0) for progress in (0.0, 0.5, 1.0)] == [1.0, 0.5, 0.0]
    assert [rate_at(progress, 1.0) for progress in (0.0, 0.5, 0.75)] == [0.0, 0.5, 0.75]


def test_every_group_gets_the_same_share_of_its_rate():
    one, two = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([{"params": [one], "rate": 1e-3}, {"params": [two], "rate": 4e-3}])
    set_rates(optimizer, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [5e-4, 2e-3]
    set_rates(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [2.5e-4, 1e-3]


@pytest.mark.parametrize("method", ["readers", "single", "mttag"])
def test_lower_layers_learn_slower(method: str, make_trainer: MakeTrainer):
    trainer = make_trainer(method, encoder_rate=0.01, head_rate=0.5, layer_decay=0.5)
    model = trainer.model
    optimizer = make_optimizer(model.method, model.heads, trainer.options)
    rates = {id(p): group["rate"] for group in optimizer.param_groups for p in group["params"]}
    encoder = model.method.tasks[1].encoder if method == "single" else model.method.encoder
    layers = [{rates[id(p)] for p in layer.parameters()} for layer in encoder.layers]
    assert layers == [{0.005}, {0.01}]
    assert {rates[id(p)] for p in [*encoder.embedding_parameters(), *encoder.embedding_norm.parameters()]} == {0.0025}
    assert {rates[id(p)] for p in model.heads.parameters()} == {0.5}
    if method == "mttag":
        assert [{rates[id(p)] for p in experts.parameters()} for experts in model.method.experts] == layers
