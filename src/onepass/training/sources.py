"""The sources of a model of method `prefix`, added, removed and updated one by one.

Each change touches one task's prefix. The representation of the texts changes with it, so the light heads of the
tasks that read it are learned anew, on texts that are read once.
"""

from __future__ import annotations

from collections.abc import Sequence

from accelerate.utils import set_seed

from onepass.errors import ConfigError, listed, unknown
from onepass.methods.prefix import TaskPrefixes
from onepass.model import Model
from onepass.training.loop import Trainer
from onepass.training.options import TrainOptions
from onepass.training.sets import TaskSet


def prefixes_of(model: Model) -> TaskPrefixes:
    """The model's method, if it has prefixes of sources."""
    method = model.method
    if not isinstance(method, TaskPrefixes) or not method.prefix_length:
        raise ConfigError(f"A model of method {model.choice.name!r} has no sources. Train one with method 'prefix'.")
    return method


def source_numbers(model: Model, names: Sequence[str]) -> list[int]:
    """The numbers of sources of these names; names of tasks that are no sources are refused."""
    method = prefixes_of(model)
    known = {model.tasks[task].name: task for task in method.sources}
    if faults := [unknown("source", name, known) for name in names if name not in known]:
        raise ConfigError(listed(faults))
    return [known[name] for name in names]


def learn_source(model: Model, sets: Sequence[TaskSet], name: str, options: TrainOptions) -> None:
    """Learn a task's prefix, or learn it anew, alone, and make it part of the representation.

    `sets` are the rows of the model's tasks, in their order. No other prefix and nothing of the encoder moves.
    """
    set_seed(options.seed)
    (number,) = model.numbers([name])
    method = prefixes_of(model)
    _fit_anew(model, number, sets)
    trainer = Trainer(model, sets, options, progress=False)
    model.to(trainer.accelerator.device)
    trainer.run_stage(method.source_stage(number))
    model.eval()


def learn_heads(model: Model, sets: Sequence[TaskSet], options: TrainOptions) -> None:
    """Learn every task's light head anew, on the representation as it is now, and settle the tasks."""
    set_seed(options.seed)
    method = prefixes_of(model)
    for number in range(len(model.tasks)):
        _fit_anew(model, number, sets)
        method.own(number).attention.load_state_dict(method.new_task().attention.state_dict())
        model.heads[number].reset_parameters()  # type: ignore[operator]
    trainer = Trainer(model, sets, options, progress=False)
    model.to(trainer.accelerator.device)
    trainer.run_stage(method.target_stage())
    trainer.settle_tasks()
    model.to("cpu").eval()


def check_rows(model: Model, sets: Sequence[TaskSet]) -> None:
    """Refuse rows of other tasks than the model's, or with other labels: numbers would stand for the wrong ones."""
    if (found := [item.task.name for item in sets]) != model.names:
        raise ConfigError(
            f"The rows are of the tasks {', '.join(found)}. Needed are those of the model's tasks, in their order: "
            f"{', '.join(model.names)}."
        )
    if faults := [
        f"Task {known.name!r} has the labels {', '.join(item.task.labels)} in its rows, but {', '.join(known.labels)} "
        "in the model. Where rows of some are missing, name the model's as `labels` in the task file; to learn others, "
        "train anew."
        for known, item in zip(model.tasks, sets, strict=True)
        if known.labels != item.task.labels
    ]:
        raise ConfigError(listed(faults))


def _fit_anew(model: Model, number: int, sets: Sequence[TaskSet]) -> None:
    """Let a task know of its rows what they are now: the mean and spread of numbers, for example.

    Its temperatures and thresholds, which were another head's, are forgotten: checkpoints are compared without any.
    """
    model.tasks[number] = model.tasks[number].model_copy(update={"fitted": sets[number].task.fitted})


def add_source(model: Model, sets: Sequence[TaskSet], item: TaskSet, options: TrainOptions) -> None:
    """Give the model one more task as a source, and let all heads learn what it brings."""
    prefixes_of(model)
    check_rows(model, sets)
    set_seed(options.seed)
    model.add(item.task, item.train)
    learn_source(model, [*sets, item], item.task.name, options)
    learn_heads(model, [*sets, item], options)


def update_source(model: Model, sets: Sequence[TaskSet], name: str, options: TrainOptions) -> None:
    """Learn a source's prefix anew, on the rows that `sets` has of it now, and then all heads."""
    (number,) = source_numbers(model, [name])
    check_rows(model, sets)
    set_seed(options.seed)
    # From a new start: rows that are there no more must have left nothing behind.
    method = prefixes_of(model)
    method.own(number).load_state_dict(method.new_task().state_dict())
    model.heads[number].reset_parameters()  # type: ignore[operator]
    learn_source(model, sets, name, options)
    learn_heads(model, sets, options)


def remove_source(model: Model, sets: Sequence[TaskSet], name: str, options: TrainOptions) -> None:
    """Take a source's prefix out of the representation; its task stays as a target. All heads learn anew."""
    (number,) = source_numbers(model, [name])
    check_rows(model, sets)
    method = prefixes_of(model)
    method.use([task for task in method.sources if task != number])
    learn_heads(model, sets, options)
