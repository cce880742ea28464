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
from typing import Literal, TypeVar, cast

from torch import Tensor, nn
from torch.nn import functional as F

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder, Layer
from onepass.errors import ConfigError
from onepass.methods.asked import Asked
from onepass.methods.base import Method, Pooler, States, first_tokens, pool_by_task
from onepass.methods.folding import Folded

M = TypeVar("M", bound=nn.Module)


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
        vectors = folded.unfold(first_tokens(states, folded.batch))  # (B, K, H)
        return States(pool_by_task(vectors, self.tasks, asks) if self.pooled else vectors)

    def adapted(self, folded: Folded) -> Encoder:
        """The encoder with the parts of the tasks in place, for this folded batch only."""
        tasks = [cast(AdapterTask, self.tasks[task]) for task in folded.tasks]
        layers = []
        for layer, *own in zip(self.encoder.layers, *(task.layers for task in tasks), strict=True):
            parts = cast(list[AdapterLayer], own)
            layers.append(
                with_parts(
                    layer,
                    attention_output=nn.Sequential(
                        layer.attention_output, ByTask(folded, [part.attention for part in parts])
                    ),
                    attention_norm=ByTask(folded, [part.attention_norm for part in parts]),
                    down=nn.Sequential(layer.down, ByTask(folded, [part.mlp for part in parts])),
                    mlp_norm=ByTask(folded, [part.mlp_norm for part in parts]),
                )
            )
        return with_parts(
            self.encoder,
            embedding_norm=ByTask(folded, [task.embedding_norm for task in tasks]),
            layers=nn.ModuleList(layers),
            final_norm=ByTask(folded, [task.final_norm for task in tasks]),
        )


class ByTask(nn.Module):
    """Each token of a folded batch through its own task's module."""

    def __init__(self, folded: Folded, parts: Sequence[nn.Module]):
        super().__init__()
        self.folded = folded
        self.parts = list(parts)  # a plain list: these are the tasks' modules, not ours

    def forward(self, x: Tensor) -> Tensor:
        return self.folded.apply(self.parts, x)


def with_parts(module: M, **parts: nn.Module) -> M:
    """The module with some of its parts replaced: a new one that shares all the rest; `module` stays as it is."""
    other = copy.copy(module)
    other._modules = {**module._modules, **parts}
    return other


def own_copy(norm: nn.Module) -> nn.Module:
    """A copy of a norm that learns."""
    return copy.deepcopy(norm).requires_grad_(True)
