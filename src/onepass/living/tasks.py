"""Changing the tasks of a trained model's folder, with a proof that nothing else moved.

Each change happens whole or not at all: whoever reads the folder meanwhile sees the old model or the new one.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onepass.atomic import Edit, edit_folder, read_json, write_json
from onepass.card import model_card
from onepass.contents import model_files, read_config
from onepass.data.findings import enumerated
from onepass.data.reading import find_labels
from onepass.encoder.batch import Batch
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import ConfigError, DataError, FolderError, listed, unknown
from onepass.folder import RECORDED, load_model, load_tasks, save_task
from onepass.heads import check_kinds, make_kind
from onepass.methods import options_of
from onepass.model import SERVING_TOKENS, Model
from onepass.tasks import TASK_KEYS, MethodChoice, Task, make_task
from onepass.training.adding import AddOptions, check_addable, check_new_names, train_task
from onepass.training.sets import TaskSet, path_of, read_set
from onepass.training.thresholds import set_thresholds

log = logging.getLogger(__name__)
PROBES, LONGEST_PROBE, TOLERANCE = 200, 16, 1e-6
DERIVED = ("report.html",)
"""What was made from the whole model; it would say something else than the changed model, and has to be made anew.
The engine is not among them: it takes the tasks from their folders."""


class Unproven(Exception):
    """A change that would have moved something else; it was not made."""


@dataclass(frozen=True)
class Proof:
    """What was compared after a change: files by sha256, and the other tasks' logits on probe texts."""

    files: int
    """Files of the other tasks, the encoder, the tokenizer and the method, all unchanged"""
    tasks: int
    """Other tasks that were asked"""
    change: float
    """The largest change of any of their logits"""
    probes: int = PROBES

    def __str__(self) -> str:
        tasks = "1 kept task" if self.tasks == 1 else f"{self.tasks} kept tasks"
        return (
            f"proof: {self.files} files of {tasks}, the encoder and the method are unchanged (sha256); largest change "
            f"of their logits on {self.probes} probe texts: {self.change:.3g}"
        )


# --- the changes ------------------------------------------------------------------------------------------------


def add_tasks(
    folder: Path, tasks: Sequence[Task], options: AddOptions | None = None, progress: bool = True
) -> tuple[Model, Proof]:
    """Train further tasks on top of a model that stays as it is, and write them to its folder."""
    options = options or AddOptions()
    with changing(folder) as change:
        model = change.model
        check_addable(model.method, model.choice.name)
        check_new_names(model, [task.name for task in tasks])
        for item in _read(tasks, model.tokenizer, options):
            train_task(model, item, options, progress)
            change.write(len(model.tasks) - 1)
        return model, change.prove()


def update_task(
    folder: Path, name: str, keys: Mapping[str, Any], options: AddOptions | None = None, progress: bool = True
) -> tuple[Model, Proof]:
    """Train a task anew, on other data if `keys` name some.

    Its labels keep their order, and new ones of the rows follow; `labels` in `keys` replaces them all, an empty list
    by those of the rows.
    """
    options = options or AddOptions()
    with changing(folder) as change:
        model = change.model
        check_addable(model.method, model.choice.name)
        (number,) = model.numbers([name])
        if model.method.others_depend_on(number):
            raise ConfigError(f"{name!r} cannot be trained anew: {_dependent(model)}")
        old, version = model.tasks[number], model.records[number].get("version", 1)
        kept = {key: getattr(old, key) for key in TASK_KEYS if key != "labels"}
        task = make_task(name, {**kept, **old.options, **keys}, checks=[check_kinds])
        if old.labels and "labels" not in keys:
            task = task.model_copy(update={"labels": _labels_anew(old, task)})
        (item,) = _read([task], model.tokenizer, options)
        train_task(model, item, options, progress)
        model.records[-1]["version"] = version + 1
        model.replace_by_last(number)
        change.write(number, order=change.orders[name])
        return model, change.prove()


def change_thresholds(
    folder: Path, names: Sequence[str] | None, value: Any, data: Path | None = None
) -> tuple[Model, Proof, list[str]]:
    """Give tasks other thresholds, as `onepass.training.thresholds` says; returns also which tasks those are."""
    with changing(folder) as change:
        model = change.model
        numbers = set_thresholds(model, names, value, data)
        for number in numbers:
            change.describe(number)
        changed = [model.tasks[number].name for number in numbers]
        return model, change.prove({name: name for name in changed}), changed


def remove_task(folder: Path, name: str) -> tuple[Model, Proof]:
    """Delete a task from a model folder."""
    with changing(folder) as change:
        change.model.discard(check_removable(change.model, name))
        change.drop(name)
        return change.model, change.prove()


def rename_task(folder: Path, old: str, new: str) -> tuple[Model, Proof]:
    """Give a task another name."""
    with changing(folder) as change:
        model = change.model
        (number,) = model.numbers([old])
        check_new_names(model, [new])
        task = _renamed(model.tasks[number], new)
        known = read_json(change.edit.folder / "tasks" / old / "task.json")
        change.drop(old)
        place = change.place(new)
        place.mkdir(parents=True)
        write_json(place / "task.json", {**known, "name": task.name})
        shutil.copyfile(change.edit.folder / "tasks" / old / "weights.safetensors", place / "weights.safetensors")
        model.tasks[number] = task
        return model, change.prove({new: old})


def copy_task(source: Path, name: str, target: Path, new: str | None = None) -> tuple[Model, Proof]:
    """Copy a task into another model with the same encoder and method."""
    files = model_files(source)
    if f"tasks/{name}/task.json" not in files:
        names = [file.split("/")[1] for file in files if file.endswith("/task.json")]
        raise ConfigError(f"{source}: {unknown('task', name, names)}")
    with changing(target) as change:
        model = change.model
        check_new_names(model, [new or name])
        check_alike(source, target)
        if model.method.depends_on_tasks:
            raise ConfigError(f"A task cannot be copied: {_dependent(model)}")
        try:
            load_tasks(model, [source / "tasks" / name])
        except (AttributeError, ConfigError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise FolderError(f"{source / 'tasks' / name} is no task that {target} can take: {error}") from error
        model.tasks[-1] = _renamed(model.tasks[-1], new or name)
        change.write(len(model.tasks) - 1)
        return model, change.prove()


def check_removable(model: Model, name: str) -> int:
    """The number of a task that can be removed; else an error says why not."""
    (number,) = model.numbers([name])
    if len(model.tasks) == 1:
        raise ConfigError(f"{name!r} is the model's last task, and a model needs one. Delete the whole folder instead.")
    if model.method.others_depend_on(number):
        raise ConfigError(f"{name!r} cannot be removed: {_dependent(model)}")
    return number


def check_alike(source: Path, target: Path) -> None:
    """Raise if a task of one model means nothing in the other: another encoder, tokenizer or method."""
    configs = [read_config(folder) for folder in (source, target)]
    hashes = [config["encoder"]["sha256"] for config in configs]
    if hashes[0] != hashes[1]:
        raise FolderError(
            f"A task works with its own encoder only: {source} has encoder {hashes[0][:16]}, {target} has "
            f"{hashes[1][:16]}. Train the task there with: onepass add {target}"
        )
    methods = [_resolved(MethodChoice(**config["method"])) for config in configs]
    if methods[0] != methods[1]:
        raise FolderError(f"The methods differ: {source} has {methods[0]}, {target} has {methods[1]}.")
    shared = [read_json(folder / "MANIFEST.json")["files"] for folder in (source, target)]
    for file in ("method.safetensors", "tokenizer.json"):
        found = [files.get(file) for files in shared]
        if found[0] != found[1]:
            raise FolderError(
                f"A task works with its own {file} only: that of {source} is {str(found[0])[:16]}, that of {target} "
                f"{str(found[1])[:16]}."
            )


# --- how a change is made and proved ------------------------------------------------------------------------------


class Change:
    """A change to the tasks of a model folder, under way."""

    def __init__(self, edit: Edit):
        self.edit = edit
        self.model = load_model(edit.folder)
        self.orders: dict[str, int] = {
            name: read_json(edit.folder / "tasks" / name / "task.json")["order"] for name in self.model.names
        }
        self.touched: set[str] = set()
        edit.drop(*DERIVED)
        if made := sorted({name for name in edit.before for start in DERIVED if name.startswith(start)}):
            log.warning("%s was made from the model as it was, and is left out: make it again", made[0].split("/")[0])

    def place(self, name: str) -> Path:
        """The folder in which a task is written."""
        self.touched.add(name)
        return self.edit.draft / "tasks" / name

    def drop(self, name: str) -> None:
        self.touched.add(name)
        self.edit.drop(f"tasks/{name}/")

    def write(self, number: int, order: int | None = None) -> None:
        """Write one of the model's tasks."""
        name = self.model.tasks[number].name
        self.drop(name)  # what there is of it
        self.orders[name] = max(self.orders.values()) + 1 if order is None else order
        save_task(self.model, number, self.place(name), self.orders[name])

    def describe(self, number: int) -> None:
        """Write what is said of one of the model's tasks anew; its weights stay."""
        task, file = self.model.tasks[number], Path("tasks") / self.model.tasks[number].name / "task.json"
        known = {key: value for key, value in read_json(self.edit.folder / file).items() if key not in RECORDED}
        self.place(task.name).mkdir(parents=True)
        write_json(self.edit.draft / file, known | task.model_dump(mode="json") | self.model.records[number])

    def prove(self, renamed: Mapping[str, str] | None = None) -> Proof:
        """Complete the new folder, read it back from the disk and compare it with the old one."""
        (self.edit.draft / "README.md").write_text(model_card(self.model), encoding="utf-8")
        self.edit.complete()
        stay = [name for name in self.model.names if name not in self.touched or name in (renamed or {})]
        after = load_model(self.edit.draft)
        files = self._same_files(renamed or {})
        change = largest_change(self.model, after, stay)
        if not change <= TOLERANCE:  # also if it is NaN
            raise Unproven(
                f"the answers of other tasks would have changed by {change:.3g} on the probe texts, more than "
                f"{TOLERANCE:g}. Nothing was changed."
            )
        return Proof(files, len(stay), change)

    def _same_files(self, renamed: Mapping[str, str]) -> int:
        """How many files stayed; raises if one changed that should not have."""
        after = self.edit.after or {}
        free = ("README.md", *DERIVED, *(f"tasks/{name}/" for name in self.touched))
        stay = {file: sha for file, sha in self.edit.before.items() if not file.startswith(free)}
        pairs = [(sha, after.get(file), file) for file, sha in stay.items()]
        for new, old in renamed.items():
            file = f"tasks/{old}/weights.safetensors"
            pairs.append((self.edit.before[file], after.get(f"tasks/{new}/weights.safetensors"), file))
        if moved := [file for sha, found, file in pairs if sha != found]:
            raise Unproven(f"{', '.join(moved)} would have changed. Nothing was changed.")
        return len(pairs)


@contextmanager
def changing(folder: Path) -> Iterator[Change]:
    """A change to a model folder; after an error the folder is as it was."""
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise FolderError(
            f"There is no model folder {folder}. Only a folder on this machine can be changed; a model of the hub is "
            "put into one with onepass.load(NAME).save(FOLDER)."
        )
    read_config(folder)  # says so if this is no model folder
    with edit_folder(folder) as edit:
        yield Change(edit)


def probe_batches(tokenizer: Tokenizer) -> list[Batch]:
    """The probe texts: tokens drawn from the vocabulary, the same for every model with this vocabulary."""
    generator = np.random.default_rng(0)
    first, *rest = tokenizer.encode([("",)])[0].ids
    sequences = []
    for number in range(PROBES):
        length = int(generator.integers(1, max(2, min(LONGEST_PROBE, tokenizer.max_length) - len(rest))))
        ids = [first, *generator.integers(0, tokenizer.vocab_size, length).tolist(), *rest]
        types = [int(number % 2 and place > len(ids) // 2) for place in range(len(ids))]  # every other one is a pair
        sequences.append((ids, types))
    rows = max(1, SERVING_TOKENS["cpu"] // LONGEST_PROBE)
    return [Batch.of(sequences[start : start + rows]) for start in range(0, len(sequences), rows)]


def largest_change(before: Model, after: Model, names: Sequence[str]) -> float:
    """How far the logits of these tasks are apart at most, in two models, on the probe texts.

    Both models are asked the same tasks in the same order: another number of tasks in one product would round
    differently in the last digit.
    """
    if not names:
        return 0.0
    asked = [model.numbers(names) for model in (before, after)]
    largest = 0.0
    for batch in probe_batches(before.tokenizer):
        for old, new in zip(before.logits(batch, asked[0]), after.logits(batch, asked[1]), strict=True):
            if old.shape != new.shape:
                return float("inf")
            largest = float(np.maximum(largest, np.abs(old - new).max()))  # keeps a NaN
    return largest


def _labels_anew(old: Task, task: Task) -> tuple[str, ...]:
    """The labels that a task has and after them the new ones of its training rows, with a word about any difference."""
    source = path_of(task, "train")
    found = find_labels(task, source, make_kind(task))
    new = [label for label in found if label not in old.labels]
    unseen = [label for label in old.labels if label not in found]
    if found and len(new) == len(found):
        raise DataError(
            f"{source}, column {task.label!r}: none of the labels of task {task.name!r} is there. It has "
            f"{enumerated(old.labels)}; the rows have {enumerated(new)}. Give the right column with --label, or, if "
            "these are its labels from now on, --replace-labels."
        )
    if new:
        log.warning("%s: the rows have new labels, which the task now has too: %s", task.name, enumerated(new))
    if unseen:
        log.warning(
            "%s: no row has the labels %s: they stay, but nothing is learned about them. --replace-labels drops them",
            task.name,
            enumerated(unseen),
        )
    return (*old.labels, *new)


def _read(tasks: Sequence[Task], tokenizer: Tokenizer, options: AddOptions) -> list[TaskSet]:
    """The rows of tasks; all files' faults are raised as one DataError."""
    sets, faults = [], []
    for task in tasks:
        try:
            sets.append(read_set(task, tokenizer, options.least_rows))
        except DataError as error:
            faults.append(str(error))
    if faults:
        raise DataError(listed(list(dict.fromkeys(faults))))
    return sets


def _renamed(task: Task, name: str) -> Task:
    try:
        return Task(**{**task.model_dump(), "name": name})
    except ValueError as error:
        raise ConfigError(f"{name!r} is no task name: {Task.model_fields['name'].description}.") from error


def _resolved(choice: MethodChoice) -> str:
    """A method with all its options, those left out included."""
    options = {key: parameter.default for key, parameter in options_of(choice.name).items()} | choice.options
    return ", ".join([choice.name, *(f"{key}={value}" for key, value in sorted(options.items()))])


def _dependent(model: Model) -> str:
    return (
        f"with method {model.choice.name!r} the answers of all tasks depend on which tasks there are. Train the model "
        "anew, or use method 'readers', with which they do not."
    )
