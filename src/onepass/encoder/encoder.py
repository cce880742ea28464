"""The text encoder: one implementation for all families, in parts that methods call from their own loops.

A method reads like its paper: embed, for each layer ..., finish. The plain pass is

    x = encoder.embed(encoder.words(batch.ids), batch.layout.positions, batch.types)
    for layer in encoder.layers:
        states = layer.project(x, batch.layout)
        x = layer.merge(x, layer.attend(states, batch.layout))
        x = layer.feed_forward(x)
    x = encoder.finish(x)

and a method changes the lines that its paper changes. Nothing is kept between calls. All parts but `attend` take any
leading shape, so that a method's own tokens (B, K, n, H) go through the same weights as the packed text (T, H).

Letters: B sequences, T tokens of all of them, H width of a state, E width of a word embedding.
Dropout stands where BERT has it, in every family, and works in training mode only.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onepass.encoder.attention import Bias, Prefix, attend
from onepass.encoder.batch import Batch, Group, Layout
from onepass.encoder.config import EncoderConfig
from onepass.errors import EncoderError

_gelu_tanh = partial(F.gelu, approximate="tanh")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
}
"""What the names of a configuration mean"""


class Encoder(nn.Module):
    """Turns the tokens of texts into states."""

    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.config = config
        self.width = config.width
        self.embedding_width = config.embedding_width
        self.depth = config.depth
        wide = config.embedding_width
        self.word_table = _table(config.vocab_size, wide)
        self.position_table = _table(config.max_positions, wide) if config.position_table else None
        self.type_table = _table(config.type_vocab, wide) if config.type_vocab else None
        self.embedding_norm = _norm(config, wide)
        self.projection = nn.Linear(wide, config.width) if wide != config.width else nn.Identity()
        self.relative = RelativeBias(config.relative_buckets, config.heads) if config.relative_buckets else None
        rotaries = {theta: Rotary(theta, config) for theta in (config.global_theta, config.local_theta) if theta}
        layers = nn.ModuleList(Layer(config, index, rotaries, self.relative) for index in range(config.depth))
        self.layers = cast(Sequence[Layer], layers)  # a ModuleList whose modules are known to be layers
        self.final_norm = _norm(config, config.width) if config.pre_norm else nn.Identity()

    def words(self, ids: Tensor) -> Tensor:
        """The raw word embeddings (T, E) of word pieces (T,)."""
        return cast(Tensor, self.word_table(ids))

    def embed(self, words: Tensor, positions: Tensor, types: Tensor) -> Tensor:
        """Words (T, E) to the input of the first layer (T, H): adds positions and types, normalises, projects.

        A token at position -1 carries neither a position nor a type.
        """
        places: Tensor | None = None
        if self.position_table is not None:
            places = self.position_table((positions + self.config.position_offset).clamp(min=0))
        if self.type_table is not None:
            # A table of one row (RoBERTa) has the same type for the second text.
            kinds = self.type_table(types) if self.config.type_vocab > 1 else self.type_table.weight[0]
            places = kinds if places is None else places + kinds
        if places is not None:
            words = words + places.masked_fill((positions < 0).unsqueeze(-1), 0.0)
        x = F.dropout(self.embedding_norm(words), self.config.dropout, self.training)
        return cast(Tensor, self.projection(x))

    def embedding_parameters(self) -> list[nn.Parameter]:
        """The tables of words, positions and types."""
        tables = (self.word_table, self.position_table, self.type_table)
        return [parameter for table in tables if table is not None for parameter in table.parameters()]

    def finish(self, x: Tensor) -> Tensor:
        """The last layer's output to the encoder's: the final norm of pre-norm families."""
        return cast(Tensor, self.final_norm(x))

    def forward(self, batch: Batch) -> Tensor:
        """The plain pass: one state (T, H) for each token."""
        if batch.layout.longest > self.config.capacity:
            raise EncoderError(
                f"A sequence of {batch.layout.longest} tokens is too long: "
                f"this encoder has positions for {self.config.capacity}."
            )
        x = self.embed(self.words(batch.ids), batch.layout.positions, batch.types)
        for layer in self.layers:
            x = layer(x, batch.layout)
        return self.finish(x)


class Layer(nn.Module):
    """One layer, in parts: project, attend, out, after_attention, mlp, after_mlp."""

    def __init__(
        self, config: EncoderConfig, index: int, rotaries: dict[float, "Rotary"], relative: "RelativeBias | None"
    ):
        super().__init__()
        self.config = config
        local = index in config.local_layers
        self.window = config.local_window if local else None
        self.rotary = rotaries.get(config.local_theta if local else config.global_theta)
        self.relative = (relative,)  # in a tuple, so that it is the encoder's parameter and not every layer's
        self.activation = ACTIVATIONS[config.activation]
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=config.attention_bias)
        self.attention_output = nn.Linear(config.width, config.width, bias=config.attention_bias)
        # ModernBERT's embeddings are normalised already: its first layer does without.
        bare = config.pre_norm and index == 0
        self.attention_norm = nn.Identity() if bare else _norm(config, config.width)
        self.up = nn.Linear(config.width, config.ffn_width * (2 if config.gated else 1), bias=config.mlp_bias)
        self.down = nn.Linear(config.ffn_width, config.width, bias=config.mlp_bias)
        self.mlp_norm = _norm(config, config.width)

    def project(self, x: Tensor, layout: Layout | None) -> Tensor:
        """Queries, keys and values side by side, (..., 3, heads, head_dim), of states (..., H).

        With a layout, rotary families rotate by the positions in it; without one nothing is rotated.
        """
        states = self.qkv(self.attention_norm(x) if self.config.pre_norm else x)
        return self._rotate(self._heads(states), layout)

    def keys_values(self, x: Tensor, layout: Layout | None) -> Tensor:
        """The keys and values that `project` gives, (..., 2, heads, head_dim), without the work for the queries."""
        x = self.attention_norm(x) if self.config.pre_norm else x
        bias = self.qkv.bias[self.config.width :] if self.config.attention_bias else None
        return self._rotate(self._heads(F.linear(x, self.qkv.weight[self.config.width :], bias)), layout)

    def attend(
        self,
        states: Tensor,
        layout: Layout,
        *,
        bias: Bias | None = None,
        prefix: Prefix | None = None,
    ) -> Tensor:
        """Every token reads its own sequence, with the relative bias or the window of the family.

        What `project` gave (T, 3, heads, head_dim) becomes (T, heads, head_dim).
        """
        dropout = self.config.attention_dropout if self.training else 0.0
        (relative,) = self.relative
        if relative is not None:
            bias = _sum(relative, bias)
        return attend(states, layout, bias=bias, window=self.window, prefix=prefix, dropout=dropout)

    def out(self, attended: Tensor) -> Tensor:
        """What was read (..., heads, head_dim) to (..., H)."""
        return cast(Tensor, self.attention_output(attended.flatten(-2)))

    def after_attention(self, x: Tensor, out: Tensor) -> Tensor:
        """Adds what was read to the states."""
        x = x + F.dropout(out, self.config.dropout, self.training)
        return x if self.config.pre_norm else cast(Tensor, self.attention_norm(x))

    def mlp(self, x: Tensor) -> Tensor:
        """The feed-forward part without its residual."""
        inner = self.up(self.mlp_norm(x) if self.config.pre_norm else x)
        if self.config.gated:
            inner, gate = inner.chunk(2, dim=-1)
            inner = self.activation(inner) * gate
        else:
            inner = self.activation(inner)
        return cast(Tensor, self.down(inner))

    def after_mlp(self, x: Tensor, out: Tensor) -> Tensor:
        """Adds the feed-forward part's output to the states."""
        x = x + F.dropout(out, self.config.dropout, self.training)
        return x if self.config.pre_norm else cast(Tensor, self.mlp_norm(x))

    def merge(self, x: Tensor, attended: Tensor) -> Tensor:
        """The second half of attention: output projection, residual, norm."""
        return self.after_attention(x, self.out(attended))

    def feed_forward(self, x: Tensor) -> Tensor:
        """The whole feed-forward part, with residual and norm."""
        return self.after_mlp(x, self.mlp(x))

    def forward(self, x: Tensor, layout: Layout, *, bias: Bias | None = None, prefix: Prefix | None = None) -> Tensor:
        """The plain layer: (T, H) in and out."""
        attended = self.attend(self.project(x, layout), layout, bias=bias, prefix=prefix)
        return self.feed_forward(self.merge(x, attended))

    def _heads(self, states: Tensor) -> Tensor:
        """(..., n * H) to (..., n, heads, head_dim)."""
        return states.reshape(*states.shape[:-1], -1, self.config.heads, self.config.head_dim)

    def _rotate(self, states: Tensor, layout: Layout | None) -> Tensor:
        """All but the values, which come last."""
        if self.rotary is None or layout is None:
            return states
        return torch.cat([self.rotary(states[:, :-1], layout.positions), states[:, -1:]], 1)


class Rotary(nn.Module):
    """Turns queries and keys by an angle that grows with their position. arXiv:2104.09864"""

    cos: Tensor
    sin: Tensor

    def __init__(self, theta: float, config: EncoderConfig):
        super().__init__()
        # On the CPU even when the encoder is built on the meta device: these are computed, never loaded.
        steps = torch.arange(0, config.head_dim, 2, dtype=torch.float32, device="cpu") / config.head_dim
        places = torch.arange(config.max_positions, dtype=torch.float32, device="cpu")
        angles = places[:, None] * (1.0 / theta**steps)  # (max_positions, head_dim / 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, states: Tensor, positions: Tensor) -> Tensor:
        """States (T, n, heads, head_dim) at positions (T,)."""
        cos, sin = (table[positions][:, None, None] for table in (self.cos, self.sin))  # (T, 1, 1, head_dim / 2)
        first, second = states.chunk(2, dim=-1)
        turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
        return turned.to(states.dtype)


class RelativeBias(nn.Module):
    """A learned number for each head and distance, added to the scores of all layers. Distances share buckets."""

    farthest = 128
    """Distances from here on share the last bucket"""

    def __init__(self, buckets: int, heads: int):
        super().__init__()
        self.table = _table(buckets, heads)

    def forward(self, group: Group) -> Tensor:
        """(1, heads, M, M) for a group."""
        distances = torch.arange(1 - group.size, group.size, device=group.rows.device)
        by_distance = self.table(self._bucket(distances)).t()  # (heads, 2M - 1)
        # A token reads M distances in a row, the first one those from 0 on. As windows, since the gradient of an index
        # that names a distance up to M times is added up one by one; contiguous, or no fused attention kernel takes it.
        return by_distance.unfold(1, group.size, 1).flip(1).contiguous().unsqueeze(0)

    def _bucket(self, distance: Tensor) -> Tensor:
        """Half of the buckets for tokens ahead; in each half one bucket for each near distance, then by logarithm."""
        half = self.table.num_embeddings // 2
        exact = half // 2
        far = distance.abs()
        spread = (far.clamp(min=1).float() / exact).log() / math.log(self.farthest / exact) * (half - exact)
        return torch.where(far < exact, far, (exact + spread.long()).clamp(max=half - 1)) + half * (distance > 0)


def _norm(config: EncoderConfig, width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=config.norm_eps, bias=config.norm_bias)


def _table(rows: int, width: int) -> nn.Embedding:
    """Room for an embedding table: encoders are always given their weights.

    Not drawn either: on the meta device torch's normal distribution imports its compiler, which takes seconds.
    """
    return nn.Embedding(rows, width, _weight=torch.empty(rows, width))


def _sum(relative: RelativeBias, bias: Bias | None) -> Bias:
    if bias is None:
        return relative
    return lambda group: relative(group) + bias(group)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Within the block a module drops nothing out; after it, it trains if it did before."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)
