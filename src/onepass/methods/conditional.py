"""CA-MTL's parts that a task embedding conditions.

As in the released code, a modulation is (1 + gamma) * x + beta: close to the identity at the start.
`paper` asks for the paper's formula where the code has another.

Letters: U tasks of a batch, R rows, T tokens, H width, L the longest sequence, b size of a block.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onepass.encoder.attention import Bias
from onepass.encoder.batch import Group


@dataclass(frozen=True)
class Condition:
    """The task embeddings of a batch, and whose each row and token is."""

    z: Tensor  # (U, H)
    of_row: Tensor  # (R,) index into z
    of_token: Tensor  # (T,) index into z

    def by_row(self, x: Tensor) -> Tensor:
        """Each row's own: (U, ...) -> (R, ...), or (1, ...) where all rows have the same."""
        return x if len(x) == 1 else x[self.of_row]

    def by_token(self, x: Tensor) -> Tensor:
        """Each token's own: (U, ...) -> (T, ...), or (1, ...) where all tokens have the same."""
        return x if len(x) == 1 else x[self.of_token]


class SmallLinear(nn.Linear):
    """A linear layer as BERT starts them: N(0, 0.02), no bias."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.02)
        nn.init.zeros_(self.bias)


class FiLM(SmallLinear):
    """Scales and shifts that an embedding gives: (U, H) -> two of (U, size)."""

    def __init__(self, width: int, size: int):
        super().__init__(width, 2 * size)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        gamma, beta = super().forward(z).chunk(2, -1)
        return 1 + gamma, beta

    def modulate(self, x: Tensor, z: Tensor, condition: Condition) -> Tensor:
        """Tokens (T, size), each by its own task."""
        scale, shift = self(z)
        return condition.by_token(scale) * x + condition.by_token(shift)


class Alignment(nn.Module):
    """Conditional alignment of the embeddings (equation 2): element-wise; the paper has a matrix R before it."""

    def __init__(self, width: int, *, paper: bool = False):
        super().__init__()
        self.film = FiLM(width, width)
        self.matrix = nn.Parameter(torch.eye(width)) if paper else None

    def forward(self, x: Tensor, condition: Condition) -> Tensor:
        return self.film.modulate(x if self.matrix is None else x @ self.matrix, condition.z, condition)


class BlockAttention(nn.Module):
    """Conditional attention (equation 1): M(z), added to the scores of all heads inside blocks on the diagonal.

    N = H // L blocks of ceil(L / N), or one (`full`). Outside of the blocks M is 0, so tokens still see each other.
    """

    def __init__(self, width: int, length: int, *, full: bool = False, paper: bool = False):
        super().__init__()
        self.num_blocks = 1 if full else max(1, width // length)
        self.size = math.ceil(length / self.num_blocks)
        self.table = nn.Parameter(torch.zeros(length, self.size))  # A, the blocks one under another
        self.film = FiLM(width, self.size**2 if paper else self.size)
        self.paper = paper
        if paper:
            nn.init.normal_(self.table, std=0.02)

    def matrix(self, z: Tensor, length: int) -> Tensor:
        """M(z) for sequences of so many tokens: (U, H) -> (U, length, length)"""
        places = torch.arange(length, device=z.device)
        block, inside = places // self.size, places % self.size
        scale, shift = self.film(z)
        if self.paper:  # a number for each place in a block
            scale, shift = (part.unflatten(1, (self.size, self.size))[:, inside] for part in (scale, shift))
        else:  # a number for each column of a block
            scale, shift = scale.unsqueeze(1), shift.unsqueeze(1)
        values = scale * self.table[:length] + shift  # (U, length, b)
        return values[..., inside].where(block[:, None] == block, 0.0)

    def bias(self, condition: Condition, length: int) -> Bias:
        """What each row's task adds to its scores; rows are cropped to the size of their group."""
        matrix = self.matrix(condition.z, length)  # (U, length, length)

        def of_group(group: Group) -> Tensor:
            cropped = matrix[:, None, : group.size, : group.size]
            return cropped if len(cropped) == 1 else cropped[condition.of_row[group.rows]]  # (G, 1, M, M)

        return of_group


class ConditionalNorm(nn.Module):
    """Conditional layer norm (equation 3): the task modulates the weight of a norm that belongs to the encoder.

    The code leaves the bias alone; in the paper the old bias joins the weight and beta(z) is the new one.
    """

    def __init__(self, width: int, *, paper: bool = False):
        super().__init__()
        self.film = FiLM(width, width)
        self.paper = paper

    def forward(self, x: Tensor, norm: nn.LayerNorm, condition: Condition) -> Tensor:
        scale, shift = self.film(condition.z)
        old: Tensor | float = 0.0 if norm.bias is None else norm.bias
        weight = scale * norm.weight + (old if self.paper else shift)  # (U, H)
        bias = condition.by_token(shift) if self.paper else old
        return F.layer_norm(x, norm.normalized_shape, eps=norm.eps) * condition.by_token(weight) + bias


class Bottleneck(nn.Module):
    """Conditional bottleneck: modulated states, down to a third of the width and up again, with nothing between."""

    def __init__(self, width: int):
        super().__init__()
        self.transform = SmallLinear(width, width)
        self.film = FiLM(width, width)
        self.down = SmallLinear(width, width // 3)
        self.up = SmallLinear(width // 3, width)

    def forward(self, x: Tensor, condition: Condition) -> Tensor:
        x = self.film.modulate(x, self.transform(condition.z), condition)
        return self.up(self.down(x))


class TopBottleneck(nn.Module):
    """The bottleneck of the `base` form, over one layer: a conditional norm of B(layer's output) + attention's."""

    def __init__(self, width: int, eps: float, *, paper: bool = False):
        super().__init__()
        self.bottleneck = Bottleneck(width)
        self.norm = nn.LayerNorm(width, eps=eps)
        self.conditional = ConditionalNorm(width, paper=paper)

    def forward(self, output: Tensor, attended: Tensor, condition: Condition) -> Tensor:
        return self.conditional(self.bottleneck(output, condition) + attended, self.norm, condition)
