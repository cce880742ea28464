"""AdamW with a rate for the encoder, for the tasks' tokens and for the rest, and the schedule of the rates."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from onepass.methods import Method
from onepass.training.options import TrainOptions

BETAS, EPSILON = (0.9, 0.999), 1e-8


class PlainAdamW:
    """AdamW without a compiler: torch's imports its own when it is made, which takes as long as adding 1,000 texts.

    One parameter after the other; for the few of one task that is as fast.
    """

    def __init__(self, groups: Sequence[dict[str, Any]]):
        self.param_groups = list(groups)
        self.state: dict[nn.Parameter, tuple[int, Tensor, Tensor]] = {}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if parameter not in self.state:
                    self.state[parameter] = 0, torch.zeros_like(parameter), torch.zeros_like(parameter)
                steps, mean, square = self.state[parameter]
                self.state[parameter] = steps + 1, mean, square
                mean.lerp_(parameter.grad, 1 - BETAS[0])
                square.mul_(BETAS[1]).addcmul_(parameter.grad, parameter.grad, value=1 - BETAS[1])
                spread = square.sqrt().div_(math.sqrt(1 - BETAS[1] ** (steps + 1))).add_(EPSILON)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(mean.div(spread).mul_(group["lr"] / (1 - BETAS[0] ** (steps + 1))))

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def make_optimizer(method: Method, heads: nn.ModuleList, options: TrainOptions) -> AdamW:
    """An optimiser over everything that learns; a parameter without a gradient is not touched in a step."""
    return AdamW(parameter_groups(method, heads, options), betas=BETAS, eps=EPSILON, fused=True)


def parameter_groups(method: Method, heads: nn.ModuleList, options: TrainOptions) -> list[dict[str, Any]]:
    """Everything that learns, with its rate and its weight decay."""
    in_encoder = {id(p) for p in method.encoder_parameters()}
    tokens = {id(p) for p in method.token_parameters()}
    above = {id(p): layers for p, layers in method.layers_above()} if options.layer_decay < 1 else {}
    rates = {"encoder": options.encoder_rate, "tokens": options.token_rate, "heads": options.head_rate}
    groups: dict[tuple[str, bool, int], list[nn.Parameter]] = {}
    for parameter in [*method.parameters(), *heads.parameters()]:
        if not parameter.requires_grad:
            continue
        part = "encoder" if id(parameter) in in_encoder else "tokens" if id(parameter) in tokens else "heads"
        groups.setdefault((part, parameter.ndim > 1, above.get(id(parameter), 0)), []).append(parameter)
    described = []
    for (part, decays, layers), parameters in groups.items():
        rate = rates[part] * options.layer_decay**layers
        decay = options.weight_decay * decays
        described.append({"params": parameters, "lr": rate, "rate": rate, "weight_decay": decay})
    return described


def rate_at(progress: float, warmup: float) -> float:
    """The share of its full rate a group has at `progress` (0 to 1): a linear rise, then a linear fall to zero.

    >>> [round(rate_at(p, 0.1), 2) for p in (0.05, 0.1, 0.55, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    return max(0.0, (1.0 - progress) / max(1.0 - warmup, 1e-9))


def set_rates(optimizer: AdamW | PlainAdamW, share: float) -> None:
    """Set every group to a share of its full rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * share
