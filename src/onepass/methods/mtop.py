"""MTOP: the prompts of all tasks are read together with the text, in one pass.

Multi-Task Learning with One Pass, arXiv:2205.10744 (equations 1 to 3). No code was released; where the paper is silent:
- Prompts are word embeddings put before [CLS]; `positions: shifted` (default) counts positions over prompts and text,
  as the
  TensorFlow Model Garden's encoder does with dense inputs; `positions: none` gives prompts no position and leaves the
  text's as they were.
- The frozen single-task stage behind ST initialisation trains all tasks' prompts side by side in mixed batches: with
  a frozen
  encoder nothing is shared, so that is the same as one run per task.
- Heads are not copied from the single-task stage unless `copy_heads` is set; the paper speaks of prompts and poolers
  only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch, Layout
from onepass.encoder.encoder import Encoder
from onepass.errors import ConfigError
from onepass.methods.asked import Asked
from onepass.methods.base import Method, PooledTask, Stage, States, pool_by_task

if TYPE_CHECKING:
    from onepass.data.examples import Examples
    from onepass.encoder.tokenizer import Tokenizer

Start = Literal["random", "token", "single"]
COMMON_TOKENS = 5000  # TK draws from so many of the data set's most frequent tokens


class PromptedTask(PooledTask):
    """One task's prompts, in the space of word embeddings, and its pooler."""

    def __init__(self, length: int, embedding_width: int, width: int):
        super().__init__(width)
        self.prompts = random_prompts(length, embedding_width)


def random_prompts(length: int, width: int) -> nn.Parameter:
    """RD initialisation: a normal of 0.02, drawn again beyond twice that."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(length, width), std=0.02, a=-0.04, b=0.04))


class MTOP(Method):
    """Prompts of all tasks before the text; each task's answer is the mean state of its own prompts.

    The paper's values: 2 prompts a task, no shared ones, prompts and poolers from single-task models (`single`).
    """

    depends_on_tasks = True

    def __init__(
        self,
        encoder: Encoder,
        *,
        prompt_length: int = 2,
        shared_prompts: int = 0,
        stop_gradient: bool = True,
        positions: Literal["shifted", "none"] = "shifted",
        prompts: Start = "random",
        poolers: Literal["random", "single"] = "random",
        copy_heads: bool = False,
    ):
        super().__init__(encoder)
        if copy_heads and "single" not in (prompts, poolers):
            raise ConfigError(
                "method 'mtop': copy_heads needs the single-task stage; set prompts or poolers to 'single'."
            )
        self.prompt_length = prompt_length
        self.stop_gradient = stop_gradient
        self.shifted = positions == "shifted"
        self.prompts_from, self.poolers_from = prompts, poolers
        self.copy_heads = copy_heads
        self.shared = random_prompts(shared_prompts, encoder.embedding_width) if shared_prompts else None

    def new_task(self) -> PromptedTask:
        return PromptedTask(self.prompt_length, self.encoder.embedding_width, self.encoder.width)

    @torch.no_grad()
    def add_task(self, tokenizer: Tokenizer, examples: Examples | None = None) -> None:
        task = self.new_task()
        if self.prompts_from == "token" and examples is not None:
            special = tokenizer.encode([("",)])[0].ids
            ids = torch.from_numpy(draw_common_tokens(examples.ids, special, self.prompt_length))
            task.prompts.copy_(self.encoder.words(ids.to(self.device)).cpu())
        self.tasks.append(task)

    def own(self, task: int) -> PromptedTask:
        return cast(PromptedTask, self.tasks[task])

    def token_parameters(self) -> Iterator[nn.Parameter]:
        yield from (self.own(task).prompts for task in range(len(self.tasks)))
        if self.shared is not None:
            yield self.shared

    def limits(self, num_tasks: int, max_length: int) -> list[str]:
        extra = num_tasks * self.prompt_length + (0 if self.shared is None else len(self.shared))
        most = self.encoder.config.capacity
        if not self.shifted or extra + max_length <= most:
            return []
        return [
            f"method 'mtop': {num_tasks} tasks put {extra} prompts before texts of up to {max_length} tokens, but this "
            f"encoder has {most} positions. Use method.positions=none, a smaller train.max_length, or 'readers'."
        ]

    def forward(self, batch: Batch, asked: Tensor) -> States:
        # All prompts are read, then we select: dropping those not asked for would change the answers.
        asks = Asked(asked, batch.ids.device)
        prompts = self.all_prompts(asked, asks)  # (B, N, P, E)
        hidden = self.encode(prompts.flatten(1, 2), batch)  # (B, N * P, H)
        states = hidden.unflatten(1, (-1, self.prompt_length)).mean(2)  # (B, N, H), equation 1
        rows = torch.arange(len(batch), device=states.device).unsqueeze(1)
        return States(pool_by_task(states[rows, asked.to(states.device)], self.tasks, asks))

    def forward_alone(self, batch: Batch, asked: Tensor) -> States:
        """Each ask in a pass of its own, with its own task's prompts only: the single-task models behind ST."""
        asks = Asked(asked, batch.ids.device)
        folded = batch.select([row for row in range(len(batch)) for _ in range(asked.shape[1])])
        prompts = asks.per_ask([self.own(task).prompts for task in asks.tasks]).flatten(0, 1)  # (B * K, P, E)
        states = self.encode(prompts, folded).mean(1).unflatten(0, asks.shape)
        return States(pool_by_task(states, self.tasks, asks))

    def all_prompts(self, asked: Tensor, asks: Asked) -> Tensor:
        """Every task's prompts for every text, (B, N, P, E), with the gradient stopped at those the text does not ask.

        The stop is at the leaves: the loss still reaches the encoder through the other tasks' prompt states.
        """
        present = set(asks.tasks)
        own: list[Tensor] = [self.own(task).prompts for task in range(len(self.tasks))]
        if not self.training or not self.stop_gradient:
            return torch.stack(own).expand(len(asked), -1, -1, -1)
        # A task that no row asks must not even have a gradient of zero, or Adam would still move its prompts.
        leaves = torch.stack([p if i in present else p.detach() for i, p in enumerate(own)])
        is_own = torch.zeros(len(asked), len(own), dtype=torch.bool).scatter_(1, asked, True).to(leaves.device)
        return torch.where(is_own[:, :, None, None], leaves, leaves.detach())

    def encode(self, prompts: Tensor, batch: Batch) -> Tensor:
        """The last layer's states of prompts (B, Q, E) put before the texts: (B, Q, H)"""
        encoder, device = self.encoder, batch.ids.device
        if self.shared is not None:
            prompts = torch.cat([self.shared.expand(len(batch), -1, -1), prompts], 1)
        count = prompts.shape[1]
        layout = Layout([count + length for length in batch.layout.lengths], device=device)
        place_of_text = torch.arange(batch.layout.total, device=device) + count * (batch.layout.rows + 1)
        place_of_prompt = (layout.starts.unsqueeze(1) + torch.arange(count, device=device)).flatten()
        words = encoder.words(batch.ids)
        joined = words.new_empty(layout.total, words.shape[-1])
        joined = joined.index_copy(0, place_of_prompt, prompts.flatten(0, 1).to(words.dtype)).index_copy(
            0, place_of_text, words
        )
        types = torch.zeros(layout.total, dtype=torch.long, device=device).index_copy(0, place_of_text, batch.types)
        positions = layout.positions
        if not self.shifted:
            positions = (positions - count).clamp(min=-1)
        x = encoder.embed(joined, positions, types)
        for layer in encoder.layers:
            x = layer(x, layout)
        own = slice(0 if self.shared is None else len(self.shared), None)
        return encoder.finish(x[place_of_prompt]).unflatten(0, (len(batch), count))[:, own]

    def stages(self) -> list[Stage]:
        joint = Stage()
        if "single" not in (self.prompts_from, self.poolers_from):
            return [joint]
        return [
            Stage("single-task prompts", freeze_encoder=True, forward=self.forward_alone, finish=self.keep_from_single),
            joint,
        ]

    @torch.no_grad()
    def keep_from_single(self, heads: Sequence[nn.Linear]) -> None:
        """Keep of the single-task stage what the options name; the rest starts anew."""
        for number, head in enumerate(heads):
            task, fresh = self.own(number), self.new_task().to(self.device)
            if self.prompts_from != "single":
                task.prompts.copy_(fresh.prompts)
            if self.poolers_from != "single":
                task.pooler.load_state_dict(fresh.pooler.state_dict())
            if not self.copy_heads:
                head.reset_parameters()


def draw_common_tokens(ids: np.ndarray, special: Sequence[int], count: int) -> np.ndarray:
    """TK initialisation: tokens drawn, without repeating, from the most frequent ones of the task's own texts."""
    counts = np.bincount(ids)
    counts[[token for token in special if token < len(counts)]] = 0
    common = np.argsort(-counts, kind="stable")[:COMMON_TOKENS]
    common = common[counts[common] > 0]
    chosen = torch.randperm(len(common))[:count].numpy()  # torch's generator, so that the run's seed rules it
    return np.resize(common[chosen], count)
