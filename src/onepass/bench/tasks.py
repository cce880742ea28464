"""How the tasks of a trained model stand to each other: CovSim of their inputs, and what a step on one does to all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onepass.errors import ConfigError, listed

if TYPE_CHECKING:
    from onepass.model import Model
    from onepass.training.sets import TaskSet


def relations(model: Model, singles: Model | None = None) -> dict[str, Any]:
    """The tables, from the training rows of the model's own data files.

    `similarity`: CovSim of each pair of tasks; `mean_similarity`: each task's with all others, as `singles` (a model of
    single-task models) reads those if given. `affinity`: by which share a step on one task lowers another's loss; None
    where nothing that tasks share learns.
    """
    from onepass.analysis.affinity import affinity, shared_parameters
    from onepass.analysis.similarity import first_inputs, mean_similarities, similarities

    if len(model.tasks) < 2:
        raise ConfigError("The model has one task. What tasks do to each other needs two.")
    if singles is not None and singles.names != model.names:
        raise ConfigError(f"The models have other tasks: {listed([', '.join(model.names), ', '.join(singles.names)])}")
    sets = training_sets(model)
    rows = [item.train for item in sets]
    return {
        "similarity": similarities({name: first_inputs(model, i, rows[i]) for i, name in enumerate(model.names)}),
        "mean_similarity": mean_similarities(model, rows, singles),
        "affinity": affinity(model, sets) if shared_parameters(model) else None,
    }


def training_sets(model: Model) -> Sequence[TaskSet]:
    """The rows that the model's tasks were trained on, read with the labels it knows."""
    from onepass.training.sets import read_set

    return [replace(read_set(task, model.tokenizer), task=task) for task in model.tasks]
