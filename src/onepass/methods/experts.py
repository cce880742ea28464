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

Grouped = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From tokens sorted by expert (T, H), the expert of each (T,) and where each expert's slice ends (E,) to (T, H)"""


class Experts(nn.Module):
    """Copies of a layer's feed-forward; the layer's own is expert 0, so that nothing is kept twice."""

    def __init__(self, layer: Layer, count: int):
        super().__init__()
        self.up = nn.ModuleList(copy.deepcopy(layer.up) for _ in range(count - 1))
        self.down = nn.ModuleList(copy.deepcopy(layer.down) for _ in range(count - 1))

    def forward(self, layer: Layer, x: Tensor, chosen: Tensor) -> Tensor:
        """Each token through the expert chosen for it: (T, H), (T,) -> (T, H)"""
        if len(chosen) == 0:
            return layer.mlp(x)
        return dispatch(x, chosen, self.of(layer), self.grouped(layer) if can_group(x, layer) else None)

    def grouped(self, layer: Layer) -> Grouped:
        """All experts at once, on tokens that are sorted by expert."""
        ups = [layer.up, *(cast(nn.Linear, up) for up in self.up)]
        downs = [layer.down, *(cast(nn.Linear, down) for down in self.down)]

        def run(x: Tensor, chosen: Tensor, ends: Tensor) -> Tensor:
            mine = (chosen.unsqueeze(1) == torch.arange(len(ups), device=chosen.device)).to(torch.bfloat16)  # (T, E)
            parts = {"up": GroupedLinear(ups, mine, ends), "down": GroupedLinear(downs, mine, ends)}
            return with_parts(layer, **parts).mlp(x)

        return run

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


def dispatch(
    x: Tensor, chosen: Tensor, experts: Sequence[Callable[[Tensor], Tensor]], grouped: Grouped | None = None
) -> Tensor:
    """Each token through the expert chosen for it (T,): tokens are sorted by expert, and each expert gets its slice.

    `grouped` runs all experts on the sorted tokens at once. Without it an expert that has no tokens is not run, so that
    its weights have no gradient and stay as they are.
    """
    there, back, own, ends = sort_by_expert(chosen, len(experts))
    tokens = _Permuted.apply(x, there, back)
    if grouped is not None:
        done = grouped(tokens, own, ends)
    else:
        counts = torch.diff(ends, prepend=ends.new_zeros(1)).tolist()  # a GPU is waited for here, once a layer
        parts = zip(experts, tokens.split(counts), strict=True)
        done = torch.cat([expert(part) for expert, part in parts if len(part)])
    return cast(Tensor, _Permuted.apply(done, back, there))


def sort_by_expert(chosen: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The order of tokens by expert, and the way back, (T,) each; the experts in that order (T,); their ends (E,).

    Nothing here waits for the device.
    """
    own, there = chosen.sort(stable=True)
    back = torch.empty_like(there).scatter_(0, there, torch.arange(len(there), device=there.device))
    ends = torch.searchsorted(own, torch.arange(num_experts, device=own.device), right=True, out_int32=True)
    return there, back, own, ends


class _Permuted(torch.autograd.Function):
    """Rows in another order. The gradient goes the way back, which is faster than adding it up row by row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, there: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(back)
        return x.index_select(0, there)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (back,) = ctx.saved_tensors
        return gradients[0].index_select(0, back), None, None


def can_group(x: Tensor, layer: Layer) -> bool:
    """Whether torch has a fast grouped product for these tokens: bf16 on a GPU from Ampere on, in whole 16 bytes."""
    if x.device.type != "cuda" or torch.cuda.get_device_capability(x.device) < (8, 0):
        return False
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else x.dtype
    return dtype == torch.bfloat16 and all(part.in_features % 8 == 0 for part in (layer.up, layer.down))


class GroupedLinear:
    """Linear layers of one shape, each on its own slice of the tokens, as one product: (T, I) -> (T, O), in bf16.

    An expert without tokens has a gradient of zeros here.
    """

    def __init__(self, layers: Sequence[nn.Linear], mine: Tensor, ends: Tensor):
        self.layers, self.mine, self.ends = layers, mine, ends

    def __call__(self, x: Tensor) -> Tensor:
        weight = torch.stack([layer.weight for layer in self.layers]).to(torch.bfloat16)  # (E, O, I)
        with torch.autocast(x.device.type, enabled=False):
            out = F.grouped_mm(x.to(torch.bfloat16), weight.transpose(1, 2), offs=self.ends)
            if self.layers[0].bias is not None:
                # A product with ones and zeros, since adding up the gradient of picked rows is slow on a GPU.
                bias = torch.stack([layer.bias for layer in self.layers]).to(torch.bfloat16)
                out = torch.addmm(out, self.mine, bias)
        return out
