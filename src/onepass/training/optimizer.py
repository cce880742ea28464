"""AdamW with a rate for the encoder, for the tasks' tokens and for the rest, and the schedule of the rates."""

from torch import nn
from torch.optim import AdamW

from onepass.methods import Method
from onepass.training.options import TrainOptions


def make_optimizer(method: Method, heads: nn.ModuleList, options: TrainOptions) -> AdamW:
    """An optimiser over everything that learns; a parameter without a gradient is not touched in a step."""
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
    return AdamW(described, betas=(0.9, 0.999), eps=1e-8, fused=True)


def rate_at(progress: float, warmup: float) -> float:
    """The share of its full rate a group has at `progress` (0 to 1): a linear rise, then a linear fall to zero.

    >>> [round(rate_at(p, 0.1), 2) for p in (0.05, 0.1, 0.55, 1.0)]
    [0.5, 1.0, 0.5, 0.0]
    """
    if progress < warmup:
        return progress / warmup
    return max(0.0, (1.0 - progress) / max(1.0 - warmup, 1e-9))


def set_rates(optimizer: AdamW, share: float) -> None:
    """Set every group to a share of its full rate."""
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * share
