"""The second stage of MT-DNN and MT-TaG: each task is fine-tuned from the model that was trained on all of them.

What comes out is a model per task, stored and served as method `single` with a whole copy of the joint method for each
task, so it needs a pass per task. A task keeps the joint model's weights where fine-tuning finds none that are better
on its validation rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from onepass.methods import make_method
from onepass.methods.single import OwnCopy
from onepass.model import Model
from onepass.tasks import MethodChoice
from onepass.training.options import FinetuneOptions, TrainOptions
from onepass.training.sets import TaskSet


def copies_of(joint: Model, sets: Sequence[TaskSet]) -> Model:
    """A model in which every task has its own copy of the joint one."""
    inner = len(joint.tasks) if joint.method.depends_on_tasks else 1
    of = {"name": joint.choice.name, "options": dict(joint.choice.options), "tasks": inner}
    choice = MethodChoice(name="single", options={"of": of})
    method = make_method(choice.name, copy.deepcopy(joint.method.encoder), choice.options)
    model = Model(method, joint.tokenizer, choice, joint.source, dropout=joint.dropout.p)
    for number, item in enumerate(sets):
        model.add(item.task.model_copy(update={"group": None}))  # what a group shares each has a copy of
        cast(OwnCopy, method.tasks[number]).take(joint.method, number)
        model.heads[number].load_state_dict(joint.heads[number].state_dict())
    return model


def second_stage(options: TrainOptions) -> TrainOptions:
    """The options of the fine-tuning: those of the joint training but for what `finetune` gives."""
    chosen = options.finetune or FinetuneOptions()
    return replace(options, **vars(chosen), finetune=None, frozen_epochs=0, sampler="proportional", patience=0)


def joint_record(joint: Model, model: Model) -> dict[str, Any]:
    """The record of both stages: the second's, with what the first took and how it went."""
    first, second = joint.training_record, model.training_record
    return second | {
        "options": first["options"],
        "seconds": round(first["seconds"] + second["seconds"], 1),
        "skipped_steps": first["skipped_steps"] + second["skipped_steps"],
        "history": [*first["history"], *second["history"]],
        "joint": {name: record.get("scores", {}) for name, record in zip(joint.names, joint.records, strict=True)},
    }
