"""Learning from trained models: their answers to the training texts are computed once and learned beside the labels.

A teacher also knows something about texts that nobody labelled for its task. With `all_texts`, every training text of
any task is asked other tasks too, and the teacher's answers take the place of labels.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from torch import Tensor

from onepass.atomic import MANIFEST
from onepass.cached import cache_folder
from onepass.contents import read_config, read_tasks, task_said
from onepass.data.examples import Examples
from onepass.data.stream import sorted_batches
from onepass.encoder.batch import Batch
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import ConfigError, listed
from onepass.heads import Kind, make_kind
from onepass.model import Model
from onepass.tasks import Task, TaskFile
from onepass.training.device import in_halves
from onepass.training.options import DistillOptions, teachers_of
from onepass.training.sets import TaskSet, read_sets

log = logging.getLogger(__name__)
ROWS, TOKENS = 512, 16384  # of a teacher's batch
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Lesson:
    """What is asked of a batch of B texts: K tasks of each, its own first, and how much its teachers' answers weigh."""

    asked: Tensor  # (B, K)
    weights: Array  # (B, K); 0 where there is nothing to learn from a teacher
    texts: NDArray[np.int64]  # (B,) their numbers among all training texts


class Teaching:
    """The teachers' logits for the training texts, by task; texts are numbered through, task after task.

    With `all_texts` a task has logits for all of them, else for its own. Those given are NaN where there is no answer.
    """

    def __init__(self, sets: Sequence[TaskSet], logits: Sequence[Array | None], options: DistillOptions):
        self.options = options
        self.logits = [None if found is None else np.nan_to_num(found, nan=0.0) for found in logits]
        self.starts = np.cumsum([0, *(len(item.train) for item in sets)])
        """The number of each task's first text"""
        self.answered = np.zeros((self.starts[-1], len(sets)), np.bool_)
        """(texts, N) whether there is an answer to a task about a text"""
        for task, found in enumerate(logits):
            if found is not None:
                first = self._first(task)
                self.answered[first : first + len(found), task] = ~np.isnan(found).any(1)
        alike = np.array([[same_input(a.task, b.task) for b in sets] for a in sets])
        self.others = alike & ~np.eye(len(sets), dtype=bool) & options.all_texts
        """(N, N) whether a text of the first task is asked the second"""

    def lesson(self, rows: Sequence[tuple[int, int]], tasks: Sequence[int], progress: float) -> Lesson:
        """What to ask these (task, row) pairs when only `tasks` learn, at `progress` (0 to 1) of the training."""
        options = self.options
        own = np.array([task for task, _ in rows])
        texts = np.array([self.starts[task] + row for task, row in rows])
        share = options.weight * (1.0 - progress if options.anneal else 1.0)
        weights = share * self.answered[texts, own, None]
        learning = np.isin(np.arange(len(self.others)), tasks)
        possible = self.others[own] & learning & self.answered[texts]  # (B, N)
        count = min(options.others or possible.shape[1], int(possible.sum(1).max()))
        # torch's generator, since checkpoints keep where it stands.
        drawn = np.where(possible, torch.rand(possible.shape).numpy(), 2.0).argsort(1)[:, :count]  # (B, count)
        real = np.take_along_axis(possible, drawn, 1)
        # Where fewer are possible the text's own task fills the place, with no weight.
        asked = np.concatenate([own[:, None], np.where(real, drawn, own[:, None])], 1)
        part = options.others_weight * real / np.maximum(real.sum(1, keepdims=True), 1)
        return Lesson(torch.from_numpy(asked), np.concatenate([weights, part], 1).astype(np.float32), texts)

    def answers(self, tasks: NDArray[np.int64], texts: NDArray[np.int64]) -> Array:
        """The teachers' logits for pairs of a task and a text; all of these tasks have equally many outputs."""
        parts = np.zeros((len(tasks), self._of(int(tasks[0])).shape[1]), np.float32)
        for task in np.unique(tasks):
            here, known = np.flatnonzero(tasks == task), self._of(int(task))
            parts[here] = known[texts[here] - self._first(int(task))]
        return parts

    def _first(self, task: int) -> int:
        """The number of the text that the first of a task's logits are for."""
        return 0 if self.options.all_texts else int(self.starts[task])

    def _of(self, task: int) -> Array:
        found = self.logits[task]
        assert found is not None
        return found


def same_input(one: Task, other: Task) -> bool:
    """Whether a text of one task can be asked the other."""
    return len(one.text) == len(other.text) and teachable(make_kind(one)) and teachable(make_kind(other))


def teachable(kind: Kind) -> bool:
    """Whether a teacher's answers can be learned from: those of kinds with one vector a row."""
    whole = kind.points == "vector" and not kind.ragged and kind.windows.most == 1
    return whole and type(kind).divergence is not Kind.divergence


def teach(
    file: TaskFile,
    sets: Sequence[TaskSet],
    tokenizer: Tokenizer,
    options: DistillOptions,
    device: str,
    precision: str = "auto",
    keep: bool = True,
) -> Teaching:
    """Ask the teachers about all training texts; what they answered before is read from the cache.

    Without `keep` nothing is cached, for teachers that are asked once.
    """
    sums: list[Array | None] = [None] * len(sets)
    counts: list[Array] = [np.zeros((1, 1), np.float32)] * len(sets)
    faults = []
    known = {item.task.name: number for number, item in enumerate(sets) if teachable(make_kind(item.task))}
    if not known:
        raise ConfigError(
            "train.distill: no task is of a kind that learns from a teacher. Possible are those that give one answer "
            "to the whole of a text, read in one window. Leave distill out."
        )
    for folder in map(Path, teachers_of(options.teachers)):
        tasks = list(map(task_said, read_tasks(folder)))
        pupils = {number: known[task.name] for number, task in enumerate(tasks) if task.name in known}
        if not pupils:
            names = ", ".join(task.name for task in tasks)
            faults.append(f"{folder} knows none of the tasks {', '.join(known)}; it has {names}.")
            continue
        others = [(tasks[number], sets[pupil].task) for number, pupil in pupils.items()]
        if wrong := [(own, task) for own, task in others if own.kind != task.kind]:
            faults += [
                f"{folder}, task {task.name!r}: it is {own.kind} there, {task.kind} here." for own, task in wrong
            ]
            continue
        own = Tokenizer.load(folder / "tokenizer.json", read_config(folder)["encoder"]["max_length"])
        rows = sets if own.same_as(tokenizer) else read_sets(file, own)
        found = (kept_answers if keep else answers_of)(folder, rows, pupils, options.all_texts, device, precision)
        for number, pupil in pupils.items():
            task = sets[pupil].task
            try:
                values = make_kind(task).translate(task, tasks[number], found[number])
            except ValueError as error:
                faults.append(f"{folder}, task {task.name!r}: it {error}.")
                continue
            asked = range(len(sets)) if options.all_texts else [pupil]
            values = by_row(values, [rows[place] for place in asked], [sets[place] for place in asked])
            answered, before = ~np.isnan(values).any(1, keepdims=True), sums[pupil]
            values = np.where(answered, values, np.float32(0))
            sums[pupil] = values if before is None else before + values
            counts[pupil] = counts[pupil] + answered.astype(np.float32)
    if faults:
        raise ConfigError(listed([f"train.distill.teachers: {fault}" for fault in faults]))
    if untaught := [item.task.name for item, total in zip(sets, sums, strict=True) if total is None]:
        log.info(
            "%s learn from labels alone: no teacher knows them, or they are read in windows or of a kind that has none",
            ", ".join(untaught),
        )
    with np.errstate(invalid="ignore"):  # 0 / 0 where no teacher has an answer
        means = [None if total is None else total / count for total, count in zip(sums, counts, strict=True)]
    return Teaching(sets, means, options)


def by_row(values: Array, read: Sequence[TaskSet], wanted: Sequence[TaskSet]) -> Array:
    """Answers to the training texts of `read` as answers to those of `wanted`, NaN to rows that were not read.

    Both are of the same files, but a tokenizer that makes nothing of a text leaves its row out.
    """
    parts = np.split(values, np.cumsum([len(item.train) for item in read])[:-1])
    placed = []
    for part, here, there in zip(parts, read, wanted, strict=True):
        _, old, new = np.intersect1d(here.train.rows, there.train.rows, assume_unique=True, return_indices=True)
        placed.append(np.full((len(there.train), values.shape[1]), np.nan, np.float32))
        placed[-1][new] = part[old]
    return np.concatenate(placed)


def kept_answers(
    folder: Path, sets: Sequence[TaskSet], pupils: dict[int, int], everything: bool, device: str, precision: str
) -> dict[int, Array]:
    """What `answers_of` found, now or in an earlier training."""
    cached = cache_folder("teachers") / f"{_key(folder, sets, pupils, everything, precision)}.safetensors"
    try:
        return {int(number): values for number, values in load_file(cached).items()}
    except (OSError, SafetensorError):
        found = answers_of(folder, sets, pupils, everything, device, precision)
    _keep(found, cached)
    return found


def answers_of(
    folder: Path, sets: Sequence[TaskSet], pupils: dict[int, int], everything: bool, device: str, precision: str
) -> dict[int, Array]:
    """A teacher's logits by its own task numbers: for the rows of that task, or for those of all tasks (`everything`).

    `pupils` maps the teacher's task numbers to places in `sets`. Texts that cannot be asked a task have NaN there.
    """
    log.info("asking the teacher %s about the training texts", folder)
    teacher = Model.load(folder).to(device)
    starts = np.cumsum([0, *(len(item.train) for item in sets)]).tolist()
    found: dict[int, Array] = {}
    for number, pupil in pupils.items():
        rows = starts[-1] if everything else len(sets[pupil].train)
        found[number] = np.full((rows, teacher.kinds[number].outputs(teacher.tasks[number])), np.nan, np.float32)
    for place, item in enumerate(sets):
        asked = [
            number
            for number, pupil in pupils.items()
            if pupil == place or (everything and same_input(item.task, sets[pupil].task))
        ]
        first = starts[place] if everything else 0
        for number, values in zip(asked, _ask(teacher, item.train, asked, precision), strict=True):
            found[number][first : first + len(values)] = values
    return found


def _ask(teacher: Model, examples: Examples, asked: Sequence[int], precision: str) -> list[Array]:
    """For each task asked, the (rows, C) logits."""
    if not asked:
        return []
    outputs = [teacher.kinds[number].outputs(teacher.tasks[number]) for number in asked]
    found = [np.zeros((len(examples), size), np.float32) for size in outputs]
    place, width = teacher.device.type, teacher.method.encoder.config.width
    autocast = torch.autocast(place, torch.bfloat16, enabled=in_halves(precision, place, width))
    for rows in sorted_batches(examples.lengths, ROWS, TOKENS):
        batch = Batch.of([examples.sequence(int(examples.parts[row])) for row in rows])
        with autocast:
            for values, logits in zip(found, teacher.logits(batch, asked), strict=True):
                values[rows] = logits
    return found


def _key(folder: Path, sets: Sequence[TaskSet], pupils: dict[int, int], all_texts: bool, precision: str) -> str:
    """What the answers depend on: the teacher's files, the tokens of the texts in their order, what each is asked."""
    key = hashlib.blake2b((folder / MANIFEST).read_bytes(), digest_size=16)
    key.update(repr((sorted(pupils.items()), all_texts, precision)).encode())
    for item in sets:
        key.update(repr((len(item.train), len(item.task.text), teachable(make_kind(item.task)))).encode())
        for part in (item.train.ids, item.train.offsets, item.train.firsts):
            key.update(np.ascontiguousarray(part).tobytes())
    return key.hexdigest()


def _keep(found: dict[int, Array], path: Path) -> None:
    """Write answers whole or not at all; a training does not fail for want of a cache."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({str(number): values for number, values in found.items()}, draft)
        draft.replace(path)
    except (OSError, SafetensorError) as error:
        log.warning("the teachers' answers were not kept for the next training: %s", error)
        with suppress(OSError):
            draft.unlink()
