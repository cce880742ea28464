"""CA-MTL: one encoder that a task embedding conditions in many places.

Conditionally Adaptive Multi-Task Learning: Improving Transfer Learning in NLP Using Fewer Parameters & Less Data,
arXiv:2009.09139 (equations 1 to 3, sections 2.1.1 to 2.1.4). The released code differs from the paper; we follow the
code, and `formulas: paper` asks for the paper's alignment, attention and layer norm. Our departures:
- The paper's gamma has no "1 +", which would switch the encoder off at the start; `formulas: paper` keeps the 1.
  Its R starts as the identity and its blocks A at N(0, 0.02), for it does not say.
- Texts are packed, not padded to `max_length`: M(z) is cropped to the length of a text. Lengths need not divide the
  width; an encoder narrower than `max_length` has one block.
- In frozen layers the attention's FiLM learns, as the paper means it. In the released code a wrong name keeps it at its
  random start: `frozen_films`.
- The pooler is shared, as in the code, but new: encoders come without one.
- MT-Uncertainty sampling is a sampler, not a part of this method.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder, Layer
from onepass.errors import EncoderError
from onepass.methods.asked import Asked
from onepass.methods.base import Method, Pooler, States, TokenStates, first_tokens, refuse, starts_of
from onepass.methods.conditional import (
    Alignment,
    BlockAttention,
    Bottleneck,
    Condition,
    ConditionalNorm,
    SmallLinear,
    TopBottleneck,
)
from onepass.methods.folding import once_per_ask
from onepass.methods.parts import with_parts


class EmbeddedTask(nn.Module):
    """One task's embedding, all that is its own beside its head."""

    def __init__(self, width: int):
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(width) * 0.02)


class CAMTL(Method):
    """Attention, alignment, norms and a bottleneck that depend on the task's embedding.

    The paper's values are the defaults: all modules, the lower half of the encoder frozen, 128 tokens; `bottleneck` is
    `base` for 12 layers, `large` for 24. Switch modules off for the ablation (Table 1); `blocks: full` is FBA
    (Table 10). `pretrained_top` keeps the weights of the top layer, which the `base` form trains from scratch.
    """

    one_pass = False
    gives_tokens = True

    def __init__(
        self,
        encoder: Encoder,
        *,
        alignment: bool = True,
        attention: bool = True,
        blocks: Literal["diagonal", "full"] = "diagonal",
        layer_norm: bool = True,
        bottleneck: Literal["base", "large", "none"] = "base",
        pretrained_top: bool = False,
        frozen_share: float = 0.5,
        frozen_films: bool = False,
        formulas: Literal["released", "paper"] = "released",
        max_length: int = 128,
    ):
        super().__init__(encoder)
        refuse(
            "camtl",
            not 0 <= frozen_share <= 1 and f"frozen_share is {frozen_share}; possible: from 0 to 1.",
            max_length < 1 and f"max_length is {max_length}; possible: a whole number from 1.",
        )
        width, depth, paper = encoder.width, encoder.depth, formulas == "paper"
        num_frozen = int(frozen_share * depth + 1e-9)
        self.max_length = max_length
        self.transform = SmallLinear(width, width)
        self.alignment = Alignment(width, paper=paper) if alignment else None
        self.attention: nn.ModuleList | None = None
        if attention:
            self.attention = nn.ModuleList(
                BlockAttention(width, max_length, full=blocks == "full", paper=paper) for _ in range(depth)
            )
        self.upper_half = depth - depth // 2
        self.norms: nn.ModuleList | None = None
        if layer_norm:  # of attention and of the feed-forward, in each layer of the upper half
            count = 2 * (depth - self.upper_half)
            self.norms = nn.ModuleList(ConditionalNorm(width, paper=paper) for _ in range(count))
        self.side = nn.ModuleList(Bottleneck(width) for _ in range(depth)) if bottleneck == "large" else None
        self.over_top = TopBottleneck(width, encoder.config.norm_eps, paper=paper) if bottleneck == "base" else None
        self.new_top = new_top_layer(encoder) if bottleneck == "base" and not pretrained_top else None
        self.pooler = Pooler(width)
        if num_frozen:
            for part in (encoder.embedding_norm, encoder.projection, *encoder.layers[:num_frozen]):
                part.requires_grad_(False)
            for parameter in encoder.embedding_parameters():
                parameter.requires_grad_(False)
        if frozen_films and self.attention is not None:
            for module in self.attention[:num_frozen]:
                cast(BlockAttention, module).film.requires_grad_(False)
        if self.new_top is not None:
            encoder.layers[-1].requires_grad_(False)  # nobody runs it

    def new_task(self) -> EmbeddedTask:
        return EmbeddedTask(self.encoder.width)

    def limits(self, num_tasks: int, max_length: int) -> list[str]:
        if self.attention is None or max_length <= self.max_length:
            return []
        return [
            f"method 'camtl': texts of up to {max_length} tokens, but its conditional attention has {self.max_length}. "
            f"Use method.max_length={max_length}, a smaller train.max_length, or method.attention=false."
        ]

    def forward(self, batch: Batch, asked: Tensor) -> States:
        asks = Asked(asked, batch.ids.device)
        folded = once_per_ask(batch, asked)
        embeddings = self.tasks.stacked("embedding", asks.tasks)
        condition = Condition(embeddings, asks.of_ask, asks.of_ask[folded.layout.rows])
        states = self.encode(folded, condition)
        vectors = self.pooler(first_tokens(states, folded.layout)).unflatten(0, asks.shape)  # (B, K, H)
        tokens = TokenStates(states, starts_of(folded.layout)) if self.reading_tokens(asked) else None
        return States(vectors, tokens)

    def encode(self, batch: Batch, condition: Condition) -> Tensor:
        """The states (T, H) of texts that are each read for one task."""
        encoder, layout = self.encoder, batch.layout
        if self.attention is not None and layout.longest > self.max_length:
            raise EncoderError(
                f"A sequence of {layout.longest} tokens is too long: "
                f"this model's conditional attention was made for {self.max_length}."
            )
        x = encoder.embed(encoder.words(batch.ids), layout.positions, batch.types)
        if self.alignment is not None:
            x = self.alignment(x, condition)
        inner = Condition(self.transform(condition.z), condition.of_row, condition.of_token)
        side: Tensor | float = 0.0
        for index in range(encoder.depth):
            bias = None
            if self.attention is not None:
                bias = cast(BlockAttention, self.attention[index]).bias(inner, layout.longest)
            x = self.layer(index, inner)(x, layout, bias=bias)
            if self.side is not None:
                side = self.side[index](x + side, inner)
        return encoder.finish(x if self.side is None else cast(Tensor, side))  # of the side track alone, not the sum

    def layer(self, index: int, condition: Condition) -> Layer:
        """A layer of the encoder, or the new one on top, with what depends on the task in place."""
        is_top = index == self.encoder.depth - 1
        layer = self.new_top if is_top and self.new_top is not None else self.encoder.layers[index]
        if self.norms is not None and index >= self.upper_half:
            first, second = self.norms[2 * (index - self.upper_half) :][:2]
            layer = with_parts(
                layer,
                attention_norm=partial(first, norm=layer.attention_norm, condition=condition),
                mlp_norm=partial(second, norm=layer.mlp_norm, condition=condition),
            )
        if is_top and (over := self.over_top) is not None:
            plain = layer.feed_forward
            layer = with_parts(layer, feed_forward=lambda attended: over(plain(attended), attended, condition))
        return layer


def new_top_layer(encoder: Encoder) -> Layer:
    """A last layer like the encoder's, untrained: N(0, 0.02), no biases, plain norms."""
    config, rotary = encoder.config, encoder.layers[-1].rotary
    rotaries = {} if rotary is None else {config.global_theta: rotary, config.local_theta: rotary}
    layer = Layer(config, encoder.depth - 1, rotaries, encoder.relative)
    for linear in (layer.qkv, layer.attention_output, layer.up, layer.down):
        nn.init.normal_(linear.weight, std=0.02)
        if linear.bias is not None:
            nn.init.zeros_(linear.bias)
    return layer
