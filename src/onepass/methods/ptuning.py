"""P-Tuning: each task's prompts are read with the text in a pass of their own.

The Power of Scale for Parameter-Efficient Prompt Tuning, Lester et al. 2021, arXiv:2104.08691, as the MTOP paper
(arXiv:2205.10744, figure 1a) compares with it under the name P-Tuning: an encoder that learns, shared by the tasks,
prompts from common tokens of the task's texts (TK), a pooler shared by the tasks (its equation 2).
It is MTOP without the other tasks' prompts. Where we depart, or the papers are silent:
- Lester et al. freeze a T5 and let it write the label; here the encoder learns unless `frozen` is set, and a head
  reads the mean state of the prompts, as MTOP does (`readout: cls` reads [CLS]).
- Their prompts have no positions (T5 has none to give) and are 100 tokens from the 5,000 first of the vocabulary;
  ours have `positions` as MTOP's do, are 2 as MTOP's are, and come from the task's own 5,000 most frequent tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder
from onepass.errors import ConfigError
from onepass.methods.asked import Asked
from onepass.methods.base import Method, Pooler, Stage, States, TokenStates, pool_by_task, starts_of
from onepass.methods.folding import once_per_ask
from onepass.methods.prompts import no_room, random_prompts, read_prompted, token_prompts

if TYPE_CHECKING:
    from onepass.data.examples import Examples
    from onepass.encoder.tokenizer import Tokenizer


class PromptTask(nn.Module):
    """One task's prompts, in the space of word embeddings, and its pooler if it has one of its own."""

    def __init__(self, length: int, embedding_width: int, width: int, pooled: bool):
        super().__init__()
        self.prompts = random_prompts(length, embedding_width)
        self.pooler = Pooler(width) if pooled else None


class PTuning(Method):
    """A task's own prompts before the text, one pass a task.

    The values of MTOP's comparison are the defaults; Lester et al. have 100 prompts and a frozen model.
    """

    one_pass = False
    gives_tokens = True

    def __init__(
        self,
        encoder: Encoder,
        *,
        prompt_length: int = 2,
        prompts: Literal["random", "token"] = "token",
        positions: Literal["shifted", "none"] = "shifted",
        readout: Literal["prompt", "cls"] = "prompt",
        pooler: Literal["shared", "task"] = "shared",
        frozen: bool = False,
    ):
        super().__init__(encoder)
        if readout == "prompt" and prompt_length == 0:
            raise ConfigError(
                "method 'ptuning': prompt_length is 0, so there is no prompt to read the answer from; possible: "
                "prompt_length from 1, or readout 'cls'."
            )
        self.prompt_length = prompt_length
        self.prompts_from = prompts
        self.shifted = positions == "shifted"
        self.readout = readout
        self.frozen = frozen
        self.pooler = Pooler(encoder.width) if pooler == "shared" else None

    def new_task(self) -> PromptTask:
        encoder = self.encoder
        return PromptTask(self.prompt_length, encoder.embedding_width, encoder.width, pooled=self.pooler is None)

    @torch.no_grad()
    def add_task(self, tokenizer: Tokenizer, examples: Examples | None = None) -> None:
        task = self.new_task()
        if self.prompts_from == "token" and examples is not None:
            task.prompts.copy_(token_prompts(self.encoder, tokenizer, examples, self.prompt_length))
        self.tasks.append(task)

    def own(self, task: int) -> PromptTask:
        return cast(PromptTask, self.tasks[task])

    def token_parameters(self) -> Iterator[nn.Parameter]:
        return (self.own(task).prompts for task in range(len(self.tasks)))

    def limits(self, num_tasks: int, max_length: int) -> list[str]:
        advice = "fewer prompts (method.prompt_length) or a smaller train.max_length"
        fault = no_room(self.encoder, self.prompt_length, max_length, shifted=self.shifted, advice=advice)
        return [f"method 'ptuning': {self.prompt_length} prompts stand {fault}"] if fault else []

    def forward(self, batch: Batch, asked: Tensor) -> States:
        asks = Asked(asked, batch.ids.device)
        prompts = asks.per_ask(self.tasks.stacked("prompts", asks.tasks)).flatten(0, 1)  # (B * K, P, E)
        texts, reads_tokens = once_per_ask(batch, asked), bool(self.reading_tokens(asked))
        states, text = read_prompted(self.encoder, prompts, texts, shifted=self.shifted, tokens=reads_tokens)
        read = states[:, -1] if self.readout == "cls" else states[:, :-1].mean(1)  # (B * K, H)
        vectors = read.unflatten(0, asks.shape)
        tokens = None if text is None else TokenStates(text, starts_of(texts.layout))
        return States(pool_by_task(vectors, self.tasks, asks) if self.pooler is None else self.pooler(vectors), tokens)

    def stages(self) -> list[Stage]:
        return [Stage(freeze_encoder=self.frozen)]
