"""An encoder, a method and a head per task: what is trained, saved, loaded and asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
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
from onepass.methods.stacked import TaskModules
from onepass.tasks import MethodChoice, Task

Forward = Callable[[Batch, Tensor], States]
SERVING_TOKENS = 4096  # tokens a batch of a prediction; more brings no speed on two cores
SERVING_ASKS = 16384  # texts times tasks of a batch; what is read for each ask has to fit into memory


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
        self.heads = TaskModules()
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
        self.method.add_task(self.tokenizer, examples)
        self._name_last(task)
        for part in (self.method.tasks[-1], self.heads[-1]):
            part.to(self.device)

    def add_empty(self, tasks: Sequence[Task]) -> None:
        """Make room for tasks whose weights, all of them, are about to be filled in."""
        # Weights that are stacked are made without memory first, so that they are drawn nowhere and held once.
        with torch.device("meta") if self.method.one_pass else nullcontext():
            for task in tasks:
                self.method.tasks.append(self.method.new_task())
                self._name_last(task)
        self.pack()

    def _name_last(self, task: Task) -> None:
        kind = make_kind(task)
        self.heads.append(Head(self.method.encoder.width, kind.outputs(task)))
        self.kinds.append(kind)
        self.tasks.append(task)
        self.records.append({})

    def pack(self) -> None:
        """Lay the weights of all tasks side by side, so that asking them at once copies nothing."""
        self.heads.pack()
        if self.method.one_pass:
            self.method.tasks.pack()

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

    def set_threshold(self, name: str, threshold: Any, data: str | Path | None = None) -> None:
        """Give a task another threshold, written as in a task file: 0.8, {"target_precision": 0.9}, None for none.

        One that has to be chosen is chosen on the rows of a data file with the columns of the training, or on the
        task's validation rows. The model's folder does not change until the model is saved.
        """
        from onepass.training.thresholds import set_thresholds

        set_thresholds(self, [name], threshold, None if data is None else Path(data))

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
        alike = self._alike()[asks.tasks]
        of_ask = np.repeat(alike, asks.counts)
        answers = []
        for group in np.unique(alike):
            places = np.flatnonzero(alike == group)
            tasks, counts = asks.tasks[places], asks.counts[places]
            chosen = vectors if len(places) == len(asks.tasks) else vectors[_on(places, vectors)]
            weight, bias = (self.heads.stacked(name, tasks) for name in ("weight", "bias"))
            logits = linear_by_task(chosen, weight, bias)  # (Ug, M, C)
            real = np.arange(logits.shape[1]) < counts[:, None]  # (Ug, M)
            flat = logits.flatten(0, 1)
            if not real.all():
                flat = flat[_on(np.flatnonzero(real), flat)]
            answers.append(Answers(self.kinds[tasks[0]], tasks.tolist(), asks.order[of_ask == group], flat))
        return answers

    def _alike(self) -> np.ndarray:
        """(N,) a number for each task: heads of one number are computed, and their losses taken, together."""

        def find() -> np.ndarray:
            keys = [(kind.loss_key(), head.out_features) for kind, head in zip(self.kinds, self.heads, strict=True)]
            numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
            return np.array([numbers[key] for key in keys])

        return self.heads.remember("alike", find)

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
        self.pack()
        asked = torch.tensor(list(dict.fromkeys(tasks))).expand(len(batch), -1)
        found: dict[int, np.ndarray] = {}
        for group in self(batch.to(self.device), asked):
            values = group.logits.float().cpu().numpy()
            for i, task in enumerate(group.tasks):
                found[task] = values[i * len(batch) : (i + 1) * len(batch)]
        return [found[task] for task in tasks]

    # --- asking -------------------------------------------------------------------------------------------------

    def logits_of(self, encoded: Sequence[Encoded], asked: Sequence[int]) -> list[np.ndarray]:
        if was_training := self.training:
            self.eval()
        lengths = [[len(one) for one in encoded]]
        order = [(0, row) for row in range(len(encoded))]
        most = max(1, SERVING_ASKS // len(asked))
        rows, parts = [], []
        for places in sorted_batches(order, lengths, max_rows=most, max_tokens=SERVING_TOKENS):
            chosen = [row for _, row in places]
            batch = Batch.of([(encoded[row].ids, encoded[row].types) for row in chosen])
            rows += chosen
            parts.append(self.logits(batch, asked))
        if was_training:
            self.train()
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


def _on(places: np.ndarray, like: Tensor) -> Tensor:
    """Numbers as a tensor where another one is."""
    return torch.from_numpy(places).to(like.device, non_blocking=True)
