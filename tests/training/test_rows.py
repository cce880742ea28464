"""Which rows a training uses."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from onepass.data.samplers import make_sampler
from onepass.data.stream import RowStream
from onepass.errors import ConfigError
from onepass.training import run
from onepass.training.evaluation import all_logits
from onepass.training.loop import Trainer
from onepass.training.rows import UsedRows, choose_rows, draw_epoch

MakeTrainer = Callable[..., Trainer]
TOPIC, TONE, SAME = 0, 1, 2


def draws_of(trainer: Trainer, seed: int = 0, **options: Any) -> Any:
    stream = RowStream([24, 22, 22], seed)
    return draw_epoch(make_sampler("uncertainty", **options), stream, trainer.sets, [0, 1, 2], (0, 1), (8, 1000))


def test_a_step_draws_a_batch_of_every_task_and_trains_on_one(make_trainer: MakeTrainer):
    draws = draws_of(make_trainer())
    assert draws.trained == [8] * 8 + [4]  # 68 rows
    assert all(sorted(task for task, _ in draws[step]) == [0] * 8 + [1] * 8 + [2] * 8 for step in range(9))
    # 72 rows of each task are drawn in all: round after round, each row as often as another.
    assert sorted(row for step in range(3) for task, row in draws[step] if task == TOPIC) == list(range(24))
    fewer = draws_of(make_trainer(), candidates=2)
    assert len(fewer[0]) == 15  # 2 * 8 rows, in whole rows of three tasks


def test_a_step_may_have_rows_of_one_task_alone(make_trainer: MakeTrainer):
    stream = RowStream([24, 22, 22], 0)
    sets = make_trainer().sets
    draws = draw_epoch(make_sampler("proportional"), stream, sets, [0, 1, 2], (0, 1), (8, 1000), one_task=True)
    tasks = [{task for task, _ in draws[step]} for step in range(len(draws))]
    assert all(len(found) == 1 for found in tasks)
    assert sorted(draws.trained) == [6, 6] + [8] * 7  # 8 + 8 + 8, 8 + 8 + 6, 8 + 8 + 6
    assert len({tuple(found) for found in tasks[:4]}) > 1  # the tasks take turns
    assert len({pair for step in range(len(draws)) for pair in draws[step]}) == 68


def test_the_rows_that_the_model_is_least_sure_about_are_chosen(make_trainer: MakeTrainer):
    trainer = make_trainer()
    model = trainer.model.eval()
    torch.nn.init.normal_(model.heads[TOPIC].weight, std=1.0)
    drawn = [(TOPIC, row) for row in range(24)]
    sampler = make_sampler("uncertainty", score="paper")
    chosen = choose_rows(sampler, model, trainer.sets, drawn, (6, 1000), nullcontext())
    logits = all_logits(model, {TOPIC: trainer.sets[TOPIC].train})[TOPIC]
    entropies = model.kinds[TOPIC].entropy(torch.from_numpy(logits)).numpy()
    assert min(entropies[row] for _, row in chosen) >= np.sort(entropies)[-6] - 1e-6
    assert len(choose_rows(sampler, model, trainer.sets, drawn, (6, 15), nullcontext())) == 2  # of 6 or 7 tokens
    assert len(choose_rows(sampler, model, trainer.sets, drawn, (6, 1), nullcontext())) == 1


def test_labels_numbers_and_pairs_are_trained_by_uncertainty_and_the_share_is_told(news: Path):
    model = run.train(news, overrides=["sampler=uncertainty", "epochs=2"], progress=False)
    used = model.training_record["rows_used"]
    assert used["updates"] == 2 * 68
    assert 0.2 < used["share"] < 1.0
    assert set(used["tasks"]) == {"topic", "tone", "same"} and used["tasks"]["tone"] > 0
    everything = run.train(news, overrides=["sampler=proportional"], progress=False)
    assert everything.training_record["rows_used"]["share"] == 1.0


def test_uncertainty_goes_with_teachers_warm_ups_and_other_methods(news: Path):
    options = ["sampler={name: uncertainty, candidates: 2}", "method=mtop", "frozen_epochs=1", "rdrop=0.5"]
    model = run.train(news, overrides=options, progress=False)
    assert model.training_record["rows_used"]["updates"] == 2 * 68


@pytest.mark.parametrize("method", ["single", "prefix"])
def test_a_method_that_trains_tasks_apart_is_refused_with_what_is_possible(news: Path, method: str):
    with pytest.raises(ConfigError) as error:
        run.train(news, overrides=["sampler=uncertainty", f"method={method}"], progress=False)
    assert f"which method '{method}' does not allow" in str(error.value)
    assert "Possible: proportional, uniform, square_root, annealed." in str(error.value)


def test_used_rows_are_counted_once_and_survive_a_checkpoint():
    used = UsedRows([3, 10])
    used.add([(0, 1), (1, 9), (1, 9)])
    again = UsedRows([3, 10])
    again.restore(used.state())
    assert used.report(["a", "b"]) == {"share": 2 / 13, "updates": 3, "tasks": {"a": 1 / 3, "b": 0.1}}
    assert again.report(["a", "b"]) == used.report(["a", "b"])
