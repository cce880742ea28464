"""Task prefixes: one fixed representation of a text that all tasks read, and a light head for each task on it.

Learning Easily Updated General Purpose Text Representations with Adaptable Task-Specific Prefixes, Huang et al. 2023,
arXiv:2305.13499. Source tasks learn keys and values in every layer (K_p, V_p), each alone, on a frozen encoder. Their
prefixes are then put side by side: every text is read once with all of them, and what comes out is fixed. Target
tasks learn one attention layer and one linear layer on it. Where we depart, or the paper is silent:
- The tasks of a model are its sources and its targets at once. A task that is added to a trained model is a target
  only, as in the paper's transfer: the representation stays, and so do the other tasks' answers.
- The printed K* = K'_1 + ... + K'_M would repeat the text's keys M times; the prose says prefixes only, and so do we.
  `combination: literal` repeats them, which is the same as log M more on the scores of the text's keys.
- The source's head is one linear layer on the raw [CLS] state; it is forgotten with the source's stage.
- The attention layer has the encoder's number of heads, a residual and a norm. Only its [CLS] output is read, so only
  that is computed: W_k and W_v are applied to what [CLS] asks for and gets, not to every token.
- `sources: multitask` is the paper's rival (the encoder trained on all sources together, then frozen), `sources: none`
  its lower bound. All three have the same light heads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onepass.encoder.attention import Bias, Prefix
from onepass.encoder.batch import Batch, Layout
from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder, evaluating
from onepass.methods.asked import Asked, linear_by_task
from onepass.methods.base import Method, Stage, States, TokenStates, first_tokens, refuse, shared_tokens, starts_of
from onepass.methods.folding import once_per_ask


class TextAttention(nn.Module):
    """One attention layer of a target task, over the fixed states of a text."""

    def __init__(self, config: EncoderConfig):
        super().__init__()
        width = config.width
        self.query, self.value, self.output = (nn.Linear(width, width) for _ in range(3))
        self.key = nn.Linear(width, width, bias=False)  # a bias would be the same for all tokens: softmax drops it
        self.norm = nn.LayerNorm(width, eps=config.norm_eps)
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.normal_(linear.weight, std=0.02)
        for linear in (self.query, self.value, self.output):
            nn.init.zeros_(linear.bias)


class TransferTask(nn.Module):
    """One task's prefix, if it can be a source, and its attention layer as a target."""

    def __init__(self, config: EncoderConfig, length: int):
        super().__init__()
        shape = (config.depth, 2, length, config.heads, config.head_dim)
        self.prefix = nn.Parameter(torch.randn(shape) * 0.02) if length else None
        self.attention = TextAttention(config)
        self.is_source = False
        """Whether its prefix was learned and is part of the representation"""

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.is_source)

    def set_extra_state(self, state: Tensor) -> None:
        self.is_source = bool(state)


class TaskPrefixes(Method):
    """Prefixes of all source tasks, read together; an attention layer and a head per task on what comes out.

    The paper's values: prefixes of 5, learned for 40 epochs at a rate of 5e-3 (`source_rate`: at the rates of tokens
    that learn with their encoder a prefix hardly moves); heads learned for 80 epochs at 1e-4 (train.head_rate).
    """

    depends_on_tasks = True
    caches = "tokens"
    cannot_choose = "its prefixes are learned one task at a time, and its heads on texts that are read only once"
    gives_tokens = True

    def __init__(
        self,
        encoder: Encoder,
        *,
        sources: Literal["prefix", "multitask", "none"] = "prefix",
        prefix_length: int = 5,
        prefix_dropout: float = 0.1,
        combination: Literal["prefixes", "literal"] = "prefixes",
        source_rate: float = 5e-3,
    ):
        super().__init__(encoder)
        refuse(
            "prefix",
            sources == "prefix"
            and prefix_length < 1
            and f"prefix_length is {prefix_length}; possible: a whole number from 1 (the paper: 5).",
            not 0 <= prefix_dropout < 1 and f"prefix_dropout is {prefix_dropout}; possible: from 0 to below 1.",
            not source_rate > 0 and f"source_rate is {source_rate}; possible: a number above 0.",
        )
        self.sources_are, self.source_rate = sources, source_rate
        self.prefix_length = prefix_length if sources == "prefix" else 0
        self.prefix_dropout = prefix_dropout
        self.literal = combination == "literal"

    def new_task(self) -> TransferTask:
        return TransferTask(self.encoder.config, self.prefix_length)

    def own(self, task: int) -> TransferTask:
        return cast(TransferTask, self.tasks[task])

    def prefix_of(self, task: int) -> nn.Parameter:
        return cast(nn.Parameter, self.own(task).prefix)

    def start_from(self, new: int, old: int) -> None:
        self.own(new).attention.load_state_dict(self.own(old).attention.state_dict())

    @torch.no_grad()
    def start_from_mean(self, new: int, olds: Sequence[int]) -> None:
        others = [self.own(old).attention.state_dict() for old in olds]
        for name, value in self.own(new).attention.state_dict().items():
            value.copy_(torch.stack([other[name] for other in others]).mean(0))

    def token_parameters(self) -> Iterator[nn.Parameter]:
        return (self.prefix_of(task) for task in range(len(self.tasks)) if self.prefix_length)

    # --- the sources --------------------------------------------------------------------------------------------

    @property
    def sources(self) -> list[int]:
        """The tasks whose prefixes are part of the representation."""
        return [task for task in range(len(self.tasks)) if self.own(task).is_source]

    def use(self, sources: Sequence[int]) -> None:
        """Build the representation from these tasks' prefixes; the heads on it have to be learned anew."""
        for task in range(len(self.tasks)):
            self.own(task).is_source = task in sources

    def others_depend_on(self, task: int) -> bool:
        return self.own(task).is_source

    # --- reading ------------------------------------------------------------------------------------------------

    def forward(self, batch: Batch, asked: Tensor) -> States:
        return self.from_cache(self.cache(batch), batch.layout, asked)

    @torch.no_grad()
    def cache(self, batch: Batch, tokens: bool = False) -> Tensor:
        """The fixed states (T, H) of texts: of the frozen encoder without dropout, whatever is asked."""
        with evaluating(self.encoder):
            return self.read(batch, self.combined(len(batch)), self.repetition())

    def from_cache(self, cached: Tensor, layout: Layout, asked: Tensor) -> States:
        asks = Asked(asked, cached.device)
        config = self.encoder.config
        dropout = config.dropout if self.training else 0.0

        def own(name: str) -> Tensor:
            return self.tasks.stacked(f"attention.{name}", asks.tasks)

        tokens = shared_tokens(cached, layout, asked.shape[1]) if self.reading_tokens(asked) else None
        return States(attend_from_first(cached, layout, asks, own, config, dropout), tokens)

    def combined(self, num_texts: int) -> Tensor | None:
        """The prefixes of all sources side by side, for each text: (B, L, 2, M * P, heads, d)"""
        if not self.sources:
            return None
        return torch.cat([self.prefix_of(task) for task in self.sources], 2).expand(num_texts, *[-1] * 5)

    def repetition(self) -> Bias | None:
        """What makes the text's keys count as often as there are prefixes."""
        if not self.literal or len(self.sources) < 2:
            return None
        more = math.log(len(self.sources))
        return lambda group: torch.full((1, 1, 1, 1), more, device=group.rows.device)

    def read(self, batch: Batch, prefixes: Tensor | None, bias: Bias | None = None) -> Tensor:
        """The states (T, H) of texts that are read with a prefix each, (B, L, 2, P, heads, d)."""
        encoder, layout = self.encoder, batch.layout
        x = encoder.embed(encoder.words(batch.ids), layout.positions, batch.types)  # positions as without prefixes
        for index, layer in enumerate(encoder.layers):
            prefix: Prefix | None = None if prefixes is None else (prefixes[:, index, 0], prefixes[:, index, 1])
            x = layer(x, layout, prefix=prefix, bias=bias)
        return encoder.finish(x)

    def forward_source(self, batch: Batch, asked: Tensor) -> States:
        """[CLS] of texts that are read with their own task's prefix only: how a source learns."""
        asks = Asked(asked, batch.ids.device)
        texts = once_per_ask(batch, asked)
        prefixes = asks.per_ask(self.tasks.stacked("prefix", asks.tasks)).flatten(0, 1)  # (B * K, L, 2, P, h, d)
        states = self.read(texts, F.dropout(prefixes, self.prefix_dropout, self.training))
        tokens = TokenStates(states, starts_of(texts.layout)) if self.reading_tokens(asked) else None
        return States(first_tokens(states, texts.layout).unflatten(0, asks.shape), tokens)

    def forward_together(self, batch: Batch, asked: Tensor) -> States:
        """[CLS] of the plain encoder: how the sources of the multi-task rival learn."""
        states = self.encoder(batch)
        tokens = shared_tokens(states, batch.layout, asked.shape[1]) if self.reading_tokens(asked) else None
        return States(first_tokens(states, batch.layout).unsqueeze(1).expand(-1, asked.shape[1], -1), tokens)

    # --- learning -----------------------------------------------------------------------------------------------

    def stages(self) -> list[Stage]:
        if self.sources_are == "multitask":
            return [self.multitask_stage(), self.target_stage()]
        if self.sources_are == "none":
            return [self.target_stage()]
        return [*(self.source_stage(task) for task in range(len(self.tasks))), self.target_stage()]

    def source_stage(self, task: int) -> Stage:
        """One task's prefix, learned alone."""
        return Stage(
            f"prefix {task + 1} of {len(self.tasks)}",
            tasks=[task],
            freeze_encoder=True,
            fixed=list(self.own(task).attention.parameters()),
            rate=self.source_rate,
            forward=self.forward_source,
            finish=partial(self.finish_source, task),
        )

    def multitask_stage(self) -> Stage:
        """The encoder learned on all sources together."""
        fixed = [parameter for task in range(len(self.tasks)) for parameter in self.tasks[task].parameters()]
        return Stage("sources together", fixed=fixed, forward=self.forward_together, finish=forget)

    def target_stage(self) -> Stage:
        """The tasks' attention layers and heads, learned on the fixed representation."""
        return Stage("heads", freeze_encoder=True, fixed=list(self.token_parameters()), cached=True)

    def finish_source(self, task: int, heads: Sequence[nn.Linear]) -> None:
        self.own(task).is_source = True
        heads[task].reset_parameters()


def forget(heads: Sequence[nn.Linear]) -> None:
    """The sources' heads are not the targets'."""
    for head in heads:
        head.reset_parameters()


def attend_from_first(
    x: Tensor, layout: Layout, asks: Asked, own: Callable[[str], Tensor], config: EncoderConfig, dropout: float = 0.0
) -> Tensor:
    """The first token's output of each ask's own attention layer: states (T, H) -> (B, K, H)

    `own` gives a weight of the asked tasks' layers by its name, (U, ...).

    q W_k x' and (a x) W_v give the same as q (W_k x)' and a (W_v x), without a product for every token and task.
    """
    first = x[layout.starts].unsqueeze(1).expand(-1, asks.shape[1], -1)  # (B, K, H)
    heads = config.heads
    query = linear_by_task(asks.by_task(first), own("query.weight"), own("query.bias")).unflatten(-1, (heads, -1))
    keys = own("key.weight").unflatten(1, (heads, -1))  # (U, heads, d, H)
    wanted = asks.by_row(torch.einsum("umhd,uhdw->umhw", query, keys.to(query.dtype)))  # (B, K, heads, H)
    found = mix(wanted.flatten(1, 2), x, layout, query.shape[-1] ** -0.5)  # (B, K * heads, H)
    by_task = asks.by_task(found.unflatten(1, (asks.shape[1], heads)))  # (U, M, heads, H)
    values = own("value.weight").unflatten(1, (heads, -1)).to(by_task.dtype)
    got = torch.einsum("umhw,uhdw->umhd", by_task, values).flatten(2) + own("value.bias").unsqueeze(1)  # (U, M, H)
    out = asks.by_row(linear_by_task(got, own("output.weight"), own("output.bias")))
    weight, bias = asks.per_ask(own("norm.weight")), asks.per_ask(own("norm.bias"))  # (B, K, H)
    merged = first + F.dropout(out, dropout)
    return F.layer_norm(merged, merged.shape[-1:], eps=config.norm_eps) * weight + bias


def mix(query: Tensor, x: Tensor, layout: Layout, scale: float) -> Tensor:
    """What Q queries of each text (B, Q, H) get of its tokens (T, H): their mean by softmax, (B, Q, H)"""
    parts = []
    for group, own, tokens in zip(layout.groups, layout.by_group(query), layout.pad(x), strict=True):  # (G, M, H)
        scores = own @ tokens.transpose(1, 2).to(query.dtype) * scale  # (G, Q, M)
        if group.mask is not None:
            scores = scores.masked_fill(~group.mask[:, None, :], float("-inf"))
        parts.append(scores.float().softmax(-1).to(tokens.dtype) @ tokens)
    return layout.by_row(parts)
