"""PALs: a small attention of each task's own beside every layer of a shared encoder.

BERT and PALs: Projected Attention Layers for Efficient Adaptation in Multi-Task Learning, Stickland and Murray 2019,
arXiv:1902.02671. A layer with input h and post-attention states a gives LN(FFN(a) + a + PAL(h)), where
PAL(h) = GELU(V_D MHA(V_E h)) and MHA has no output projection. V_E and V_D are a task's own and shared by its layers;
queries, keys and values are of each task and layer. `attention: false` is the paper's low-rank rival: V_D GELU(V_E h)
with matrices of each task and layer. The whole model learns, with a shared pooler and (in the paper) annealed sampling.
As in the released code there are 6 heads, the GELU comes after V_D, and all linear layers have biases.
Families with norms before attention have no LN at the end of a layer; h and a are their unnormalised states.
"""

from typing import Literal, cast

from torch import Tensor, nn
from torch.nn import functional as F

from onepass.encoder.attention import attend
from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder, Layer
from onepass.errors import ConfigError
from onepass.methods.asked import Asked
from onepass.methods.base import Method, Pooler, States, TokenStates, first_tokens, pool_by_task
from onepass.methods.folding import Folded
from onepass.methods.parts import with_parts


class PalTask(nn.Module):
    """One task's projections, shared by the layers, and its attention in each layer."""

    def __init__(self, width: int, depth: int, size: int, pooled: bool):
        super().__init__()
        self.encode = small_linear(width, size)  # V_E
        self.qkv = nn.ModuleList(small_linear(size, 3 * size) for _ in range(depth))
        self.decode = small_linear(size, width)  # V_D
        self.pooler = Pooler(width) if pooled else None


class LowRankTask(nn.Module):
    """One task's two matrices in each layer."""

    def __init__(self, width: int, depth: int, size: int, pooled: bool):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(small_linear(width, size), nn.GELU(), small_linear(size, width)) for _ in range(depth)
        )
        self.pooler = Pooler(width) if pooled else None


class PALs(Method):
    """Projected attention of each task's own added to every layer, one pass a task.

    The paper's values, for BERT-base: a size of 204, or 100 without attention, and one rate of 2e-5 for everything.
    """

    one_pass = False
    gives_tokens = True

    def __init__(
        self,
        encoder: Encoder,
        *,
        size: int = 0,
        heads: int = 6,
        attention: bool = True,
        pooler: Literal["shared", "task"] = "shared",
    ):
        """`size` 0 is the paper's share of the encoder's width: 204 (without attention 100) of 768."""
        super().__init__(encoder)
        if heads < 1 or (attention and size % heads):
            raise ConfigError(
                f"method 'pals': a size of {size} cannot be divided among {heads} heads; possible: heads from 1, and a "
                "size that is a multiple of them (0: in proportion to the encoder's width)."
            )
        self.size = size or default_size(encoder.width, heads if attention else 1, 204 if attention else 100)
        self.heads = heads
        self.attention = attention
        self.pooler = Pooler(encoder.width) if pooler == "shared" else None

    def new_task(self) -> nn.Module:
        width, depth, pooled = self.encoder.width, self.encoder.depth, self.pooler is None
        task = PalTask if self.attention else LowRankTask
        return task(width, depth, self.size, pooled)

    def forward(self, batch: Batch, asked: Tensor) -> States:
        asks, encoder = Asked(asked, batch.ids.device), self.encoder
        folded = Folded(batch, asks)
        texts = folded.batch
        beside = self.projected_attention if self.attention else self.low_rank
        x = encoder.embed(encoder.words(texts.ids), texts.layout.positions, texts.types)
        for number, layer in enumerate(encoder.layers):
            x = with_extra(layer, beside(x, number, folded))(x, texts.layout)
        vectors = folded.unfold(encoder.finish(first_tokens(x, texts.layout)))  # (B, K, H)
        tokens = TokenStates(encoder.finish(x), folded.starts) if self.reading_tokens(asked) else None
        return States(pool_by_task(vectors, self.tasks, asks) if self.pooler is None else self.pooler(vectors), tokens)

    def projected_attention(self, x: Tensor, layer: int, folded: Folded) -> Tensor:
        """PAL(h) of each token's own task: (T, H) -> (T, H)"""
        tasks = [cast(PalTask, self.tasks[task]) for task in folded.tasks]
        small = folded.apply([task.encode for task in tasks], x)  # (T, d)
        states = folded.apply([task.qkv[layer] for task in tasks], small)  # (T, 3 * d)
        states = states.unflatten(-1, (3, self.heads, -1))
        dropout = self.encoder.config.attention_dropout if self.training else 0.0
        read = attend(states, folded.batch.layout, dropout=dropout)  # (T, heads, d / heads)
        return F.gelu(folded.apply([task.decode for task in tasks], read.flatten(-2)))

    def low_rank(self, x: Tensor, layer: int, folded: Folded) -> Tensor:
        """V_D GELU(V_E h) of each token's own task: (T, H) -> (T, H)"""
        return folded.apply([cast(LowRankTask, self.tasks[task]).layers[layer] for task in folded.tasks], x)


def with_extra(layer: Layer, extra: Tensor) -> Layer:
    """A layer that adds `extra` (T, H) to the residual of its feed-forward part."""
    return with_parts(layer, after_mlp=lambda x, out: layer.after_mlp(x + extra, out))


def small_linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer with weights of N(0, 0.02) and no bias at first, as BERT's start."""
    linear = nn.Linear(inputs, outputs)
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)
    return linear


def default_size(width: int, heads: int, size_at_768: int) -> int:
    """The paper's size in proportion to the width, as the nearest multiple of the heads.

    >>> default_size(768, 6, 204), default_size(384, 6, 204), default_size(384, 1, 100)
    (204, 102, 50)
    """
    return max(1, round(width * size_at_768 / (768 * heads))) * heads
