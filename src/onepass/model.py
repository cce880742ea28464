"""An encoder, a method and a head per task: what is trained, saved, loaded and asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onepass.data.examples import Examples
from onepass.data.stream import sorted_batches
from onepass.encoder.batch import Batch
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import ConfigError, DataError, listed, unknown
from onepass.heads import Kind, make_kind
from onepass.methods import Method, States
from onepass.methods.asked import Asked, linear_by_task
from onepass.prediction import Prediction
from onepass.tasks import MethodChoice, Task

Text = str | tuple[str, str]
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


@dataclass(frozen=True)
class Labelled:
    """A text with every asked task's answer."""

    text: Text
    tasks: dict[str, Prediction]
    truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "tasks": {name: prediction.to_dict() for name, prediction in self.tasks.items()},
            "truncated": self.truncated,
        }


class Model(nn.Module):
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
        answers = self(batch, asked, method)
        losses, order = [], []
        for group in answers:
            target = torch.as_tensor(np.stack([targets[ask] for ask in group.asks]))
            loss = group.kind.loss(group.logits, target.to(group.logits.device, non_blocking=True))
            losses.append(loss * self.method.loss_scale(group.logits.shape[-1]))
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

    def predict(self, inputs: Text | Sequence[Text], tasks: Sequence[str] | None = None) -> Any:
        """Answer every task (or those named) for a text, a pair of texts as a tuple, or a list of either.

        One text in, one dictionary out; a list in, a list of the same length and order out. A text is asked the tasks
        on single texts, a pair the tasks on pairs.
        """
        if isinstance(inputs, (str, tuple)):
            return self.label([inputs], tasks)[0].tasks
        return [labelled.tasks for labelled in self.label(inputs, tasks)]

    def label(self, texts: Sequence[Text], tasks: Sequence[str] | None = None) -> list[Labelled]:
        """The texts with their answers, in order."""
        parts = [_parts(text, i) for i, text in enumerate(texts)]
        self.numbers(tasks)  # so that a wrong name is said even where there is no text
        applicable = {size: self.applicable(size, tasks) for size in {len(part) for part in parts}}
        was_training = self.training
        self.eval()
        encoded = self.tokenizer.encode(parts)
        results: list[Labelled | None] = [None] * len(texts)
        for size, asked in applicable.items():
            rows = [i for i, part in enumerate(parts) if len(part) == size]
            lengths = [[len(encoded[row]) for row in rows]]
            order = [(0, place) for place in range(len(rows))]
            for places in sorted_batches(order, lengths, max_rows=len(rows), max_tokens=SERVING_TOKENS):
                chosen = [rows[place] for _, place in places]
                batch = Batch.of([(encoded[row].ids, encoded[row].types) for row in chosen])
                logits = self.logits(batch, asked)
                decoded = {
                    self.tasks[task].name: self.kinds[task].decode(self.tasks[task], values)
                    for task, values in zip(asked, logits, strict=True)
                }
                for i, row in enumerate(chosen):
                    answers = {name: predictions[i] for name, predictions in decoded.items()}
                    results[row] = Labelled(texts[row], answers, encoded[row].truncated)
        self.train(was_training)
        return [result for result in results if result is not None]

    def applicable(self, num_texts: int, names: Sequence[str] | None) -> list[int]:
        """The numbers of the tasks to ask of a text (1) or a pair (2)."""
        chosen = self.numbers(names)
        fitting = [number for number in chosen if len(self.tasks[number].text) == num_texts]
        if not fitting or (names is not None and len(fitting) < len(chosen)):
            needs = ", ".join(
                f"{self.tasks[n].name} ({' and '.join(self.tasks[n].text)})" for n in chosen if n not in fitting
            )
            given = "a single text" if num_texts == 1 else f"{num_texts} texts together"
            raise ConfigError(f"{given} cannot answer: {needs}. Give these tasks as many texts as they have columns.")
        return fitting

    def numbers(self, names: Sequence[str] | None) -> list[int]:
        """The numbers of the tasks of these names, each once; of all tasks for None."""
        known = {task.name: number for number, task in enumerate(self.tasks)}
        names = [names] if isinstance(names, str) else list(known) if names is None else names
        if faults := [unknown("task", name, known) for name in dict.fromkeys(names) if name not in known]:
            raise ConfigError(listed(faults))
        if not names:
            raise ConfigError(f"No task is asked. Known: {', '.join(sorted(known)) or 'none'}.")
        return list(dict.fromkeys(known[name] for name in names))

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


def _parts(text: Any, place: int) -> tuple[str, ...]:
    """The strings of a text or of a pair."""
    parts = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, (tuple, list)) else ()
    if not parts or not all(isinstance(part, str) for part in parts):
        raise DataError(f"Text {place + 1} is {text!r:.80}. Give a string, or two strings in a tuple for a pair.")
    return parts
