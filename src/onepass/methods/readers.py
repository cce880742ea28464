"""Readers: tokens of each task's own that look at the text and are seen by nobody else.

Ours; it keeps MTOP's idea (tokens per task, a conditional pooler, one pass) and changes who may look at whom. The
text attends to the text only, as in the plain encoder. A task's readers attend to the text and to that task's own
readers. So an answer does not depend on which other tasks exist or are asked; a row costs the same to train on
whatever N is; and in the last layer nothing of the text is computed but its keys and values, unless a task is asked
that reads tokens: it is given the text's last states, shared by all such tasks, and turns them by what its readers
found, (1 + scale) * x + shift.

For hundreds of tasks there are lighter forms: fewer layers (`depth`) and tokens, no feed-forward part in the last
layer (`readout: attention`), poolers of low rank, and groups of tasks that share their readers, as MTOP's outlook has
it: a group then costs what one task does, and its tasks differ by their poolers and heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onepass.encoder.attention import attend_across, read_all, reads_packed
from onepass.encoder.batch import Batch, Layout, on_device
from onepass.encoder.encoder import Encoder, evaluating
from onepass.methods.asked import Asked, linear_by_task
from onepass.methods.base import Method, Pooler, States, TokenStates, pool_by_task, refuse, shared_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onepass.data.examples import Examples
    from onepass.encoder.tokenizer import Tokenizer


AUTO_READERS = 53
"""Up to so many readers, `depth: auto` reads in two layers: with 128 tokens that costs no more than a plain pass"""
MOST_TOGETHER = 64
"""Up to so many readers of a text are read as one product in training, where fewer operations count"""
PoolerChoice = Literal["task", "low_rank", "none"]


class LowRankPooler(nn.Module):
    """tanh(x + U V x + b): nearly no pooler at first, with few weights. R is the rank."""

    def __init__(self, width: int, rank: int):
        super().__init__()
        self.down = nn.Parameter(nn.init.xavier_uniform_(torch.empty(rank, width)))  # V
        self.up = nn.Parameter(nn.init.trunc_normal_(torch.empty(width, rank), std=0.02, a=-0.04, b=0.04))  # U
        self.bias = nn.Parameter(torch.zeros(width))


class ReaderTask(nn.Module):
    """One task's reader tokens and pooler."""

    def __init__(self, tokens: int, width: int, pooler: PoolerChoice, rank: int):
        super().__init__()
        self.tokens = nn.Parameter(torch.empty(tokens, width))
        self.pooler = (
            Pooler(width) if pooler == "task" else LowRankPooler(width, rank) if pooler == "low_rank" else None
        )
        self.film: nn.Linear | None = None
        """From the task's vector to the scale and the shift of token states, if it reads them"""


class Readers(Method):
    """Each task's own tokens read the text in the top `depth` layers.

    depth: `auto` takes two layers for few tasks and one for many.
    readout: `attention` leaves out the feed-forward part of the last layer, two thirds of a reader's work there.
    pooler: `low_rank` has 2 * rank * width weights in place of width * width: of 1,000 tasks 51 MB, not 590 MB.
    """

    caches = "tokens"
    has_groups = True
    teachers = 3
    gives_tokens = True

    def __init__(
        self,
        encoder: Encoder,
        *,
        depth: int | Literal["auto"] = 2,
        tokens: int = 2,
        readout: Literal["layer", "attention"] = "layer",
        pooler: PoolerChoice = "task",
        rank: int = 16,
        noise: float = 0.01,
    ):
        super().__init__(encoder)
        refuse(
            "readers",
            depth == "auto" and "depth 'auto' is chosen when a model is trained. Give a number here.",
            depth != "auto"
            and not 1 <= depth <= encoder.depth
            and f"depth is {depth}; possible: from 1 to {encoder.depth}, the encoder's layers.",
            tokens < 1 and f"tokens is {tokens}; possible: a whole number from 1.",
            rank < 1 and f"rank is {rank}; possible: a whole number from 1.",
        )
        self.depth = cast(int, depth)
        self.num_tokens = tokens
        self.light = readout == "attention"
        self.pooler, self.rank = pooler, rank
        self.noise = noise

    @classmethod
    def settle(cls, options: Mapping[str, Any], num_tasks: int) -> dict[str, Any]:
        if options["depth"] != "auto":
            return {}
        return {"depth": 2 if num_tasks * options["tokens"] <= AUTO_READERS else 1}

    def new_task(self) -> ReaderTask:
        return ReaderTask(self.num_tokens, self.encoder.width, self.pooler, self.rank)

    @torch.no_grad()
    def add_task(self, tokenizer: Tokenizer, examples: Examples | None = None) -> None:
        """Readers start as the [CLS] input embedding with a little noise, so that they read like [CLS] at first."""
        task = self.new_task()
        first = torch.tensor(tokenizer.encode([("",)])[0].ids[:1], device=self.device)
        zero = torch.zeros_like(first)
        with evaluating(self.encoder):
            cls = self.encoder.embed(self.encoder.words(first), zero, zero)  # (1, H)
        task.tokens.copy_(cls.cpu() + self.noise * torch.randn(task.tokens.shape))
        self.tasks.append(task)

    def let_read_tokens(self, task: int) -> None:
        super().let_read_tokens(task)
        film = nn.Linear(self.encoder.width, 2 * self.encoder.width)
        nn.init.zeros_(film.weight)  # at first tokens are read as they are
        nn.init.zeros_(film.bias)
        self.own(task).film = film

    def share(self, new: int, old: int) -> None:
        self.own(new).tokens = self.own(old).tokens
        self.tasks.forget()

    def shares_alike(self, one: int, other: int) -> bool:
        return torch.equal(self.own(one).tokens, self.own(other).tokens)

    def readers_of(self) -> np.ndarray:
        """(N,) for each task the first one that has the same readers."""

        def find() -> np.ndarray:
            first: dict[int, int] = {}
            return np.array([first.setdefault(id(task.tokens), number) for number, task in enumerate(self.tasks)])

        return self.tasks.remember("readers", find)

    def own(self, task: int) -> ReaderTask:
        return cast(ReaderTask, self.tasks[task])

    def token_parameters(self) -> Iterator[nn.Parameter]:
        return (self.own(task).tokens for task in range(len(self.tasks)))

    def engine_recipe(self) -> dict[str, Any]:
        return {"runner": "readers", "depth": self.depth, "readout": "attention" if self.light else "layer"}

    def forward(self, batch: Batch, asked: Tensor) -> States:
        text, states = self.keys_values(batch, bool(self.reading_tokens(asked)))
        return self.answer(text, states, batch.layout, asked)

    def cache(self, batch: Batch, tokens: bool = False) -> Tensor:
        """The keys and values of the top layers, and the last states if tokens are read: (T, depth * 2 * H [+ H])"""
        text, states = self.keys_values(batch, tokens)
        parts = [part.flatten(1) for part in text]
        return torch.cat(parts if states is None else [*parts, states], 1)

    def from_cache(self, cached: Tensor, layout: Layout, asked: Tensor) -> States:
        parts = cached.split(2 * self.encoder.width, 1)
        text = [part.unflatten(1, (2, self.encoder.config.heads, -1)) for part in parts[: self.depth]]
        return self.answer(text, parts[-1] if len(parts) > self.depth else None, layout, asked)

    def keys_values(self, batch: Batch, tokens: bool) -> tuple[list[Tensor], Tensor | None]:
        """The text's keys and values (T, 2, heads, d) in the top layers; with `tokens` its last states (T, H)."""
        encoder, layout = self.encoder, batch.layout
        x = encoder.embed(encoder.words(batch.ids), layout.positions, batch.types)
        entry = encoder.depth - self.depth
        for layer in encoder.layers[:entry]:
            x = layer(x, layout)
        found = []
        for layer in encoder.layers[entry:] if tokens else encoder.layers[entry:-1]:
            projected = layer.project(x, layout)
            found.append(projected[:, 1:])
            x = layer.feed_forward(layer.merge(x, layer.attend(projected, layout)))
        if tokens:
            return found, encoder.finish(x)
        # Nobody looks at the text after the last layer: its keys and values are all that is needed there.
        return [*found, encoder.layers[-1].keys_values(x, layout)], None

    def answer(self, text: Sequence[Tensor], states: Tensor | None, layout: Layout, asked: Tensor) -> States:
        """What the asked tasks' readers make of the text's keys and values, and of its last states."""
        asks = Asked(asked, text[0].device)
        vectors = self.pool(self.read_in_groups(text, layout, asked, asks), asks)
        return States(vectors, None if states is None else self.condition(states, vectors, layout, asks), asks)

    def read_in_groups(self, text: Sequence[Tensor], layout: Layout, asked: Tensor, asks: Asked) -> Tensor:
        """The readers' mean states (B, K, H); those that several tasks share read once."""
        readers = self.readers_of()[asks.tasks]  # (U,)
        if len(np.unique(readers)) == len(readers):
            return self.read(text, layout, asks)
        wanted = self.readers_of()[asked.numpy()]  # (B, K)
        if (wanted != wanted[:1]).any():
            return self.read(text, layout, Asked(torch.from_numpy(wanted), asks.device))
        once, column = np.unique(wanted[0], return_inverse=True)  # all texts ask the same
        vectors = self.read(text, layout, Asked(torch.from_numpy(once).expand(len(layout), -1), asks.device))
        return vectors[:, on_device(column, vectors.device)]

    def read(self, text: Sequence[Tensor], layout: Layout, asks: Asked) -> Tensor:
        """The readers' mean states (B, K, H), before the poolers."""
        tokens = self.tasks.stacked("tokens", asks.tasks)  # (U, n, H)
        readers = asks.per_ask(tokens).flatten(0, 2)  # (B * K * n, H)
        layers = self.encoder.layers[-self.depth :]
        dropout = self.encoder.config.attention_dropout if self.training else 0.0
        for number, (layer, keys_values) in enumerate(zip(layers, text, strict=True)):
            if number:
                own = layer.project(readers, None).unflatten(0, (*asks.shape, self.num_tokens))
            else:  # what readers bring to their first layer is alike for all texts: computed once a task
                own = asks.per_ask(layer.project(tokens, None))  # (B, K, n, 3, heads, d)
            got = read(own, keys_values, layout, dropout)
            readers = layer.merge(readers, got.flatten(0, 2))
            if not self.light or layer is not layers[-1]:
                readers = layer.feed_forward(readers)
        return self.encoder.finish(readers).unflatten(0, (*asks.shape, self.num_tokens)).mean(2)

    def condition(self, states: Tensor, vectors: Tensor, layout: Layout, asks: Asked) -> TokenStates:
        """The text's states (T, H) as each ask that reads tokens sees them."""
        flat = vectors.flatten(0, 1)  # (B * K, H)
        turned = flat.new_zeros(len(flat), 2 * flat.shape[-1])
        for task, own in zip(asks.tasks.tolist(), asks.asks, strict=True):
            if (film := self.own(task).film) is not None:
                numbers = on_device(own, flat.device)
                turned = turned.index_copy(0, numbers, film(flat[numbers]).to(turned.dtype))
        shared = shared_tokens(states, layout, vectors.shape[1])
        shared.scale, shared.shift = turned.chunk(2, -1)
        return shared

    def pool(self, vectors: Tensor, asks: Asked) -> Tensor:
        """Each ask through its task's pooler: (B, K, H) -> (B, K, H)"""
        if self.pooler == "none":
            return vectors
        if self.pooler == "task":
            return pool_by_task(vectors, self.tasks, asks)
        x = asks.by_task(vectors)  # (U, M, H)
        down, up, bias = (self.tasks.stacked(f"pooler.{name}", asks.tasks) for name in ("down", "up", "bias"))
        inner = x @ down.transpose(1, 2).to(x.dtype)  # (U, M, R)
        return torch.tanh(asks.by_row(x + linear_by_task(inner, up, bias)))


def read(own: Tensor, text: Tensor, layout: Layout, dropout: float) -> Tensor:
    """What readers get from the text and from their own task's readers, (B, K, n, heads, d).

    `own`: the readers' queries, keys and values (B, K, n, 3, heads, d); `text`: its keys and values (T, 2, heads, d).
    """
    learns = torch.is_grad_enabled()
    if not learns and dropout == 0.0 and reads_packed(own):
        return read_packed(own, text, layout)
    read_group = read_together if learns and own.shape[1] * own.shape[2] <= MOST_TOGETHER else read_apart
    groups = zip(layout.by_group(own), layout.pad(text), layout.unseen(own.dtype), strict=True)
    return layout.by_row([read_group(readers, tokens, mask, dropout) for readers, tokens, mask in groups])


def read_together(own: Tensor, text: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """One group as few operations: the text and the readers of all tasks are read at once, those of others masked.

    `own` (G, K, n, 3, heads, d), `text` (G, M, 2, heads, d); `mask` (G, 1, 1, M) is added to the text's scores.
    """
    num_tasks, num_tokens = own.shape[1:3]
    query, *rest = own.flatten(1, 2).split((1, 2), 2)  # (G, Q, 1, heads, d), (G, Q, 2, heads, d)
    keys, values = torch.cat([text, *rest], 1).unbind(2)
    count = num_tasks * num_tokens
    if num_tasks > 1:
        task = torch.arange(num_tasks, device=own.device).repeat_interleave(num_tokens)
        others = own.new_zeros(()).where(task == task[:, None], -torch.inf)  # (Q, Q)
        on_text = own.new_zeros(1, 1, 1, text.shape[1]) if mask is None else mask
        rows = len(on_text)
        mask = torch.cat([on_text.expand(-1, -1, count, -1), others.expand(rows, 1, -1, -1)], -1)  # (G, 1, Q, M + Q)
    elif mask is not None:
        mask = F.pad(mask, (0, count))
    return read_all(query.squeeze(2), keys, values, mask, dropout).unflatten(1, (num_tasks, num_tokens))


def read_apart(own: Tensor, text: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """The same for many tasks, whose readers are too many to be read by each other's."""
    query, own_key, own_value = own.permute(3, 0, 4, 1, 2, 5).unbind()  # (G, heads, K, n, d)
    text_key, text_value = text.permute(2, 0, 3, 1, 4).unbind()  # (G, heads, M, d)
    shape = query.shape[2:4]
    # All readers of a text share its keys: one product.
    on_text = (query.flatten(2, 3) @ text_key.transpose(-1, -2)).unflatten(2, shape)  # (G, heads, K, n, M)
    if mask is not None:
        on_text = on_text + mask.unsqueeze(2)
    # A task's own readers are one or two: sums of products, since so small matrices are multiplied slowly.
    on_own = (query.unsqueeze(-2) * own_key.unsqueeze(-3)).sum(-1)  # (G, heads, K, n, n)
    weights = (torch.cat([on_text, on_own], -1).float() * query.shape[-1] ** -0.5).softmax(-1).to(query.dtype)
    weights = F.dropout(weights, dropout) if dropout else weights
    on_text, on_own = weights.split((text_key.shape[2], shape[1]), -1)
    from_text = on_text.flatten(2, 3) @ text_value  # (G, heads, K * n, d)
    from_own = (on_own.unsqueeze(-1) * own_value.unsqueeze(-3)).sum(-2)  # (G, heads, K, n, d)
    return (from_text.unflatten(2, shape) + from_own).movedim(1, -2)  # (G, K, n, heads, d)


def read_packed(own: Tensor, text: Tensor, layout: Layout) -> Tensor:
    """The same by a kernel that reads the packed text: what a reader got from it is joined with what it gets from its
    task's own readers, as one softmax over all would."""
    query, own_key, own_value = own.unbind(3)  # (B, K, n, heads, d)
    key, value = text.unbind(1)
    from_text, sums = attend_across(query.flatten(1, 2), key, value, layout)
    from_text, sums = from_text.view(query.shape), sums.view(query.shape[:-1])
    on_own = (query.unsqueeze(3) * own_key.unsqueeze(2)).sum(-1)  # (B, K, n, n, heads)
    scores = torch.cat([sums.unsqueeze(3), on_own.float() * query.shape[-1] ** -0.5], 3)
    weights = scores.softmax(3).to(query.dtype).unsqueeze(-1)  # (B, K, n, 1 + n, heads, 1)
    return weights[:, :, :, 0] * from_text + (weights[:, :, :, 1:] * own_value.unsqueeze(2)).sum(3)
