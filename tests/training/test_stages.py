"""Warm-ups with a fixed encoder, and tasks that stop learning."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from onepass.training import run
from onepass.training.loop import Trainer
from onepass.training.stages import Finished, fixed_parameters, stages_of

MakeTrainer = Callable[..., Trainer]


def weights(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def same(one: list[Tensor], two: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_a_warm_up_trains_all_but_the_encoder_first(make_trainer: MakeTrainer):
    trainer = make_trainer(frozen_epochs=2, epochs=1)
    warm, joint = stages_of(trainer.model.method, trainer.options)
    encoder, heads = weights(trainer.model.method.encoder), weights(trainer.model.heads)
    trainer.run_stage(warm)
    assert same(encoder, weights(trainer.model.method.encoder)) and not same(heads, weights(trainer.model.heads))
    trainer.run_stage(joint)
    assert not same(encoder, weights(trainer.model.method.encoder))
    assert [(entry["stage"], entry["epoch"]) for entry in trainer.history] == [
        ("train, encoder fixed", 1.0),
        ("train, encoder fixed", 2.0),
        ("train", 1.0),
    ]


def test_every_tasks_own_model_is_warmed_up_and_a_frozen_encoder_needs_none(make_trainer: MakeTrainer):
    trainer = make_trainer("single", frozen_epochs=1)
    assert [stage.tasks for stage in stages_of(trainer.model.method, trainer.options)] == [[0], [0], [1], [1], [2], [2]]
    trainer = make_trainer("frozen", frozen_epochs=1)
    assert len(stages_of(trainer.model.method, trainer.options)) == 1


def test_experts_are_fixed_with_the_encoder_they_are_copies_of(make_trainer: MakeTrainer):
    trainer = make_trainer("mttag", frozen_epochs=1)
    warm, _ = stages_of(trainer.model.method, trainer.options)
    fixed = {id(parameter) for parameter in fixed_parameters(trainer.model.method, warm, trainer.options)}
    names = {name for name, parameter in trainer.model.method.named_parameters() if id(parameter) not in fixed}
    assert names == {f"tasks.{task}.gates" for task in range(3)}


def test_a_task_that_gets_no_better_is_finished_once():
    own = {task: [nn.Parameter(torch.zeros(1))] for task in (0, 1)}
    finished = Finished(2, [0, 1], own.__getitem__)
    assert finished.update({0: 50.0, 1: 50.0}) == []
    assert finished.update({0: 50.0, 1: 60.0}) == []
    assert finished.update({0: 49.0, 1: 60.0}) == [0]
    assert [own[task][0].requires_grad for task in (0, 1)] == [False, True]
    again = Finished(2, [0, 1], {task: [nn.Parameter(torch.zeros(1))] for task in (0, 1)}.__getitem__)
    again.restore(finished.numbers())
    assert [again.own(task)[0].requires_grad for task in (0, 1)] == [False, True]
    assert finished.update({0: 90.0, 1: 60.0}) == [1]  # a late rise of a finished task changes nothing for the other
    assert not finished.everything  # task 0 was better again
    finished.release()
    assert all(own[task][0].requires_grad for task in (0, 1))


def test_a_finished_task_that_rises_late_stays_finished_when_the_training_is_resumed():
    shared = nn.Parameter(torch.zeros(1))
    own = {task: [shared, nn.Parameter(torch.zeros(1))] for task in (0, 1)}
    finished = Finished(1, [0, 1], own.__getitem__)
    for scores in ({0: 50.0, 1: 50.0}, {0: 50.0, 1: 60.0}, {0: 90.0, 1: 70.0}):
        finished.update(scores)
    again = Finished(1, [0, 1], {task: [nn.Parameter(torch.zeros(1))] for task in (0, 1)}.__getitem__)
    again.restore(finished.numbers())
    assert [again.own(task)[0].requires_grad for task in (0, 1)] == [False, True]
    assert finished.update({0: 80.0, 1: 80.0}) == []  # it is told of once
    assert finished.update({0: 95.0, 1: 90.0}) == []
    assert finished.update({0: 99.0, 1: 80.0}) == [1] and not shared.requires_grad


def test_what_a_group_shares_learns_until_its_last_task_is_finished():
    shared = nn.Parameter(torch.zeros(1))
    own = {task: [shared, nn.Parameter(torch.zeros(1))] for task in (0, 1)}
    finished = Finished(1, [0, 1], own.__getitem__)
    finished.update({0: 50.0, 1: 50.0})
    assert finished.update({0: 50.0, 1: 60.0}) == [0]
    assert shared.requires_grad and not own[0][1].requires_grad and own[1][1].requires_grad
    assert finished.update({0: 50.0, 1: 60.0}) == [1]
    assert not shared.requires_grad and not own[1][1].requires_grad


def test_without_patience_no_task_is_ever_finished():
    finished = Finished(0, [0], lambda _: [nn.Parameter(torch.zeros(1))])
    for _ in range(5):
        assert finished.update({0: 1.0}) == []
    assert not finished.everything


class Watcher(Trainer):
    """Notes every task's own weights before each step, and whether they still learn."""

    def step(self, *arguments: Any) -> bool:
        own = [nn.ModuleList([self.model.method.tasks[task], self.model.heads[task]]) for task in range(3)]
        learns = [all(parameter.requires_grad for parameter in part.parameters()) for part in own]
        self.__dict__.setdefault("seen", []).append((learns, [weights(part) for part in own]))
        return super().step(*arguments)


def test_the_own_weights_of_a_finished_task_stay_and_the_shared_ones_learn(make_trainer: MakeTrainer):
    trainer = make_trainer(freeze_done=1, epochs=4, evaluate_every=0.5)
    trainer.sets[0].validation = trainer.sets[0].validation.take(np.zeros(0, np.int64))  # never finished
    watcher = Watcher(trainer.model, trainer.sets, trainer.options, False)
    encoder = weights(trainer.model.method.encoder)
    watcher.run()
    seen = watcher.__dict__["seen"]
    changed = {True: 0, False: 0}
    for (learns, before), (_, after) in pairwise(seen):
        for task in range(3):
            changed[learns[task]] += not same(before[task], after[task])
    assert changed[True] and not changed[False]
    assert seen[-1][0] == [True, False, False]
    assert not same(encoder, weights(trainer.model.method.encoder))


def test_a_finished_task_has_the_mean_weights_that_are_kept_of_it(make_trainer: MakeTrainer):
    trainer = make_trainer(freeze_done=1, epochs=4, evaluate_every=0.5, head_rate=0.01)
    trainer.sets[0].validation = trainer.sets[0].validation.take(np.zeros(0, np.int64))  # never finished
    apart: list[float] = []

    class Comparing(Trainer):
        def step(self, *arguments: Any) -> bool:
            means = {id(p): mean for p, mean in zip(arguments[4].parameters, arguments[4].means, strict=True)}
            fixed = [head.weight for head in self.model.heads if not head.weight.requires_grad]
            apart.extend(float((weight - means[id(weight)]).abs().max()) for weight in fixed)
            return super().step(*arguments)

    Comparing(trainer.model, trainer.sets, trainer.options, False).run()
    assert apart and max(apart) == 0.0


def test_a_training_ends_when_every_task_is_finished(news: Path):
    still = ("head_rate=0", "token_rate=0", "encoder_rate=0")
    model = run.train(news, overrides=[*still, "epochs=50", "freeze_done=2"], progress=False)
    assert len(model.training_record["history"]) == 3
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_fixed_encoder_and_finished_tasks_leave_nothing_to_learn_and_nothing_breaks(news: Path):
    model = run.train(news, overrides=["method=frozen", "freeze_done=1", "epochs=4", "batch_size=4"], progress=False)
    assert model.training_record["skipped_steps"] == 0
