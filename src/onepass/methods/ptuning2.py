"""P-Tuning v2: each task's own keys and values are read beside the text's in every layer.

P-Tuning v2: Prompt Tuning Can Be Comparable to Fine-tuning Universally Across Scales and Tasks, Liu et al. 2021,
arXiv:2110.07602: attention over K' = [K_p; K] and V' = [V_p; V] in each layer, one table a task without a
reparameterising network, dropout on it, [CLS] read through a pooler. The defaults are those of MTOP's comparison
(arXiv:2205.10744), where the encoder learns and is shared by the tasks. Where we depart:
- The text keeps its positions; the released code counts them from the prefix's length on. The prefixes paper
  (arXiv:2305.13499) removes that too.
- With `frozen` the released code freezes the pooler as well, which for some encoders is a random one. Ours learns.
- MTOP starts prompts "from random common tokens", but keys and values are no embeddings: they start as N(0, 0.02), as
  in the released code of P-Tuning v2. `prefixes: token` starts each layer's as what the layer itself makes of the
  embeddings of common tokens of the task's texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onepass.encoder.batch import Batch
from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder
from onepass.errors import ConfigError
from onepass.methods.asked import Asked
from onepass.methods.base import Method, Pooler, Stage, States, TokenStates, first_tokens, pool_by_task, starts_of
from onepass.methods.folding import once_per_ask
from onepass.methods.prompts import token_prompts

if TYPE_CHECKING:
    from onepass.data.examples import Examples
    from onepass.encoder.tokenizer import Tokenizer


class PrefixTask(nn.Module):
    """One task's keys and values for every layer, and its pooler if it has one of its own."""

    def __init__(self, config: EncoderConfig, length: int, pooled: bool):
        super().__init__()
        shape = (config.depth, 2, length, config.heads, config.head_dim)
        self.prefix = nn.Parameter(torch.randn(shape) * 0.02)
        self.pooler = Pooler(config.width) if pooled else None


class PTuning2(Method):
    """A prefix of keys and values a task in every layer, one pass a task.

    P-Tuning v2 has a frozen encoder, and prefixes of under 20 for simple classification and of about 100 for sequence
    labelling, with a rate (train.token_rate) of about 5e-3.
    """

    one_pass = False
    gives_tokens = True

    def __init__(
        self,
        encoder: Encoder,
        *,
        prefix_length: int = 2,
        prefixes: Literal["random", "token"] = "random",
        prefix_dropout: float = 0.1,
        pooler: Literal["shared", "task"] = "shared",
        frozen: bool = False,
    ):
        super().__init__(encoder)
        if not 0 <= prefix_dropout < 1:
            raise ConfigError(f"method 'ptuning2': prefix_dropout is {prefix_dropout}; possible: from 0 to below 1.")
        self.prefix_length = prefix_length
        self.prefixes_from = prefixes
        self.prefix_dropout = prefix_dropout
        self.frozen = frozen
        self.pooler = Pooler(encoder.width) if pooler == "shared" else None

    def new_task(self) -> PrefixTask:
        return PrefixTask(self.encoder.config, self.prefix_length, pooled=self.pooler is None)

    @torch.no_grad()
    def add_task(self, tokenizer: Tokenizer, examples: Examples | None = None) -> None:
        task = self.new_task()
        if self.prefixes_from == "token" and examples is not None:
            words = token_prompts(self.encoder, tokenizer, examples, self.prefix_length)
            x = self.encoder.projection(self.encoder.embedding_norm(words))  # (P, H), without positions
            pairs = [layer.keys_values(x, None).transpose(0, 1) for layer in self.encoder.layers]  # (2, P, heads, d)
            task.prefix.copy_(torch.stack(pairs))
        self.tasks.append(task)

    def own(self, task: int) -> PrefixTask:
        return cast(PrefixTask, self.tasks[task])

    def token_parameters(self) -> Iterator[nn.Parameter]:
        return (self.own(task).prefix for task in range(len(self.tasks)))

    def forward(self, batch: Batch, asked: Tensor) -> States:
        asks, encoder = Asked(asked, batch.ids.device), self.encoder
        texts = once_per_ask(batch, asked)
        prefixes = asks.per_ask(self.tasks.stacked("prefix", asks.tasks)).flatten(0, 1)  # (B * K, L, 2, P, h, d)
        prefixes = F.dropout(prefixes, self.prefix_dropout, self.training)
        x = encoder.embed(encoder.words(texts.ids), texts.layout.positions, texts.types)
        for layer, prefix in zip(encoder.layers, prefixes.unbind(1), strict=True):
            key, value = prefix.unbind(1)  # (B * K, P, heads, head_dim)
            x = layer(x, texts.layout, prefix=(key, value))
        tokens = TokenStates(encoder.finish(x), starts_of(texts.layout)) if self.reading_tokens(asked) else None
        vectors = encoder.finish(first_tokens(x, texts.layout)).unflatten(0, asks.shape)  # (B, K, H)
        return States(pool_by_task(vectors, self.tasks, asks) if self.pooler is None else self.pooler(vectors), tokens)

    def stages(self) -> list[Stage]:
        return [Stage(freeze_encoder=self.frozen)]
