"""Adapters: small bottlenecks of each task's own inside every layer of an encoder that does not learn.

Parameter-Efficient Transfer Learning for NLP, Houlsby et al. 2019, arXiv:1902.00751: x + W_up GELU(W_down x) after
the attention's output projection and after the feed-forward part, before residual and norm. Bottlenecks, all layer
norms and the head learn; so each task has its own copy of the norms, and tasks never touch each other. Where we depart:
- The released code reads [CLS] through BERT's pretrained pooler, which does not learn. Our encoders have none: the head
  reads [CLS] itself (`pooler: none`), or through a pooler of the task's own (`pooler: task`).
- Dropout comes after the bottleneck, where our layers have it; in the released code it comes before.
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Literal, cast

from torch import Tensor, nn
from torch.nn import functional as F

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder, Layer
from onepass.errors import ConfigError
from onepass.methods.asked import Asked
from onepass.methods.base import Method, Pooler, States, TokenStates, first_tokens, pool_by_task
from onepass.methods.folding import Folded
from onepass.methods.parts import with_parts


class Bottleneck(nn.Module):
    """x + W_up GELU(W_down x); nearly the identity at first."""

    def __init__(self, width: int, size: int):
        super().__init__()
        self.down = nn.Linear(width, size)
        self.up = nn.Linear(size, width)
        for linear in (self.down, self.up):
            nn.init.trunc_normal_(linear.weight, std=1e-3, a=-2e-3, b=2e-3)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + cast(Tensor, self.up(F.gelu(self.down(x))))


class AdapterLayer(nn.Module):
    """What one task has of its own in one layer."""

    def __init__(self, layer: Layer, width: int, size: int):
        super().__init__()
        self.attention = Bottleneck(width, size)
        self.mlp = Bottleneck(width, size)
        self.attention_norm = own_copy(layer.attention_norm)
        self.mlp_norm = own_copy(layer.mlp_norm)


class AdapterTask(nn.Module):
    """One task's bottlenecks and norms, and its pooler if it has one."""

    def __init__(self, encoder: Encoder, size: int, pooled: bool):
        super().__init__()
        self.embedding_norm = own_copy(encoder.embedding_norm)
        self.layers = nn.ModuleList(AdapterLayer(layer, encoder.width, size) for layer in encoder.layers)
        self.final_norm = own_copy(encoder.final_norm)
        self.pooler = Pooler(encoder.width) if pooled else None


class Adapter(Method):
    """A frozen encoder with each task's own bottlenecks in it, one pass a task.

    The paper searches bottlenecks of 8, 64 and 256 (64: the released code's default) at a rate of 3e-4, which here is
    train.head_rate.
    """

    one_pass = False
    gives_tokens = True

    def __init__(self, encoder: Encoder, *, bottleneck: int = 64, pooler: Literal["none", "task"] = "none"):
        super().__init__(encoder)
        if bottleneck < 1:
            raise ConfigError(f"method 'adapter': bottleneck is {bottleneck}; possible: a whole number from 1.")
        self.bottleneck = bottleneck
        self.pooled = pooler == "task"
        encoder.requires_grad_(False)  # only the tasks' bottlenecks and norms learn

    def new_task(self) -> AdapterTask:
        return AdapterTask(self.encoder, self.bottleneck, self.pooled)

    def forward(self, batch: Batch, asked: Tensor) -> States:
        asks = Asked(asked, batch.ids.device)
        folded = Folded(batch, asks)
        states = self.adapted(folded)(folded.batch)  # (T, H)
        vectors = folded.unfold(first_tokens(states, folded.batch.layout))  # (B, K, H)
        tokens = TokenStates(states, folded.starts) if self.reading_tokens(asked) else None
        return States(pool_by_task(vectors, self.tasks, asks) if self.pooled else vectors, tokens)

    def adapted(self, folded: Folded) -> Encoder:
        """The encoder with the tasks' parts in place, for this folded batch only."""
        tasks = [cast(AdapterTask, self.tasks[task]) for task in folded.tasks]
        own_layers = zip(*(cast(Sequence[AdapterLayer], task.layers) for task in tasks), strict=True)
        return with_parts(
            self.encoder,
            embedding_norm=partial(folded.apply, [task.embedding_norm for task in tasks]),
            layers=[adapt(layer, own, folded) for layer, own in zip(self.encoder.layers, own_layers, strict=True)],
            final_norm=partial(folded.apply, [task.final_norm for task in tasks]),
        )


def adapt(layer: Layer, own: Sequence[AdapterLayer], folded: Folded) -> Layer:
    """A layer with the parts of each of the folded tasks in place."""
    attention = partial(folded.apply, [part.attention for part in own])
    mlp = partial(folded.apply, [part.mlp for part in own])
    return with_parts(
        layer,
        attention_output=lambda x: attention(layer.attention_output(x)),
        attention_norm=partial(folded.apply, [part.attention_norm for part in own]),
        down=lambda x: mlp(layer.down(x)),
        mlp_norm=partial(folded.apply, [part.mlp_norm for part in own]),
    )


def own_copy(norm: nn.Module) -> nn.Module:
    """A copy of a norm that learns."""
    return copy.deepcopy(norm).requires_grad_(True)
