"""MTOP: the prompts of all tasks are read together with the text, in one pass.

All Birds with One Stone: Multi-task Text Classification for Efficient Inference with One Forward Pass,
arXiv:2205.10744 (equations 1 to 3). No code was released; where the paper is silent:
- Prompts are word embeddings put before [CLS]; `positions: shifted` (default) counts positions over prompts and
  text, as the TensorFlow Model Garden's encoder does with dense inputs; `positions: none` gives prompts no position
  and leaves the text's as they were. Layers that know places themselves (ModernBERT, MPNet) count prompts all the same.
- The frozen single-task stage behind ST initialisation trains all tasks' prompts side by side in mixed batches: with
  a frozen encoder nothing is shared, so that is the same as one run per task.
  Its learning rate is `single_rate`: with a fixed encoder the joint training's 1e-5 would move nothing.
- In that stage a task's prompts stand first, as in a model of its own. `single_positions: own` gives them, and the
  text, the positions that they will have among all tasks' prompts. Shared prompts come in only afterwards.
- Heads are not copied from the single-task stage unless `copy_heads` is set; the paper speaks of prompts and poolers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder
from onepass.methods.asked import Asked
from onepass.methods.base import (
    Method,
    PooledTask,
    Stage,
    States,
    TokenStates,
    pool_by_task,
    refuse,
    shared_tokens,
    starts_of,
)
from onepass.methods.folding import once_per_ask
from onepass.methods.prompts import no_room, random_prompts, read_prompted, token_prompts

if TYPE_CHECKING:
    from onepass.data.examples import Examples
    from onepass.encoder.tokenizer import Tokenizer

Start = Literal["random", "token", "single"]


class PromptedTask(PooledTask):
    """One task's prompts, in the space of word embeddings, and its pooler."""

    def __init__(self, length: int, embedding_width: int, width: int):
        super().__init__(width)
        self.prompts = random_prompts(length, embedding_width)
        self.first_prompts: Tensor = self.prompts.detach().clone()
        """Where its prompts began, before any stage"""


class MTOP(Method):
    """Prompts of all tasks before the text; each task's answer is the mean state of its own prompts.

    The paper's values: 2 prompts a task, no shared ones, prompts and poolers from single-task models (`single`).
    """

    depends_on_tasks = True
    gives_tokens = True
    cannot_add = "the prompts of its tasks read each other, so that the answers of all of them would change"

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
        single_rate: float = 1e-3,
        single_positions: Literal["first", "own"] = "first",
    ):
        super().__init__(encoder)
        refuse(
            "mtop",
            prompt_length < 1 and f"prompt_length is {prompt_length}; possible: a whole number from 1 (the paper: 2).",
            not single_rate > 0 and f"single_rate is {single_rate}; possible: a number above 0.",
            copy_heads
            and "single" not in (prompts, poolers)
            and "copy_heads needs the single-task stage; set prompts or poolers to 'single'.",
        )
        self.prompt_length = prompt_length
        self.stop_gradient = stop_gradient
        self.shifted = positions == "shifted"
        self.prompts_from, self.poolers_from = prompts, poolers
        self.copy_heads = copy_heads
        self.single_rate, self.single_positions = single_rate, single_positions
        self.shared = random_prompts(shared_prompts, encoder.embedding_width) if shared_prompts else None

    def new_task(self) -> PromptedTask:
        return PromptedTask(self.prompt_length, self.encoder.embedding_width, self.encoder.width)

    @torch.no_grad()
    def add_task(self, tokenizer: Tokenizer, examples: Examples | None = None) -> None:
        task = self.new_task()
        if self.prompts_from == "token" and examples is not None:
            task.prompts.copy_(token_prompts(self.encoder, tokenizer, examples, self.prompt_length))
            task.first_prompts = task.prompts.detach().clone()
        self.tasks.append(task)

    def own(self, task: int) -> PromptedTask:
        return cast(PromptedTask, self.tasks[task])

    def token_parameters(self) -> Iterator[nn.Parameter]:
        yield from (self.own(task).prompts for task in range(len(self.tasks)))
        if self.shared is not None:
            yield self.shared

    def limits(self, num_tasks: int, max_length: int) -> list[str]:
        extra = num_tasks * self.prompt_length + (0 if self.shared is None else len(self.shared))
        advice = "a smaller train.max_length, or 'readers'"
        fault = no_room(self.encoder, extra, max_length, shifted=self.shifted, advice=advice)
        return [f"method 'mtop': {num_tasks} tasks put {extra} prompts {fault}"] if fault else []

    def forward(self, batch: Batch, asked: Tensor) -> States:
        # All prompts are read, then we select: dropping those not asked for would change the answers.
        asks = Asked(asked, batch.ids.device)
        prompts = self.all_prompts(asked, asks)  # (B, N, P, E)
        reads_tokens = bool(self.reading_tokens(asked))
        hidden, text = self.encode(prompts.flatten(1, 2), batch, reads_tokens)  # (B, N * P, H)
        states = hidden.unflatten(1, (-1, self.prompt_length)).mean(2)  # (B, N, H), equation 1
        rows = torch.arange(len(batch), device=states.device).unsqueeze(1)
        tokens = None if text is None else shared_tokens(text, batch.layout, asked.shape[1])
        return States(pool_by_task(states[rows, asked.to(states.device)], self.tasks, asks), tokens)

    def forward_alone(self, batch: Batch, asked: Tensor) -> States:
        """Each ask in a pass of its own, with its own task's prompts only: the single-task models behind ST."""
        asks = Asked(asked, batch.ids.device)
        folded = once_per_ask(batch, asked)
        prompts = asks.per_ask(self.tasks.stacked("prompts", asks.tasks)).flatten(0, 1)  # (B * K, P, E)
        places = None
        if self.single_positions == "own":
            shared = 0 if self.shared is None else len(self.shared)
            first = shared + self.prompt_length * asked.flatten().to(prompts.device).unsqueeze(1)  # (B * K, 1)
            own = first + torch.arange(self.prompt_length, device=prompts.device)
            places = own, shared + self.prompt_length * len(self.tasks)
        reads_tokens = bool(self.reading_tokens(asked))
        hidden, text = read_prompted(
            self.encoder, prompts, folded, shifted=self.shifted, tokens=reads_tokens, places=places
        )
        states = hidden[:, :-1].mean(1).unflatten(0, asks.shape)
        tokens = None if text is None else TokenStates(text, starts_of(folded.layout))
        return States(pool_by_task(states, self.tasks, asks), tokens)

    def all_prompts(self, asked: Tensor, asks: Asked) -> Tensor:
        """Every task's prompts for every text, (B, N, P, E), with the gradient stopped at those the text does not ask.

        The stop is at the leaves: the loss still reaches the encoder through the other tasks' prompt states.
        """
        present = set(asks.tasks)
        if not self.training or not self.stop_gradient:
            return self.tasks.stacked("prompts", np.arange(len(self.tasks))).expand(len(asked), -1, -1, -1)
        own: list[Tensor] = [self.own(task).prompts for task in range(len(self.tasks))]
        # A task that no row asks must not even have a gradient of zero, or Adam would still move its prompts.
        leaves = torch.stack([p if i in present else p.detach() for i, p in enumerate(own)])
        is_own = torch.zeros(len(asked), len(own), dtype=torch.bool).scatter_(1, asked, True).to(leaves.device)
        return torch.where(is_own[:, :, None, None], leaves, leaves.detach())

    def encode(self, prompts: Tensor, batch: Batch, tokens: bool) -> tuple[Tensor, Tensor | None]:
        """The last layer's states of prompts (B, Q, E) put before the texts (B, Q, H), and of the texts (T, H)."""
        if self.shared is None:
            read, text = read_prompted(self.encoder, prompts, batch, shifted=self.shifted, tokens=tokens)
            return read[:, :-1], text
        prompts = torch.cat([self.shared.expand(len(batch), -1, -1), prompts], 1)
        read, text = read_prompted(self.encoder, prompts, batch, shifted=self.shifted, tokens=tokens)
        return read[:, len(self.shared) : -1], text

    def stages(self) -> list[Stage]:
        joint = Stage()
        if "single" not in (self.prompts_from, self.poolers_from):
            return [joint]
        return [
            Stage(
                "single-task prompts",
                freeze_encoder=True,
                fixed=[] if self.shared is None else [self.shared],
                rate=self.single_rate,
                forward=self.forward_alone,
                finish=self.keep_from_single,
            ),
            joint,
        ]

    @torch.no_grad()
    def keep_from_single(self, heads: Sequence[nn.Linear]) -> None:
        """Keep of the single-task stage what the options name; prompts go back to their start, the rest starts anew."""
        for number, head in enumerate(heads):
            task, fresh = self.own(number), self.new_task().to(self.device)
            if self.prompts_from != "single":
                task.prompts.copy_(task.first_prompts)
            if self.poolers_from != "single":
                task.pooler.load_state_dict(fresh.pooler.state_dict())
            if not self.copy_heads:
                head.reset_parameters()
