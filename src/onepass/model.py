"""An encoder, a method and a head per task: what is trained, saved, loaded and asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onepass.asking import Asking
from onepass.data.examples import Examples
from onepass.data.stream import sorted_batches
from onepass.encoder.batch import Batch
from onepass.encoder.tokenizer import Encoded, Tokenizer
from onepass.heads import Kind, make_kind
from onepass.methods import Method, States
from onepass.methods.asked import Asked, linear_by_task
from onepass.tasks import MethodChoice, Task

Forward = Callable[[Batch, Tensor], States]
SERVING_TOKENS = 4096  # tokens a batch of a prediction; more brings no speed on two cores


class Head(nn.Linear):
    """The linear read-out of one task, with small random weights."""

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.weight, std=0.02, a=-0.04, b=0.04)
        nn.init.zeros_(self.bias)


@dataclass
class Answers:
    """The logits of all asks of one kind and size."""

    kind: Kind
    tasks: list[int]
    asks: np.ndarray  # (R,) ask numbers b * K + k, task by task
    logits: Tensor  # (R, C)


class Model(nn.Module, Asking):
    """Labels texts for many tasks with one encoder.

    The order of `tasks` is the number by which a task is asked everywhere inside; outside, tasks and labels are
    strings.
    """

    def __init__(self, method: Method, tokenizer: Tokenizer, choice: MethodChoice, source: str, dropout: float = 0.1):
        super().__init__()
        self.method = method
        self.tokenizer = tokenizer
        self.choice = choice
        """The method's name and options, as the task file gave them"""
        self.source = source
        """Where the encoder came from"""
        self.heads = nn.ModuleList()
        self.dropout = nn.Dropout(dropout)
        self.tasks: list[Task] = []
        self.kinds: list[Kind] = []
        self.records: list[dict[str, Any]] = []
        """What is known of each task's training: rows, data fingerprint, validation scores"""
        self.training_record: dict[str, Any] = {}

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def names(self) -> list[str]:
        return [task.name for task in self.tasks]

    def add(self, task: Task, examples: Examples | None = None) -> None:
        """Make room for a task whose labels are known; its weights are new and untrained."""
        kind = make_kind(task)
        self.method.add_task(self.tokenizer, examples)
        self.heads.append(Head(self.method.encoder.width, kind.outputs(task)))
        self.kinds.append(kind)
        self.tasks.append(task)
        self.records.append({})
        self.to(self.device)

    def discard(self, number: int) -> None:
        """Forget a task; those after it are numbered one less."""
        for parts in (self.method.tasks, self.heads, self.kinds, self.tasks, self.records):
            del parts[number]

    def replace_by_last(self, number: int) -> None:
        """Put the last task in the place of another, which is forgotten."""
        lists: tuple[Any, ...] = (self.method.tasks, self.heads, self.kinds, self.tasks, self.records)
        for parts in lists:
            parts[number] = parts[-1]
        self.discard(len(self.tasks) - 1)

    def add_task(self, name: str, *, options: Mapping[str, Any] | None = None, **keys: Any) -> None:
        """Train one more task, with everything the model has left as it is.

        The keys are those of a task in a task file (train, text, label, ...); `options` say how to train, see
        `onepass.training.adding.AddOptions`. The model's folder does not change until the model is saved.
        """
        from onepass.training.adding import add_named_task

        add_named_task(self, name, keys, options or {})

    def remove_task(self, name: str) -> None:
        """Forget a task. The model's folder does not change until the model is saved."""
        from onepass.living import check_removable

        self.discard(check_removable(self, name))

    # --- one pass -----------------------------------------------------------------------------------------------

    def forward(self, batch: Batch, asked: Tensor, method: Forward | None = None) -> list[Answers]:
        """Answer the tasks `asked` (B, K) of each text, in one pass where the method can."""
        states = (method or self.method)(batch, asked)
        asks = Asked(asked, states.vectors.device)
        vectors = asks.by_task(self.dropout(states.vectors))  # (U, M, H)
        answers = []
        for places in self._alike(asks.tasks):
            tasks = [asks.tasks[place] for place in places]
            heads: list[nn.Linear] = [self.heads[task] for task in tasks]  # type: ignore[misc]
            chosen = vectors if len(places) == len(asks.tasks) else vectors[places]
            logits = linear_by_task(chosen, heads)  # (Ug, M, C)
            real = [i * logits.shape[1] + j for i, place in enumerate(places) for j in range(asks.counts[place])]
            flat = logits.flatten(0, 1)
            if len(real) < len(flat):
                flat = flat[torch.tensor(real).to(flat.device, non_blocking=True)]
            numbers = np.concatenate([asks.asks[place] for place in places])
            answers.append(Answers(self.kinds[tasks[0]], tasks, numbers, flat))
        return answers

    def _alike(self, tasks: Sequence[int]) -> Iterable[list[int]]:
        """Places of the tasks whose heads can be computed, and whose losses can be taken, together."""
        groups: dict[Any, list[int]] = {}
        for place, task in enumerate(tasks):
            key = (self.kinds[task].loss_key(), self.heads[task].out_features)
            groups.setdefault(key, []).append(place)
        return groups.values()

    def losses(self, batch: Batch, asked: Tensor, targets: Sequence[Any], method: Forward | None = None) -> Tensor:
        """The loss of every ask, (B * K,); `targets` holds one target an ask, as the kind scaled them."""
        return self.losses_of(self(batch, asked, method), targets)

    def losses_of(
        self, answers: Sequence[Answers], targets: Sequence[Any], scale: Callable[[int], float] | None = None
    ) -> Tensor:
        """The losses of answers, in the order of their asks; `targets` is indexed by ask.

        `scale` is the factor of the losses of tasks with so many outputs; without it the method's own.
        """
        scale = scale or self.method.loss_scale
        losses, order = [], []
        for group in answers:
            target = torch.as_tensor(np.stack([targets[ask] for ask in group.asks]))
            loss = group.kind.loss(group.logits, target.to(group.logits.device, non_blocking=True))
            losses.append(loss * scale(group.logits.shape[-1]))
            order.append(group.asks)
        back = torch.from_numpy(np.argsort(np.concatenate(order)))
        joined = torch.cat(losses)
        return joined[back.to(joined.device, non_blocking=True)]

    @torch.inference_mode()
    def logits(self, batch: Batch, tasks: Sequence[int]) -> list[np.ndarray]:
        """For each of `tasks` the (B, C) logits of all texts, from one pass."""
        asked = torch.tensor(list(dict.fromkeys(tasks))).expand(len(batch), -1)
        found: dict[int, np.ndarray] = {}
        for group in self(batch.to(self.device), asked):
            values = group.logits.float().cpu().numpy()
            for i, task in enumerate(group.tasks):
                found[task] = values[i * len(batch) : (i + 1) * len(batch)]
        return [found[task] for task in tasks]

    # --- asking -------------------------------------------------------------------------------------------------

    def logits_of(self, encoded: Sequence[Encoded], asked: Sequence[int]) -> list[np.ndarray]:
        was_training = self.training
        self.eval()
        lengths = [[len(one) for one in encoded]]
        order = [(0, row) for row in range(len(encoded))]
        rows, parts = [], []
        for places in sorted_batches(order, lengths, max_rows=len(encoded), max_tokens=SERVING_TOKENS):
            chosen = [row for _, row in places]
            batch = Batch.of([(encoded[row].ids, encoded[row].types) for row in chosen])
            rows += chosen
            parts.append(self.logits(batch, asked))
        self.train(was_training)
        back = np.argsort(rows)
        return [np.concatenate(values)[back] for values in zip(*parts, strict=True)]

    # --- keeping ------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model folder, whole or not at all."""
        from onepass.folder import save_model

        save_model(self, Path(path), overwrite=overwrite)

    save_pretrained = save

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu") -> Model:
        """A model from its folder or from the hub."""
        from onepass.folder import load_model

        return load_model(path).to(device)

    from_pretrained = load

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload the model folder to the Hugging Face hub; returns its address."""
        from onepass.folder import upload_model

        return upload_model(self, repository, private=private)
