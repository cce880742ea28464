"""Adding tasks to a trained model's folder, and training anew, removing, renaming and copying those that are there."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onepass.atomic import listed_files, read_json, write_json
from onepass.contents import model_files, read_config, task_names
from onepass.data.findings import enumerated
from onepass.data.reading import find_labels
from onepass.errors import ConfigError, DataError, FolderError, unknown
from onepass.folder import load_tasks
from onepass.heads import check_kinds, make_kind
from onepass.living.change import changing
from onepass.living.proof import Proof
from onepass.methods import options_of
from onepass.model import Model
from onepass.tasks import TASK_KEYS, MethodChoice, Task, make_task, spelling
from onepass.training.adding import AddOptions, check_addable, check_new_names, train_task
from onepass.training.sets import path_of, read_set, read_sets_of
from onepass.training.thresholds import set_thresholds

log = logging.getLogger(__name__)


def add_tasks(
    folder: Path,
    tasks: Sequence[Task],
    options: AddOptions | None = None,
    progress: bool = True,
    rows_stay: bool = True,
) -> tuple[Model, Proof]:
    """Train further tasks on top of a model that stays as it is, and write them to its folder.

    Where their rows do not stay where they are, the tasks name no file to find them in later.
    """
    options = options or AddOptions()
    with changing(folder) as change:
        model = change.model
        check_addable(model.method, model.choice.name)
        anew = f"Choose another name, or train it anew with: onepass update {folder} NAME"
        check_new_names(model, [task.name for task in tasks], anew)
        for item in read_sets_of(tasks, model.tokenizer, options.least_rows):
            train_task(model, item, options, progress)
            if not rows_stay:
                _name_no_rows(model)
            change.write(len(model.tasks) - 1)
        return model, change.prove()


def update_task(
    folder: Path,
    name: str,
    keys: Mapping[str, Any],
    options: AddOptions | None = None,
    progress: bool = True,
    rows_stay: bool = True,
) -> tuple[Model, Proof]:
    """Train a task anew, on other data if `keys` name some; `rows_stay` as for `add_tasks`.

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
        if "test" not in keys and isinstance(old.test, Path) and not old.test.is_file():
            log.info("%s: there is no test file %s any more; the task goes on without one", name, old.test)
            kept["test"] = None
        task = make_task(name, {**kept, **old.options, **keys}, checks=[check_kinds])
        if old.labels and "labels" not in keys and task.kind == old.kind:
            task = task.model_copy(update={"labels": _labels_anew(old, task)})
        item = read_set(task, model.tokenizer, options.least_rows)
        train_task(model, item, options, progress)
        if not rows_stay:
            _name_no_rows(model)
        model.records[-1]["version"] = version + 1
        model.replace_by_last(number)
        change.write(number, order=change.orders[name])
        return model, change.prove()


def _name_no_rows(model: Model) -> None:
    """Let the last task name no training file."""
    model.tasks[-1] = model.tasks[-1].model_copy(update={"train": None})


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
        # What the training said of it stands under the name it had then.
        trained_as = model.records[number].setdefault("trained_as", old)
        write_json(place / "task.json", known | {"trained_as": trained_as, "name": task.name})
        shutil.copyfile(change.edit.folder / "tasks" / old / "weights.safetensors", place / "weights.safetensors")
        model.tasks[number] = task
        return model, change.prove({new: old})


def copy_task(
    source: Path, name: str, target: Path, new: str | None = None, replace: bool = False
) -> tuple[Model, Proof]:
    """Copy a task into another model with the same encoder and method; with `replace` in place of one of its name."""
    if name not in (names := task_names(model_files(source))):
        raise ConfigError(f"{source}: {unknown('task', name, names)}")
    with changing(target) as change:
        model, old = change.model, None
        if replace and (new or name) in model.names:
            (old,) = model.numbers([new or name])
        else:
            check_new_names(model, [new or name], "Give it another name there with --as.")
        check_alike(source, target)
        if model.method.depends_on_tasks:
            raise ConfigError(f"A task cannot be copied: {_dependent(model)}")
        try:
            load_tasks(model, [source / "tasks" / name])
        except (AttributeError, ConfigError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise FolderError(f"{source / 'tasks' / name} is no task that {target} can take: {error}") from error
        model.tasks[-1] = _renamed(model.tasks[-1], new or name)
        model.records[-1]["trained_as"] = None
        if old is None:
            change.write(len(model.tasks) - 1)
        else:
            versions = [model.records[number].get("version", 1) for number in (-1, old)]
            model.records[-1]["version"] = max(versions[0], versions[1] + 1)
            model.replace_by_last(old)
            change.write(old, order=change.orders[new or name])
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
    shared = [listed_files(folder) for folder in (source, target)]
    for file in ("method.safetensors", "tokenizer.json"):
        found = [files.get(file) for files in shared]
        if found[0] != found[1]:
            raise FolderError(
                f"A task works with its own {file} only: that of {source} is {str(found[0])[:16]}, that of {target} "
                f"{str(found[1])[:16]}."
            )


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
            'these are its labels from now on, --replace-labels; over HTTP "labels": [].'
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


def _renamed(task: Task, name: str) -> Task:
    try:
        return Task(**{**task.model_dump(), "name": name})
    except ValueError as error:
        possible = Task.model_fields["name"].description
        raise ConfigError(
            f"{name!r} is no task name. Did you mean {spelling(name)!r}? Possible: {possible}."
        ) from error


def _resolved(choice: MethodChoice) -> str:
    """A method with all its options, those left out included."""
    options = {key: parameter.default for key, parameter in options_of(choice.name).items()} | choice.options
    return ", ".join([choice.name, *(f"{key}={value}" for key, value in sorted(options.items()))])


def _dependent(model: Model) -> str:
    return (
        f"with method {model.choice.name!r} the answers of all tasks depend on which tasks there are. Train the model "
        "anew, or use method 'readers', with which they do not."
    )
