"""New tasks on a trained model: how well they are learned from few rows, and from which task's weights.

CA-MTL's tables 3 and 8 (a new task from an existing task's embedding), MT-TaG's tables 2 and 6 (unseen tasks with
another task's gate), the transfer of task prefixes (table 2).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from accelerate.utils import set_seed

from onepass.data.examples import Examples
from onepass.data.reading import read_examples
from onepass.errors import ConfigError
from onepass.heads import make_kind
from onepass.methods import Stage
from onepass.model import Model
from onepass.tasks import Task
from onepass.training.adding import AddOptions, train_task
from onepass.training.device import device_of
from onepass.training.evaluation import score_tasks
from onepass.training.loop import Trainer
from onepass.training.options import TrainOptions
from onepass.training.sets import TaskSet, path_of, read_set


@dataclass(frozen=True)
class NewTask:
    """One way of learning a task that a model does not have."""

    share: float = 1.0
    """Of its training rows, 0 to 1; 0: nothing is learned"""
    like: str = ""
    """The task whose own weights it begins with; empty: its own new ones"""
    learn: Literal["all", "own"] = "all"
    """Whether the whole model learns with it, or its own weights alone"""
    unfreeze: bool = False
    """Whether layers that the method froze learn too"""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ConfigError(f"share is {self.share}; possible: from 0 to 1.")


def read_new_task(task: Task, model: Model) -> tuple[TaskSet, Examples]:
    """A task's training and validation rows, and its test rows."""
    item = read_set(task, model.tokenizer)
    test = read_examples(item.task, path_of(task, "test"), make_kind(task), model.tokenizer, item.task.labels)
    return item, test


def learn_new_task(
    model: Model, sets: Sequence[TaskSet], item: TaskSet, test: Examples, way: NewTask, options: TrainOptions
) -> dict[str, float]:
    """The new task's scores on validation and test, learned on a copy of the model; the model stays as it is.

    `sets` are the rows of the model's own tasks.
    """
    set_seed(options.seed)
    model = copy.deepcopy(model)
    model.dropout.p = options.dropout
    part = replace(item, train=share_of(item.train, way.share, options.seed))
    options = options.sized(len(part.train))
    if way.share and way.learn == "own":
        add = AddOptions(
            start="fresh", like=way.like, head="drawn", epochs=options.epochs, batch_size=options.batch_size,
            token_rate=options.token_rate, head_rate=options.head_rate, encoder_rate=options.encoder_rate,
            weight_decay=options.weight_decay, average=options.average, seed=options.seed,
        )  # fmt: skip
        train_task(model.to(device_of(options)), part, add, progress=False)
    else:
        model.add(item.task, item.train)
        number = len(model.tasks) - 1
        if way.like:
            (old,) = model.numbers([way.like])
            model.method.start_from(number, old)
            if not way.share and model.heads[old].weight.shape == model.heads[number].weight.shape:
                model.heads[number].load_state_dict(model.heads[old].state_dict())  # or it would only guess
        if way.share:
            if way.unfreeze:
                model.requires_grad_(True)
            trainer = Trainer(model, [*sets, part], options, progress=False)
            model.to(trainer.accelerator.device)
            trainer.run_stage(Stage("new task", tasks=[number]))
    number = len(model.tasks) - 1
    return {
        split: score_tasks(model, {number: rows})[item.task.name]["score"]
        for split, rows in (("validation", item.validation), ("test", test))
        if len(rows)
    }


def share_of(examples: Examples, share: float, seed: int) -> Examples:
    """So many of the rows, drawn at random, but at least one."""
    count = max(1, round(share * len(examples)))
    return examples.take(np.sort(np.random.default_rng(seed).permutation(len(examples))[:count]))
