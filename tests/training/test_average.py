"""The running mean of weights, by hand."""

import pytest
import torch
from torch import nn

from onepass.training.average import RunningMean


def step(parameter: nn.Parameter, value: float) -> None:
    """What an optimiser would do."""
    parameter.data.fill_(value)
    parameter.grad = torch.ones_like(parameter)


def test_early_steps_count_more_than_the_decay_says():
    weight = nn.Parameter(torch.tensor([1.0]))
    mean = RunningMean([weight], decay=0.9)
    step(weight, 12.0)
    mean.update()  # keeps 1 / 11
    assert mean.means[0].item() == pytest.approx(1 / 11 + 12 * 10 / 11)
    step(weight, 0.0)
    mean.update()  # keeps 2 / 12
    assert mean.means[0].item() == pytest.approx(11 / 6)


def test_later_on_the_decay_rules():
    weight = nn.Parameter(torch.tensor([0.0]))
    mean = RunningMean([weight], decay=0.5)
    for _ in range(10):
        step(weight, 4.0)
        mean.update()
    before = mean.means[0].item()
    step(weight, 0.0)
    mean.update()
    assert mean.means[0].item() == pytest.approx(before / 2)


def test_a_parameter_that_did_not_change_keeps_its_mean_and_its_early_steps():
    often, rare = nn.Parameter(torch.tensor([0.0])), nn.Parameter(torch.tensor([0.0]))
    mean = RunningMean([often, rare], decay=0.99)
    for _ in range(50):
        step(often, 1.0)
        mean.update()
    assert mean.means[1].item() == 0.0
    step(rare, 11.0)
    mean.update()
    assert mean.means[1].item() == pytest.approx(10.0)


def test_without_decay_nothing_is_kept_and_the_weights_stay():
    weight = nn.Parameter(torch.tensor([3.0]))
    mean = RunningMean([weight], decay=0.0)
    step(weight, 5.0)
    mean.update()
    with mean.in_place():
        assert weight.item() == 5.0
    mean.settle()
    assert weight.item() == 5.0


def test_the_mean_stands_in_place_within_the_block_only_also_after_an_error():
    weight = nn.Parameter(torch.tensor([2.0]))
    mean = RunningMean([weight], decay=0.9)
    weight.data.fill_(7.0)

    def fail_within() -> None:
        with mean.in_place():
            assert weight.item() == 2.0
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail_within()
    assert weight.item() == 7.0
    assert mean.means[0].item() == 2.0


def test_settled_the_model_has_the_mean():
    weight = nn.Parameter(torch.tensor([2.0]))
    mean = RunningMean([weight], decay=0.9)
    weight.data.fill_(7.0)
    mean.settle()
    assert weight.item() == 2.0


def test_fixed_parameters_are_left_out():
    fixed = nn.Parameter(torch.tensor([2.0]), requires_grad=False)
    assert RunningMean([fixed], decay=0.9).means == []
