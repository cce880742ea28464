"""A training from its task file to its model folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from accelerate.utils import set_seed

from onepass.atomic import Locked, locked
from onepass.encoder.loading import load_encoder
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import ConfigError, FolderError, NoSpace, listed
from onepass.folder import check_output, size_of
from onepass.heads import check_kinds
from onepass.methods import check_method, make_method, settle_method
from onepass.model import Model
from onepass.served import check_served
from onepass.tasks import TaskFile, read_task_file
from onepass.training.checkpoint import Checkpoints, checkpoint_folder, training_key
from onepass.training.device import device_of, make_accelerator
from onepass.training.distillation import Teaching, teach
from onepass.training.finetuning import copies_of, joint_record, second_stage
from onepass.training.kept import KeptModel, check_same, forget, kept_folder
from onepass.training.loop import Trainer
from onepass.training.options import DistillOptions, TrainOptions, check_train, train_options
from onepass.training.sets import TaskSet, read_sets
from onepass.training.soup import soup_folders, train_soup
from onepass.training.teachers import (
    forget_teachers,
    own_teachers,
    seconds_of,
    teachers_folder,
    teachers_wanted,
    tell_of_teachers,
    with_learners,
)

JOINT = "joint"  # what names the model of the first stage
CHECKS = (check_method, check_kinds, check_served, check_train)


def train(
    file: str | Path | Mapping[str, Any] | TaskFile,
    output: str | Path | None = None,
    *,
    overrides: str | Sequence[str] = (),
    overwrite: bool = False,
    resume: bool = False,
    progress: bool = True,
) -> Model:
    """Train a model on the tasks of a task file, and write its folder if `output` is given.

    A mapping is read as a task file with that content; `overrides` give keys other values, as on the command line:
    `["method=mtdnn", "train.seed=1"]`.
    All faults of the task file and of the data are raised at once, before anything is trained or written.
    A long training leaves checkpoints beside its output; `resume` goes on from the last one, if there is one.
    """
    file = checked(file, overrides)
    if output is not None:
        output = Path(output)
        check_output(output, overwrite=overwrite)
    options = with_learners(train_options(file.train), file.tasks.values())
    model, sets = untrained(file, options)
    key = training_key(file, sets, options)
    checkpoints = None
    if output is not None:
        models = max(options.soup, 1 if options.finetune is None else len(sets))
        check_output(output, overwrite=overwrite, needed=size_of(model) * models, passing=left_beside(output))
        checkpoints = Checkpoints(output, key, options.checkpoint_every_s)
    again = partial(train, resume=resume, progress=progress)
    wants = options, model.method.teachers, len(sets), device_of(options)
    count = teachers_wanted(*wants)
    tell_of_teachers(*wants)
    with ExitStack() as stack:
        if output is not None:
            stack.enter_context(alone(output))
            make_way(output, key, resume)
            # A late process must not remove what another has begun.
            make_accelerator(options, model.method.encoder.config.width).wait_for_everyone()
        own = stack.enter_context(own_teachers(again, file, key, options, count, output))
        teaching, teachers_s = taught(file, sets, model.tokenizer, options, own)
        set_seed(options.seed)  # whatever teachers drew before
        joint = KeptModel(output, JOINT, key) if output is not None and options.finetune is not None else None
        found = joint.load(options.dropout) if joint is not None and resume else None
        trainer = Trainer(found or model, sets, options, progress, checkpoints, teaching)
        trainer.teachers_s = teachers_s
        if found is None and options.soup > 1:
            train_soup(trainer, output, key, resume)
        elif found is None:
            trainer.run(resume)
        if options.finetune is not None:
            trainer = fine_tune(trainer, output, key, resume, joint)
        if output is not None:
            hand_over(trainer, output, overwrite)
    return trainer.model


def checked(file: str | Path | Mapping[str, Any] | TaskFile, overrides: str | Sequence[str]) -> TaskFile:
    """A task file that can be trained on; all its faults are raised at once."""
    if not isinstance(file, TaskFile):
        return read_task_file(file, overrides, checks=CHECKS)
    if overrides:
        raise ConfigError("overrides go with the path of a task file; this one is read. Give them to read_task_file.")
    if faults := [fault for check in CHECKS for fault in check(file)]:
        raise ConfigError(listed(faults))
    return file


def without_tasks(file: TaskFile, options: TrainOptions) -> Model:
    """The model of a task file before it has any task."""
    encoder, tokenizer = load_encoder(file.encoder, max_length=options.max_length)
    choice = settle_method(file.method, len(file.tasks))
    method = make_method(choice.name, encoder, choice.options)
    if faults := method.limits(len(file.tasks), options.max_length):
        raise ConfigError(listed(faults))
    return Model(method, tokenizer, choice, file.encoder, dropout=options.dropout)


def untrained(file: TaskFile, options: TrainOptions) -> tuple[Model, list[TaskSet]]:
    """The model of a task file before its training, and the rows of its tasks."""
    set_seed(options.seed)
    model = without_tasks(file, options)
    sets = read_sets(file, model.tokenizer)
    for item in sets:
        model.add(item.task, item.train)
    return model, sets


def make_way(output: Path, key: str, resume: bool) -> None:
    """Check what another training to this output has left, if it is to go on from there; else remove it."""
    if resume:
        for left in left_beside(output):
            check_same(left, key)  # before a part is trained that the next one could not go on from
        return
    forget_teachers(output)
    for stale in parts_beside(output):
        forget(stale)


def taught(
    file: TaskFile, sets: Sequence[TaskSet], tokenizer: Tokenizer, options: TrainOptions, own: DistillOptions | None
) -> tuple[Teaching | None, float]:
    """What the teachers answer to the training texts, the training's `own` or given ones, and the seconds they took."""
    distill = own or options.distill
    if distill is None:
        return None, 0.0
    begun = time.perf_counter()
    found = teach(file, sets, tokenizer, distill, device_of(options), options.precision, keep=own is None)
    return found, time.perf_counter() - begun + (seconds_of(own) if own else 0.0)


def hand_over(trainer: Trainer, output: Path, overwrite: bool) -> None:
    """Write what was trained, and remove all that was kept to go on from."""
    if trainer.accelerator.is_main_process:
        save_result(trainer.model, output, overwrite)
        for left in (checkpoint_folder(output), *parts_beside(output)):
            forget(left)
    trainer.accelerator.wait_for_everyone()


def save_result(model: Model, output: Path, overwrite: bool) -> None:
    """Write the trained model; where there is no room, in place of what the training left beside it, which is older."""
    try:
        model.save(output, overwrite=overwrite)
    except NoSpace:
        left = left_beside(output)
        try:
            check_output(output, overwrite=overwrite, needed=size_of(model), passing=left)
        except NoSpace as error:  # nor in its place: it stays, to go on from
            goes_on = f" {left[0]} holds what is done so far; with --resume the same command goes on." if left else ""
            raise NoSpace(f"{error}{goes_on}") from None
        for place in left:
            forget(place)
        model.save(output, overwrite=overwrite)


def left_beside(output: Path) -> list[Path]:
    """What a training to this output that was cut short has left for `resume`: checkpoints, a first stage, teachers."""
    places = checkpoint_folder(output), *parts_beside(output), teachers_folder(output)
    return [place for place in places if place.is_dir()]


def parts_beside(output: Path) -> list[Path]:
    """Where the parts of a training keep their models and their checkpoints."""
    return [kept_folder(output, JOINT), *soup_folders(output), checkpoint_folder(second_output(output))]


@contextmanager
def alone(output: Path) -> Iterator[None]:
    """Refuse a second training to the same output before it begins, and not when its work is done."""
    with ExitStack() as stack:
        # Of several processes of one training the first has the lock; and Windows has none.
        if os.name == "posix" and not int(os.environ.get("RANK", 0)):
            output.absolute().parent.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(locked(output.absolute().with_name(f"{output.name}.training")))
            except Locked:
                raise FolderError(
                    f"Another process is training to {output}. Wait until it is done, or give another output."
                ) from None
        yield


def second_output(output: Path) -> Path:
    """What names the second stage's checkpoints."""
    return output.with_name(f"{output.name}.finetune")


def fine_tune(joint: Trainer, output: Path | None, key: str, resume: bool, folder: KeptModel | None) -> Trainer:
    """Go on from a trained model with a copy for each task; the first stage's result is kept for a resumed training."""
    options, checkpoints = second_stage(joint.given), None
    updates, seen = joint.model.training_record.setdefault("used", joint.used.state())  # a resumed one has it
    if output is not None and folder is not None:
        if joint.accelerator.is_main_process and folder.save(joint.model):
            for left in (checkpoint_folder(output), *soup_folders(output)):  # nobody goes on from them any more
                forget(left)
        checkpoints = Checkpoints(second_output(output), key, options.checkpoint_every_s)
    set_seed(options.seed)  # whatever the first stage drew: a resumed training does not draw it again
    copies = copies_of(joint.model, joint.sets)
    trainer = Trainer(copies, joint.sets, options, joint.progress, checkpoints, joint.teaching, joint.baseline)
    trainer.from_trained = True
    trainer.used.restore([updates // trainer.accelerator.num_processes, seen])  # it is gathered once more
    trainer.run(resume)
    copies.training_record = joint_record(joint.model, copies)
    return trainer
