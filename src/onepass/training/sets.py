"""The tokenised rows of all tasks of a task file."""

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onepass.data.examples import Examples, Ragged
from onepass.data.hub import PREFIX, hub_file
from onepass.data.reading import find_all_labels, read_all_examples
from onepass.data.split import split
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import DataError, listed
from onepass.heads import make_kind
from onepass.tasks import Task, TaskFile

log = logging.getLogger(__name__)
SPLIT_SEED = 0  # not the run's seed: runs of several seeds are scored on the same validation rows


@dataclass
class TaskSet:
    """A task whose labels are known, with its rows."""

    task: Task
    train: Examples
    validation: Examples


def read_sets(file: TaskFile, tokenizer: Tokenizer) -> list[TaskSet]:
    """Read and tokenise every task's training and validation rows; all files' faults are raised as one DataError."""
    return read_sets_of(file.tasks.values(), tokenizer)


def read_set(task: Task, tokenizer: Tokenizer, least_rows: int = 0) -> TaskSet:
    """One task's rows, and the task with its labels and what else its kind learns from the training rows.

    Of fewer than `least_rows` rows none is held back for validation, unless validation is a file.
    """
    return read_sets_of([task], tokenizer, least_rows)[0]


def read_sets_of(tasks: Iterable[Task], tokenizer: Tokenizer, least_rows: int = 0) -> list[TaskSet]:
    """The same for several tasks; a file that several of them read is read once."""
    tasks = list(tasks)
    faults: list[str] = []
    train = _read_files({task.name: task for task in tasks}, "train", tokenizer, faults)
    apart = {name: task for name, (task, _) in train.items() if not isinstance(task.validation, float)}
    validation = _read_files(apart, "validation", tokenizer, faults)
    sets = []
    for name in [name for name, (task, _) in train.items() if name not in apart or name in validation]:
        try:
            rows = validation.pop(name)[1] if name in apart else None
            sets.append(_finished(*train.pop(name), rows, tokenizer, least_rows))
        except DataError as error:
            faults.append(str(error))
    if faults:
        raise DataError(listed(list(dict.fromkeys(faults))))
    order = {task.name: place for place, task in enumerate(tasks)}
    return sorted(sets, key=lambda item: order[item.task.name])


def _read_files(
    tasks: Mapping[str, Task], split_name: str, tokenizer: Tokenizer, faults: list[str]
) -> dict[str, tuple[Task, Examples]]:
    """The rows of a split of these tasks, file by file, and the tasks with their labels; without those with faults."""
    by_file: dict[Path, list[Task]] = {}
    for task in tasks.values():
        try:
            by_file.setdefault(path_of(task, split_name), []).append(task)
        except DataError as error:
            faults.append(str(error))
    found: dict[str, tuple[Task, Examples]] = {}
    for source, own in by_file.items():
        kinds = [make_kind(task) for task in own]
        try:
            labels = [task.labels for task in own]
            if split_name == "train":
                labels = find_all_labels(own, source, kinds)
                own = [task.model_copy(update={"labels": names}) for task, names in zip(own, labels, strict=True)]
            rows = read_all_examples(own, source, kinds, tokenizer, labels)
        except DataError as error:
            faults.append(str(error))
        else:
            found |= {task.name: (task, rows.pop(0)) for task in own}
    return found


def _finished(
    task: Task, train: Examples, validation: Examples | None, tokenizer: Tokenizer, least_rows: int
) -> TaskSet:
    """A task with what its kind learns from the training rows, of which a share is held back if that is wanted."""
    kind, source = make_kind(task), path_of(task, "train")
    if isinstance(task.validation, float):
        train, validation = split(train, task.validation if len(train) >= least_rows else 0.0, SPLIT_SEED)
    assert validation is not None
    if not len(validation) and len(train) >= least_rows:
        log.warning("%s: none of its %d rows can be spared for validation: it is not scored", task.name, len(train))
    named = [f"Task {task.name!r}, {fault}" for fault in kind.named_faults(task)]
    if faults := named + kind.faults(task, train.targets):
        raise DataError(f"{source}: {listed(faults)}")
    for name, rows in (("train", train), ("validation", validation)):
        if rows.blank_rows:
            log.warning(
                "%s: %d rows of %s have a label but no text and are left out", task.name, len(rows.blank_rows), name
            )
        if rows.truncated:
            log.info(
                "%s: %d of %d texts of %s are cut to %d tokens",
                task.name,
                rows.truncated,
                len(rows),
                name,
                tokenizer.max_length,
            )
    return TaskSet(task.model_copy(update={"fitted": kind.fit(task, train.targets)}), train, validation)


def path_of(task: Task, split_name: str) -> Path:
    """The file of a task's split."""
    source = getattr(task, split_name)
    if isinstance(source, Path):
        return source
    if isinstance(source, str):
        return hub_file(source, split_name) if source.startswith(PREFIX) else Path(source)
    raise DataError(f"Task {task.name!r} names no {split_name} file, as after rows sent to a server. Give a data file.")


def fingerprint(examples: Examples) -> str:
    """64 bits that change with the texts or the targets of the rows, whatever their order."""
    if examples.targets.ndim == 1 and examples.targets.dtype != object:
        targets = examples.targets.astype(np.float64).view(np.uint64)
    else:
        said = [hashlib.blake2b(_bytes(target), digest_size=8).digest() for target in examples.targets]
        targets = np.frombuffer(b"".join(said), np.uint64)
    return hashlib.blake2b(np.sort(examples.hashes ^ targets).tobytes(), digest_size=8).hexdigest()


def _bytes(target: Any) -> bytes:
    """All that a row's target says; numpy's own words for a long array leave out its middle."""
    value = target.value if isinstance(target, Ragged) else target
    return np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
