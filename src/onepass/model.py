"""An encoder, a method and a head per task: what is trained, saved, loaded and asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onepass.asking import NO_RANGES, Asking
from onepass.data.examples import Examples
from onepass.data.stream import sorted_batches
from onepass.encoder.batch import Batch, on_device
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import ConfigError
from onepass.heads import Kind, make_kind
from onepass.inquiry import Pieces, Ranges
from onepass.methods import Method, States
from onepass.methods.asked import Asked, linear_by_task
from onepass.methods.stacked import TaskModules
from onepass.readout import Answers, Head, points_of, stacked
from onepass.served import cannot_serve
from onepass.tasks import MethodChoice, Task
from onepass.where import PLAIN, Where

Forward = Callable[[Batch, Tensor], States]
SERVING_TOKENS = {"cpu": 4096, "cuda": 65_536}
"""Tokens a batch of a prediction; more brings no speed on two cores, less leaves a GPU waiting for the next launch"""
SERVING_ASKS = {"cpu": 8192, "cuda": 65_536}
"""Texts times tasks of a batch; what is read for each ask has to fit into memory"""
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}

# Texts are not padded, so nearly every pass has shapes of its own. Of a thousand of them, as by default, oneDNN would
# keep some GB in bf16 on a CPU; few are met again. It reads this when it first computes, be it for a training or not.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


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
        self.precision = "fp32"
        """Of the weights; in another than fp32 a model is asked only"""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def names(self) -> list[str]:
        return [task.name for task in self.tasks]

    def add(self, task: Task, examples: Examples | None = None) -> None:
        """Make room for a task whose labels are known; its weights are new and untrained."""
        if fault := cannot_serve(type(self.method), self.choice.name, make_kind(task), task):
            raise ConfigError(fault)
        if task.group and not self.method.has_groups:
            raise ConfigError(f"Task {task.name!r}: method {self.choice.name!r} has no task groups. Leave out `group`.")
        self.method.add_task(self.tokenizer, examples)
        self._name_last(task)
        for part in (self.method.tasks[-1], self.heads[-1]):
            part.to(self.device)
        if fellows := self._fellows(len(self.tasks) - 1):
            self.method.share(len(self.tasks) - 1, fellows[0])

    def add_empty(self, tasks: Sequence[Task]) -> None:
        """Make room for tasks whose weights, all of them, are about to be filled in."""
        # Weights that are stacked are made without memory first, so that they are drawn nowhere and held once.
        with torch.device("meta") if self.method.one_pass else nullcontext():
            for task in tasks:
                self.method.tasks.append(self.method.new_task())
                self._name_last(task)
        self.pack()

    def join_groups(self) -> None:
        """Let tasks of one group share what is the same in all of them: each task's folder holds it by itself."""
        for number in range(len(self.tasks)):
            for fellow in self._fellows(number):
                if self.method.shares_alike(number, fellow):
                    self.method.share(number, fellow)
                    break

    def _fellows(self, number: int) -> list[int]:
        """The tasks before this one that are of its group; one of its name is the same task, being trained anew."""
        task = self.tasks[number]
        alike = [n for n in range(number) if self.tasks[n].group == task.group and self.tasks[n].name != task.name]
        return alike if task.group else []

    def _name_last(self, task: Task) -> None:
        kind = make_kind(task)
        if kind.reads_tokens:
            self.method.let_read_tokens(len(self.method.tasks) - 1)
        width = self.method.encoder.width * kind.states(task)
        self.heads.append(Head(width, kind.outputs(task), kind.start_bias(task)))
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

        self._check_whole("add a task")
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

    def forward(
        self, batch: Batch, asked: Tensor, method: Forward | None = None, where: Where = PLAIN
    ) -> list[Answers]:
        """Answer the tasks `asked` (B, K) of each text, in one pass where the method can."""
        states = (method or self.method)(batch, asked)
        asks = states.asks or Asked(asked, states.vectors.device)
        vectors = asks.by_task(self._for_heads(states.vectors))  # (U, M, H)
        alike = self._alike()[asks.tasks]
        of_ask = np.repeat(alike, asks.counts)
        groups, sizes = np.unique(alike, return_counts=True)
        parts: Sequence[Tensor] = [vectors]
        if len(groups) > 1:
            parts = vectors.index_select(0, _on(np.argsort(alike, kind="stable"), vectors)).split(sizes.tolist())
        answers = []
        for group, chosen in zip(groups, parts, strict=True):
            places = np.flatnonzero(alike == group)
            tasks, counts = asks.tasks[places], asks.counts[places]
            kind, numbers = self.kinds[tasks[0]], asks.order[of_ask == group]
            if kind.reads_tokens:
                answers.append(self._answer_points(kind, tasks, counts, numbers, states, batch, where))
                continue
            weight, bias = (self.heads.stacked(name, tasks) for name in ("weight", "bias"))
            logits = linear_by_task(chosen, weight, bias)  # (Ug, M, C)
            real = np.arange(logits.shape[1]) < counts[:, None]  # (Ug, M)
            flat = logits.flatten(0, 1)
            if not real.all():
                flat = flat.index_select(0, _on(np.flatnonzero(real), flat))
            answers.append(Answers(kind, tasks.tolist(), numbers, flat))
        return answers

    def _answer_points(
        self,
        kind: Kind,
        tasks: np.ndarray,
        counts: np.ndarray,
        asks: np.ndarray,
        states: States,
        batch: Batch,
        where: Where,
    ) -> Answers:
        """The logits of tasks that read tokens; `counts` says how many of the `asks`, task by task, are each's."""
        features, sizes = points_of(kind, self.tasks[tasks[0]], states, asks, batch, where)
        per_task = [int(own.sum()) for own in np.split(sizes, np.cumsum(counts)[:-1])]
        parts = zip(tasks.tolist(), self._for_heads(features).split(per_task), strict=True)
        logits = torch.cat([self.heads[task](part) for task, part in parts])
        return Answers(kind, tasks.tolist(), asks, logits, sizes)

    def _for_heads(self, states: Tensor) -> Tensor:
        """States as heads read them: logits are never rounded to the 8 bits that a number of bf16 has."""
        return self.dropout(states) if self.precision == "fp32" else states.float()

    def _alike(self) -> np.ndarray:
        """(N,) a number for each task: heads of one number are computed, and their losses taken, together."""

        def find() -> np.ndarray:
            both = zip(self.kinds, self.heads, strict=True)
            keys = [(kind.loss_key(), head.in_features, head.out_features) for kind, head in both]
            numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
            return np.array([numbers[key] for key in keys])

        return self.heads.remember("alike", find)

    def losses(
        self,
        batch: Batch,
        asked: Tensor,
        targets: Sequence[Any],
        method: Forward | None = None,
        where: Where = PLAIN,
    ) -> Tensor:
        """The loss of every row, (R,), by default of every ask; `targets` holds one a row, as its kind scaled it."""
        return self.losses_of(self(batch, asked, method, where), targets, where=where)

    def losses_of(
        self,
        answers: Sequence[Answers],
        targets: Sequence[Any],
        scale: Callable[[int], float] | None = None,
        where: Where = PLAIN,
    ) -> Tensor:
        """The losses of answers, in the order of their rows, by default of their asks; `targets` is indexed by row.

        `scale` is the factor of the losses of tasks with so many classes; without it the method's own.
        """
        scale = scale or self.method.loss_scale
        losses, order = [], []
        for group in answers:
            rows, logits = group.by_row(where)
            loss = group.kind.loss(logits, _on(stacked([targets[row] for row in rows], group.kind), logits))
            factor = scale(group.kind.classes(group.logits.shape[-1]))
            losses.append(loss if factor == 1.0 else loss * factor)
            order.append(rows)
        joined = losses[0] if len(losses) == 1 else torch.cat(losses)
        return joined.index_select(0, _on(np.argsort(np.concatenate(order)), joined))

    @torch.inference_mode()
    def logits(self, batch: Batch, tasks: Sequence[int]) -> list[np.ndarray]:
        """For each of `tasks` the (B, C) logits of all texts, from one pass; (T, C) if it reads every token."""
        found = _by_task(self._answers(batch, tasks, PLAIN), len(batch), tasks)
        return [np.concatenate(own) if isinstance(own, list) else own for own in found]

    def _answers(self, batch: Batch, tasks: Sequence[int], where: Where) -> list[Answers]:
        """The answers of `tasks` about all texts, on the device, which may still be at work on them."""
        self.pack()
        asked = torch.tensor(sorted(set(tasks))).expand(len(batch), -1)
        found: list[Answers] = self(batch.to(self.device), asked, None, where)
        return found

    @torch.inference_mode()
    def row_logits(
        self, batch: Batch, asked: Tensor, where: Where, method: Forward | None = None
    ) -> dict[int, np.ndarray]:
        """By row its logits: (C,), or (P, C) if its task's kind is ragged."""
        found: dict[int, np.ndarray] = {}
        for group in self(batch.to(self.device), asked, method, where):
            rows = np.repeat(where.row_of(group.asks), group.counts)
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            values = np.split(group.logits.float().cpu().numpy(), starts[1:])
            for row, own in zip(rows[starts].tolist(), values, strict=True):
                found[row] = own if group.kind.ragged else group.kind.pool_row(own)
        return found

    # --- asking -------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def logits_of(self, pieces: Sequence[Pieces], asked: Sequence[int], ranges: Ranges = NO_RANGES) -> list[Any]:
        if was_training := self.training:
            self.eval()
        kind = self.device.type if self.device.type in SERVING_TOKENS else "cpu"
        most = max(1, SERVING_ASKS[kind] // len(asked))
        rows, sizes, answers = [], [], []
        for chosen in sorted_batches([len(one) for one in pieces], most, SERVING_TOKENS[kind]):
            batch = Batch.of([(pieces[row].ids, pieces[row].types) for row in chosen])
            where = PLAIN
            if ranges:  # ask by ask, in the order in which `_answers` asks
                numbers = sorted(set(asked))
                where = Where([ranges[task][row] if task in ranges else None for row in chosen for task in numbers])
            rows += chosen
            sizes.append(len(batch))
            answers.append(self._answers(batch, asked, where))
        if was_training:
            self.train()
        # Only now is anything waited for: a GPU is given all batches while it is at work on the first.
        parts = [_by_task(found, size, asked) for found, size in zip(answers, sizes, strict=True)]
        back = np.argsort(rows)
        return [_joined(values, back) for values in zip(*parts, strict=True)]

    # --- keeping ------------------------------------------------------------------------------------------------

    def use_precision(self, precision: str) -> None:
        """Hold what comes before the heads in `bf16`, as GPUs compute fastest. The model is then asked only."""
        if precision not in PRECISIONS:
            raise ConfigError(f"Unknown precision {precision!r}. Possible: {', '.join(PRECISIONS)}.")
        if self.precision != "fp32":
            raise ConfigError(f"This model is in {self.precision}: what was rounded cannot be had back. Load it again.")
        self.precision = precision
        for parameter in self.method.parameters():  # not the angles of rotary families, which are buffers
            parameter.data = parameter.data.to(PRECISIONS[precision])

    def _check_whole(self, doing: str) -> None:
        if self.precision != "fp32":
            raise ConfigError(f"A model in {self.precision} is asked only: load it in fp32 to {doing}.")

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model folder, whole or not at all."""
        from onepass.folder import save_model

        self._check_whole("save it")
        save_model(self, Path(path), overwrite=overwrite)

    save_pretrained = save

    @classmethod
    def load(cls, path: str | Path, device: str = "cpu", precision: str = "fp32") -> Model:
        """A model from its folder or from the hub; see `use_precision`. The device `auto` is a GPU if there is one."""
        from onepass.folder import load_model

        device = usable_device(device)
        model = load_model(path)
        model.use_precision(precision)
        return model.to(device)

    from_pretrained = load

    def push_to_hub(self, repository: str, *, private: bool = False) -> str:
        """Upload the model folder to the Hugging Face hub; returns its address."""
        from onepass.folder import upload_model

        return upload_model(self, repository, private=private)


def _by_task(answers: Sequence[Answers], size: int, tasks: Sequence[int]) -> list[Any]:
    """For each of `tasks` the (B, C) logits of all texts, or of tasks that read tokens a list of (P, C)."""
    found: dict[int, Any] = {}
    for group in answers:
        own: Any = group.logits.float().cpu().numpy()
        if group.kind.reads_tokens and group.kind.ragged:
            own = np.split(own, np.cumsum(group.counts)[:-1])
        for i, task in enumerate(group.tasks):
            found[task] = own[i * size : (i + 1) * size]
    return [found[task] for task in tasks]


def _joined(parts: Sequence[Any], order: np.ndarray) -> Any:
    """Arrays of some texts each, or lists, as one in the order of the texts."""
    if isinstance(parts[0], list):
        every = [one for part in parts for one in part]
        return [every[place] for place in order]
    return np.concatenate(parts)[order]


def usable_device(device: str) -> str:
    """The device of this name, which is there; `auto` is a GPU if there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=device).cpu()
    except (AssertionError, RuntimeError) as error:  # NotImplementedError, of a backend that is not there, is one
        possible = "auto, cpu, cuda" if torch.cuda.is_available() else "auto, cpu; no GPU is visible here"
        raise ConfigError(f"The device is {device!r}, which cannot be used. Possible: {possible}.") from error
    return device


def _on(places: np.ndarray, like: Tensor) -> Tensor:
    """Numbers as a tensor where another one is."""
    return on_device(places, like.device)
