"""Experts in place of a layer's feed-forward part: their weights, the choice among them and the way to them.

Letters: T tokens, U tasks of a batch, E experts, H width.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onepass.encoder.encoder import Layer
from onepass.methods.parts import with_parts

ALIGNED = 8
"""Tokens of an expert come in multiples of this many in a grouped product: 16 bytes"""


class Experts(nn.Module):
    """Copies of a layer's feed-forward; the layer's own is expert 0, so that nothing is kept twice."""

    def __init__(self, layer: Layer, count: int):
        super().__init__()
        self.up = nn.ModuleList(copy.deepcopy(layer.up) for _ in range(count - 1))
        self.down = nn.ModuleList(copy.deepcopy(layer.down) for _ in range(count - 1))

    def forward(self, layer: Layer, x: Tensor, chosen: Tensor, grouped: "GroupedWeights | None" = None) -> Tensor:
        """Each token through the expert chosen for it: (T, H), (T,) -> (T, H)

        With `grouped`, one product for all experts, in bf16, and without waiting for the device.
        """
        if not len(chosen):
            return layer.mlp(x)
        if grouped is None:
            return dispatch(x, chosen, self.of(layer))
        place, ends, size, is_of = slots_by_expert(chosen, 1 + len(self.up))
        tokens = x.new_zeros(size, x.shape[1]).index_copy_(0, place, x)
        mine = x.new_zeros(size, is_of.shape[1], dtype=torch.bfloat16)
        mine.index_copy_(0, place, is_of.to(torch.bfloat16))
        parts = {name: GroupedLinear(*linear, mine, ends) for name, linear in grouped.items()}
        return with_parts(layer, **parts).mlp(tokens).index_select(0, place)

    def linears(self, layer: Layer) -> dict[str, list[nn.Linear]]:
        """The linear layers of all experts, by their part of the layer."""
        return {
            "up": [layer.up, *(cast(nn.Linear, up) for up in self.up)],
            "down": [layer.down, *(cast(nn.Linear, down) for down in self.down)],
        }

    def of(self, layer: Layer) -> list[Callable[[Tensor], Tensor]]:
        """All experts of the layer, each a function of tokens: (n, H) -> (n, H)"""
        others = zip(self.up, self.down, strict=True)
        return [layer.mlp, *(with_parts(layer, up=up, down=down).mlp for up, down in others)]


def gate_values(x: Tensor, gates: Tensor, of_token: Tensor) -> Tensor:
    """How much each token's gate leans to each expert: (T, H), (U, E, H) -> (T, E), each row a distribution.

    In full precision: gates start so small that half precision would make ties, and a tie always goes to one expert.
    """
    with torch.autocast(x.device.type, enabled=False):
        logits = (x.float() @ gates.float().flatten(0, 1).T).unflatten(1, gates.shape[:2])  # (T, U, E)
        if len(gates) == 1:
            own = logits.squeeze(1)
        else:
            own = logits.gather(1, of_token[:, None, None].expand(-1, 1, gates.shape[1])).squeeze(1)
        return own.softmax(-1)


def dispatch(x: Tensor, chosen: Tensor, experts: Sequence[Callable[[Tensor], Tensor]]) -> Tensor:
    """Each token through the expert chosen for it (T,): tokens are sorted by expert, and each expert gets its slice.

    An expert without tokens is not run, so its weights have no gradient and stay as they are.
    """
    order = chosen.argsort(stable=True)
    counts = chosen.bincount(minlength=len(experts)).tolist()  # a GPU is waited for here, once a layer
    slices = x.index_select(0, order).split(counts)
    done = torch.cat([expert(part) for expert, part in zip(experts, slices, strict=True) if len(part)])
    return torch.empty_like(done).index_copy(0, order, done)


GroupedWeights = dict[str, tuple[Tensor, Tensor | None]]
"""By part of a layer the weights (E, O, I) and biases (E, O) of all its experts, in bf16"""


def grouped_weights(layers: Sequence[Layer], experts: Sequence[Experts]) -> list[GroupedWeights]:
    """The weights of each layer's experts; stacked for all layers at once, since on a GPU every call costs."""
    found = [own.linears(layer) for layer, own in zip(layers, experts, strict=True)]

    def stacked(part: str, name: str) -> Sequence[Any]:
        values = [getattr(linear, name) for own in found for linear in own[part]]
        if values[0] is None:
            return [None] * len(found)
        return torch.stack(values).to(torch.bfloat16).unflatten(0, (len(found), -1)).unbind(0)

    by_part = {part: list(zip(stacked(part, "weight"), stacked(part, "bias"), strict=True)) for part in found[0]}
    return [{part: by_part[part][index] for part in by_part} for index in range(len(found))]


def slots_by_expert(chosen: Tensor, num_experts: int) -> tuple[Tensor, Tensor, int, Tensor]:
    """The slot of each token (T,), where each expert's slots end (E,), how many there are, and whose tokens are (T, E).

    Slots are sorted by expert, and each expert has a multiple of eight, as grouped products want it: some are empty.
    Nothing here waits for the device, so there are as many slots as could be needed.
    """
    size = -(-len(chosen) // ALIGNED) * ALIGNED + ALIGNED * num_experts
    mine = torch.arange(num_experts, device=chosen.device).unsqueeze(1) == chosen  # (E, T)
    # How many tokens of each expert there are up to here. A GPU adds up along the last axis with all its threads, along
    # another with one thread a column, which would be one an expert.
    running = mine.cumsum(1)
    slots = (running[:, -1] + (ALIGNED - 1)) & -ALIGNED
    ends = slots.cumsum(0)
    place = (running + (ends - slots).unsqueeze(1)).gather(0, chosen.unsqueeze(0)).squeeze(0) - 1
    ends[-1:].fill_(size)  # the slots behind are the last expert's, or they would hold whatever the memory held
    return place, ends.to(torch.int32), size, mine.T


def can_group(x: Tensor, layer: Layer) -> bool:
    """Whether torch has a fast grouped product for these tokens: bf16 on a GPU from Ampere on, in whole 16 bytes."""
    if x.device.type != "cuda" or torch.cuda.get_device_capability(x.device) < (8, 0):
        return False
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
    return dtype == torch.bfloat16 and all(part.in_features % 8 == 0 for part in (layer.up, layer.down))


class GroupedLinear:
    """Linear layers of one shape, each on its own slice of the slots, as one product: (S, I) -> (S, O), in bf16.

    `weight` (E, O, I) and `bias` (E, O) are in bf16; `mine` (S, E) is 1 where a slot holds a token of an expert. An
    expert without tokens has a gradient of zeros.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, mine: Tensor, ends: Tensor):
        self.weight, self.bias, self.mine, self.ends = weight, bias, mine, ends

    def __call__(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            out = F.grouped_mm(x.to(torch.bfloat16), self.weight.transpose(1, 2), offs=self.ends)
            if self.bias is not None:
                # A product with ones and zeros, since adding up the gradient of picked rows is slow on a GPU.
                out = torch.addmm(out, self.mine, self.bias)
        return out
