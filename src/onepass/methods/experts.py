"""Experts in place of a layer's feed-forward part: their weights, the choice among them and the way to them.

Letters: T tokens, U tasks of a batch, E experts, H width.
"""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from onepass.encoder.encoder import Layer
from onepass.methods.parts import with_parts


class Experts(nn.Module):
    """Copies of a layer's feed-forward; the layer's own is expert 0, so that nothing is kept twice."""

    def __init__(self, layer: Layer, count: int):
        super().__init__()
        self.up = nn.ModuleList(copy.deepcopy(layer.up) for _ in range(count - 1))
        self.down = nn.ModuleList(copy.deepcopy(layer.down) for _ in range(count - 1))

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
