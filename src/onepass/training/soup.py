"""Several trainings from one start, each over the rows in an order of its own, whose weights are averaged.

They end in one valley, so the mean of their weights is about as good as the mean of their answers, and is still one
model: a soup of models (arXiv:2203.05482).
"""

from __future__ import annotations

import glob
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate.utils import set_seed
from torch import Tensor

from onepass.model import Model
from onepass.training.best import Best
from onepass.training.checkpoint import Checkpoints
from onepass.training.evaluation import score_tasks
from onepass.training.history import history_record, spoken
from onepass.training.kept import KeptModel, kept_folder
from onepass.training.loop import Trainer

log = logging.getLogger(__name__)
NEXT_SEED = 100  # far from the seeds of trainings that are compared with each other, and not those of teachers
MEAN = "mean of the weights"


def train_soup(whole: Trainer, output: Path | None, key: str, resume: bool) -> None:
    """Run `train.soup` trainings from the weights that the model has, and leave their mean in it.

    `whole` is told what all of them took and found. Those that are finished stand beside the output, for `resume`.
    """
    whole.begun = time.perf_counter()
    model, start, tasks = whole.model, weights_of(whole.model), list(whole.model.tasks)
    soup = Soup(Best(whole.given.select, tasks, whole.baseline))
    for number in range(whole.given.soup):
        log.info("training %d of %d", number + 1, whole.given.soup)
        kept = None if output is None else KeptModel(output, part_of(number + 1), key)
        done = kept.load(model.dropout.p) if kept is not None and resume else None
        if done is None:
            model.load_state_dict(start)
            done = train_one(whole, number, output, key, resume, kept)
        else:
            whole.earlier_s += done.training_record["so_far"]["seconds"]
        found = done.training_record["so_far"]
        whole.take_in(found, f", training {number + 1}")
        soup.add(weights_of(done), scores_in(found["records"], done.names))
    model.load_state_dict(soup.mean)
    model.to(whole.accelerator.device)
    validation = {number: item.validation for number, item in enumerate(whole.sets) if len(item.validation)}
    if validation:
        scores = score_tasks(model, validation, whole.accelerator.autocast())
        if soup.spoiled(scores):
            log.warning("the mean of the trainings' weights is worse than each of them: the best of them is kept")
            model.load_state_dict(soup.best_weights)
            scores = soup.best_scores
        for number in validation:
            model.records[number]["scores"] = {"validation": scores[model.names[number]]}
        whole.history.append(history_record(MEAN, whole.options.epochs, {}, scores, best=True))
        log.info(spoken(whole.history[-1], whole.options.epochs))
    whole.conclude()


def train_one(
    whole: Trainer, number: int, output: Path | None, key: str, resume: bool, kept: KeptModel | None
) -> Model:
    """One of the trainings, from the weights that the model has; the first is what a training by itself would be."""
    model, options = whole.model, whole.given
    checkpoints = None
    if output is not None:
        checkpoints = Checkpoints(
            output.with_name(f"{output.name}.{part_of(number + 1)}"), key, options.checkpoint_every_s
        )
    options = replace(options, seed=(options.seed + NEXT_SEED * number) % 2**32)
    set_seed(options.seed)
    one = Trainer(model, whole.sets, options, whole.progress, checkpoints, whole.teaching, whole.baseline)
    one.learn(resume)
    whole.tokens, whole.seconds = whole.tokens + one.tokens, whole.seconds + one.seconds
    whole.earlier_s += one.earlier_s
    model.to("cpu").training_record = {"so_far": one.so_far()}
    if kept is not None and checkpoints is not None:
        if one.accelerator.is_main_process and kept.save(model):
            checkpoints.remove()
        one.accelerator.wait_for_everyone()
    return model


class Soup:
    """The mean of models' weights, and beside it the best of them by its validation scores."""

    def __init__(self, best: Best):
        self.value = lambda scores: best.criterion(scores, best.weights)
        self.count, self.mean, self.values = 0, dict[str, Tensor](), list[float]()
        self.best_weights, self.best_scores = dict[str, Tensor](), dict[str, Any]()

    def add(self, weights: dict[str, Tensor], scores: dict[str, Any]) -> None:
        self.count += 1
        for name, tensor in weights.items():
            if name not in self.mean:
                self.mean[name] = tensor.clone()
            elif tensor.is_floating_point():
                self.mean[name] += (tensor - self.mean[name]) / self.count
        if scores:
            value = self.value(scores)
            if value > max(self.values, default=float("-inf")):
                self.best_weights, self.best_scores = weights, scores
            self.values.append(value)

    def spoiled(self, scores: Mapping[str, Any]) -> bool:
        """Whether the mean is worse than each of the models, whose scores are those of their best checkpoints."""
        return not self.value(scores) >= min(self.values)


def weights_of(model: Model) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}


def part_of(number: int | str) -> str:
    """What names a training's model, and its checkpoints."""
    return f"training-{number}"


def soup_folders(output: Path) -> list[Path]:
    """Those that trainings of a soup left beside an output."""
    pattern = kept_folder(output, "").name
    return sorted(output.absolute().parent.glob(f"{glob.escape(pattern)}{part_of('[0-9]*')}"))


def scores_in(records: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """The validation scores of tasks that have some, by name."""
    found = {name: record.get("scores", {}).get("validation") for name, record in zip(names, records, strict=True)}
    return {name: scores for name, scores in found.items() if scores is not None}
