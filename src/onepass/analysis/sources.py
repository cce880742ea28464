"""Which sources of a prefix model help a target, and what adding sources one by one gives (arXiv:2305.13499).

Table 3: every subset with a few sources removed, the light head learned anew on each. The paper reports the best of
all subsets, which is an oracle; the subset that is best on validation is what a user could choose. Both are given.
Figure 2: sources come one after the other. A prefix is learned for the new source alone; the rival trains the whole
encoder anew on all sources so far, with as many rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from onepass.analysis.transfer import NewTask, learn_new_task
from onepass.data.examples import Examples
from onepass.errors import ConfigError
from onepass.model import Model
from onepass.training.loop import Trainer
from onepass.training.options import TrainOptions
from onepass.training.sets import TaskSet
from onepass.training.sources import learn_source, prefixes_of


@dataclass(frozen=True)
class Subset:
    """A target's scores on the representation without some sources."""

    removed: tuple[str, ...]
    validation: float
    test: float


@dataclass(frozen=True)
class Removal:
    """What removing sources does for one target."""

    subsets: list[Subset]

    def all_sources(self) -> Subset:
        return next(subset for subset in self.subsets if not subset.removed)

    def chosen(self, most: int) -> Subset:
        """The subset that is best on validation, with at most so many sources removed."""
        return max(self._within(most), key=lambda subset: (subset.validation, -len(subset.removed)))

    def oracle(self, most: int) -> Subset:
        """The subset that is best on test: the paper's figure, which nobody could have chosen."""
        return max(self._within(most), key=lambda subset: (subset.test, -len(subset.removed)))

    def _within(self, most: int) -> list[Subset]:
        return [subset for subset in self.subsets if len(subset.removed) <= most]


def removal_search(
    model: Model, item: TaskSet, test: Examples, options: TrainOptions, *, most_removed: int = 2
) -> Removal:
    """A target's light head learned on every subset with up to so many sources removed; the model stays as it is."""
    sources = prefixes_of(model).sources
    if not len(item.validation):
        raise ConfigError(f"Task {item.task.name!r} has no validation rows to choose sources on.")
    subsets = []
    for count in range(min(most_removed, len(sources)) + 1):
        for removed in combinations(sources, count):
            other = copy.deepcopy(model)
            prefixes_of(other).use([source for source in sources if source not in removed])
            scores = learn_new_task(other, (), item, test, NewTask(learn="own"), options)
            names = tuple(model.names[source] for source in removed)
            subsets.append(Subset(names, scores["validation"], scores["test"]))
    return Removal(subsets)


Target = tuple[TaskSet, Examples]


def adding_one_by_one(
    new_model: Callable[[str], Model],
    sources: Sequence[TaskSet],
    targets: Sequence[Target],
    options: TrainOptions,
    *,
    rows: int,
) -> list[dict[str, float]]:
    """The targets' mean test score after each further source: `prefix`, and `multitask` trained anew each time.

    `new_model` makes a model of method `prefix` without tasks for a value of its option `sources`. Each round may read
    `rows` rows: those of the new source for a prefix, the same number from all sources so far for the rival.
    """
    rounds = []
    growing = new_model("prefix")
    once = replace(options, epochs=1)
    for count in range(1, len(sources) + 1):
        so_far = sources[:count]
        growing.add(so_far[-1].task, so_far[-1].train)
        budgeted = [with_rows(item, rows, options.seed) for item in so_far]
        learn_source(growing, budgeted, so_far[-1].task.name, once)
        rival = new_model("multitask")
        for item in so_far:
            rival.add(item.task, item.train)
        shared = [with_rows(item, max(1, rows // count), options.seed) for item in so_far]
        trainer = Trainer(rival, shared, once, progress=False)
        rival.to(trainer.accelerator.device)
        trainer.run_stage(rival.method.stages()[0])
        rounds.append(
            {
                "sources": count,
                "prefix": mean_score(growing, targets, options),
                "multitask": mean_score(rival, targets, options),
            }
        )
    return rounds


def mean_score(model: Model, targets: Sequence[Target], options: TrainOptions) -> float:
    """The mean test score of targets whose light heads are learned on a model's representation."""
    found = [learn_new_task(model, (), item, test, NewTask(learn="own"), options)["test"] for item, test in targets]
    return float(np.mean(found))


def with_rows(item: TaskSet, count: int, seed: int) -> TaskSet:
    """A task with so many training rows, drawn at random, each as often as it must be."""
    order = np.random.default_rng(seed).permutation(len(item.train))
    return replace(item, train=item.train.take(np.resize(order, count)))
