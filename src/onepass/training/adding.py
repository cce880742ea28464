"""Training one more task of a trained model: everything that is there stays as it is.

Where the method allows it, the encoder reads each text once and the task trains on what was kept of that.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, cast, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from onepass.calibration import settle
from onepass.data.stream import RowStream, sorted_batches, token_batches
from onepass.errors import ConfigError, TrainingError, listed, unknown
from onepass.heads import check_kinds
from onepass.methods import Method, mismatch
from onepass.model import Model, usable_device
from onepass.tasks import make_task
from onepass.training.alarms import as_one_answer
from onepass.training.average import RunningMean
from onepass.training.best import Best
from onepass.training.cache import TextCache
from onepass.training.device import in_halves
from onepass.training.evaluation import as_logits, score_decisions, scores_of
from onepass.training.optimizer import PlainAdamW, parameter_groups, rate_at, set_rates
from onepass.training.options import BOUNDLESS, LIMITS, TrainOptions
from onepass.training.sets import TaskSet, fingerprint, read_set
from onepass.training.stages import fixed, fixed_parameters
from onepass.training.start import as_numbers, fitted_head, most_similar

log = logging.getLogger(__name__)
Start = Literal["mean", "similar", "fresh"]
Precision = Literal["auto", "fp32", "bf16"]
Head = Literal["auto", "drawn", "fitted"]
Device = Literal["auto", "cpu", "cuda"]
FITTED_ROWS = 1024  # rows to which a head is fitted
BATCH_TOKENS = 8192
EPOCHS, LEAST_STEPS = 8, 100
MANY_LABELS = 50
"""From here on a head is not learned from nothing in so few steps, see benchmarks/LOG.md"""


@dataclass(frozen=True)
class AddOptions:
    """How to train an added task."""

    start: Start = "mean"
    """Where the task's own weights begin: the mean of the other tasks', those of the most similar task, or anew"""
    like: str = ""
    """The task whose own weights (embedding, gates, readers) they begin as a copy of, whatever `start` says"""
    head: Head = "auto"
    """Where its head begins: drawn at random, or fitted to its rows by a ridge regression. auto: fitted to fewer than
    `least_rows` rows, and left so if `epochs` is 0; fitted where there are 50 labels or more; else drawn"""
    epochs: int = 0
    """Passes over the task's rows; 0: eight, or more if the rows are so few that this would be under 100 steps"""
    batch_size: int = 64
    """Rows of a step"""
    token_rate: float = 3e-2
    """Learning rate of the task's own input tokens: readers, prompts. They go far: the encoder does not come to them"""
    head_rate: float = 3e-3
    """Learning rate of the task's pooler, head and what else the method gives it"""
    encoder_rate: float = 1e-4
    """Learning rate of an encoder of the task's own"""
    weight_decay: float = 0.3
    """Decay of weight matrices"""
    average: float = 0.95
    """Keep a running mean of the weights; 0.95 is about the mean of 20 steps"""
    patience: int = 0
    """Stop after so many evaluations on validation without a better one; 0: never"""
    least_rows: int = 100
    """Of fewer rows none is held back for validation; the last weights are kept"""
    precision: Precision = "auto"
    """Of the encoder while it reads the training texts; auto: bf16 where that is faster. Validation is always fp32"""
    device: Device = "auto"
    """Where to train: cpu, cuda, or auto, a GPU if there is one. The model is where it was afterwards"""
    seed: int = 0
    """Seed of everything that is drawn"""


def add_options(values: Mapping[str, Any]) -> AddOptions:
    """The options from plain values; all faults are raised at once."""
    known, types = {field.name: field for field in fields(AddOptions)}, get_type_hints(AddOptions)
    faults = [unknown("option", key, known) for key in values if key not in known]
    if not isinstance(like := values.get("like", ""), str):
        faults.append(f"like is {like!r}; possible: the name of a task.")
    for key in (key for key in values if key in known and key != "like"):
        wanted = mismatch(values[key], types[key])
        least, most = 1 if key == "batch_size" else 0, BOUNDLESS if type(values[key]) is int else math.inf
        outside = not wanted and not isinstance(values[key], str) and not least <= values[key] < most
        if outside or (wanted and types[key] is float):
            wanted = f"a number from {least}"
        if not wanted and key in ("average", "seed") and values[key] > LIMITS[key][1]:
            wanted = f"a {'whole ' if key == 'seed' else ''}number from 0 to {LIMITS[key][1]}"
        if wanted:
            faults.append(f"{key} is {values[key]!r}; possible: {wanted}.")
    if faults:
        raise ConfigError(listed(faults))
    return AddOptions(**values)


def check_addable(method: Method, name: str) -> None:
    """Raise if a model of this method can be given no further task."""
    if method.cannot_add:
        raise ConfigError(
            f"A model of method {name!r} can be given no further task: {method.cannot_add}. Train all tasks together, "
            "or use method 'readers', which can."
        )


def add_named_task(model: Model, name: str, keys: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Add a task that is described by the keys of a task file."""
    options = add_options(values)
    task = make_task(name, dict(keys), checks=[check_kinds])
    check_new_names(model, [task.name])
    check_addable(model.method, model.choice.name)
    train_task(model, read_set(task, model.tokenizer, options.least_rows), options, progress=False)


def check_new_names(model: Model, names: Sequence[str], advice: str = "Choose another name.") -> None:
    """Raise if the model has a task of one of these names."""
    if there := [name for name in names if name in model.names]:
        raise ConfigError(f"The model has a task {there[0]!r} already. {advice}")


def train_task(model: Model, item: TaskSet, options: AddOptions, progress: bool = True) -> None:
    """Add a task as the last one of a model and train it; if that fails the model is as it was."""
    number = len(model.tasks)
    check_addable(model.method, model.choice.name)
    if options.like:
        model.numbers([options.like])  # says so if there is no such task
    was_training, home = model.training, model.device
    model.to(usable_device(options.device))
    try:
        with torch.random.fork_rng(), fixed(model.parameters()):
            torch.manual_seed(options.seed)
            model.add(item.task, item.train)
            # Of what is new, that stays fixed which the method does not train either: an encoder's copy, for example.
            with fixed(fixed_parameters(model.method, model.method.stages()[-1], TrainOptions())):
                adding = Adding(model, item, options, progress)
                adding.run()
            logits = adding.validation_logits()
            settle(model, number, logits, item.validation)
            score_decisions(model, number, logits, item.validation)
            if alarm := as_one_answer(model, number, item):
                rare = model.kinds[number].rare_advice
                log.warning(
                    "%s. Look at its rows (onepass check); %s%strain longer (epochs=20), or train it with the other "
                    "tasks, or alone",
                    *(alarm["message"], rare, "; " if rare else ""),
                )
    except BaseException:
        if len(model.tasks) > number:
            model.discard(number)
        raise
    finally:
        model.train(was_training).to(home)
    rows = {"train": len(item.train), "validation": len(item.validation)}
    model.records[number] |= {"rows": rows, "data": fingerprint(item.train), "added": vars(options)}


class Adding:
    """Trains the last task of a model."""

    def __init__(self, model: Model, item: TaskSet, options: AddOptions, progress: bool):
        self.model, self.item, self.options, self.progress = model, item, options, progress
        self.number = len(model.tasks) - 1
        self.kind = model.kinds[self.number]
        self.targets = self.kind.scale_targets(item.task, item.train.targets, item.train.readings)
        half = in_halves(options.precision, model.device.type, model.method.encoder.config.width)
        tokens = self.kind.reads_tokens
        self.train = TextCache(model.method, item.train, half=half, tokens=tokens)
        self.validation = TextCache(model.method, item.validation, tokens=tokens)

    def run(self) -> None:
        """Train, and leave the best weights in the model."""
        options, model = self.options, self.model
        fitted = self.begin()
        rates = {key: getattr(options, key) for key in ("encoder_rate", "token_rate", "head_rate", "weight_decay")}
        optimizer = PlainAdamW(parameter_groups(model.method, model.heads, TrainOptions(**rates)))
        learning = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        mean = RunningMean(learning, options.average)
        best = Best("mean", [self.item.task])
        rows = len(self.item.train)
        steps = math.ceil(rows / options.batch_size)
        epochs = options.epochs or max(EPOCHS, math.ceil(LEAST_STEPS / steps))
        if fitted and self.has_few_rows and options.head == "auto" and not options.epochs:
            epochs = 0
        stream, done = RowStream([rows], options.seed), 0
        bar = tqdm(
            total=epochs * rows, unit="row", desc=self.item.task.name, disable=not self.progress, dynamic_ncols=True
        )
        for epoch in range(epochs):
            model.train()
            order = stream.epoch_order([rows], epoch)
            for pairs in token_batches(order, [self.train.lengths], options.batch_size, BATCH_TOKENS):
                set_rates(optimizer, rate_at((done + len(pairs) / 2) / (epochs * rows), warmup=0.1))
                optimizer.zero_grad()
                self.loss([row for _, row in pairs]).backward()
                torch.nn.utils.clip_grad_norm_(learning, 1.0, error_if_nonfinite=False)
                optimizer.step()
                mean.update()
                done += len(pairs)
                bar.update(len(pairs))
            if len(self.item.validation):
                with mean.in_place():
                    self.evaluate(best, epoch + 1)
                if options.patience and best.since >= options.patience:
                    break
        bar.close()
        if not epochs and len(self.item.validation):
            self.evaluate(best, 0)
        if best.kept:
            best.restore(model)
        else:
            mean.settle()
        if not all(parameter.isfinite().all() for parameter in learning):
            raise TrainingError(
                f"The training of task {self.item.task.name!r} broke: its weights are not finite. Nothing was changed. "
                "Try smaller rates (head_rate, token_rate)."
            )

    def begin(self) -> bool:
        """Give the task's own weights their start values; whether the head was fitted."""
        names = self.model.names
        # A task that is trained anew is still there, under the same name.
        others = [number for number in range(self.number) if names[number] != names[self.number]]
        if self.options.like:
            self.model.method.start_from(self.number, names.index(self.options.like))
        elif self.options.start == "mean" and others:
            self.model.method.start_from_mean(self.number, others)
        elif self.options.start == "similar" and others:
            if self.kind.ragged:
                raise ConfigError(
                    f"Task {self.item.task.name!r} has several answers a row, so that no most similar task can be "
                    "found. Use start=mean or start=fresh."
                )
            old = most_similar(self.train, self.item.train.targets, others, self.options.seed)
            log.info("%s: starts from %s, the most similar task", self.item.task.name, names[old])
            self.model.method.start_from(self.number, old)
        one_vector_a_row = not self.kind.reads_tokens and len(self.item.train.offsets) == len(self.item.train) + 1
        if self.options.head == "fitted" and not one_vector_a_row:
            raise ConfigError(
                f"Task {self.item.task.name!r} reads tokens, candidates or several windows of a row, so that no head "
                "can be fitted to its rows. Use head=auto or head=drawn."
            )
        by_itself = self.has_few_rows or len(self.item.task.labels) >= MANY_LABELS
        fits = one_vector_a_row and (self.options.head == "fitted" or (self.options.head == "auto" and by_itself))
        if fits:
            self.fit_head()
        return fits

    @property
    def has_few_rows(self) -> bool:
        """Whether the task has so few that none of them is held back."""
        rows = len(self.item.train)
        if isinstance(self.item.task.validation, float):
            rows += len(self.item.validation)  # which were held back of the same rows
        return rows < self.options.least_rows

    @torch.no_grad()
    def fit_head(self) -> None:
        """Start the head as a regression of the targets on the vectors that the task's start weights give."""
        item, head = self.item, cast(nn.Linear, self.model.heads[self.number])
        rows = np.random.default_rng(self.options.seed).permutation(len(item.train))[:FITTED_ROWS].tolist()
        self.model.eval()
        parts = [self.train.ask(rows[i : i + 128], [self.number])[3].vectors for i in range(0, len(rows), 128)]
        vectors = torch.cat(parts)[:, 0].float().cpu()  # (R, H)
        are_labels = np.issubdtype(item.train.targets.dtype, np.integer)
        numbers = as_numbers(item.train.targets if are_labels else self.targets, rows, head.out_features)
        wanted = torch.as_tensor(np.stack([self.targets[row] for row in rows]))
        weight, bias = fitted_head(vectors, numbers, lambda logits: self.kind.loss(logits, wanted))
        head.weight.copy_(weight)
        head.bias.copy_(bias)

    def loss(self, rows: Sequence[int]) -> Tensor:
        """The mean loss of these training rows."""
        batch, asked, where, states = self.train.ask(rows, [self.number])
        targets = [self.targets[row] for row in rows]
        losses = self.model.losses(batch, asked, targets, lambda *_: states, where)
        return losses.mean() + self.model.method.extra_loss()

    def validation_logits(self) -> Any:
        """The task's logits on its validation rows, (R, C) or a list of (P, C)."""
        return cached_logits(self.model, self.number, self.validation)

    def evaluate(self, best: Best, epoch: int) -> None:
        """Score the validation rows, and keep the weights if they are the best so far."""
        model, name, examples = self.model, self.item.task.name, self.item.validation
        logits = self.validation_logits()
        result = scores_of(model.tasks[self.number], model.kinds[self.number], logits, examples)
        if best.offer({name: result}, model, epoch):
            model.records[self.number]["scores"] = {"validation": result}
        log.info("%s, epoch %d: %.1f%s", name, epoch, result["score"], ", best so far" if not best.since else "")


@torch.no_grad()
def cached_logits(model: Model, number: int, texts: TextCache) -> Any:
    """A task's logits on rows whose texts were read already, (R, C) or a list of (P, C)."""
    model.eval()
    logits: list[Any] = [None] * len(texts.examples)
    for rows in sorted_batches(texts.lengths, 512, BATCH_TOKENS):
        batch, asked, where, states = texts.ask(rows, [number])
        for place, own in model.row_logits(batch, asked, where, lambda *_, found=states: found).items():
            logits[rows[place]] = own
    return as_logits(logits, model.kinds[number], model.tasks[number])
