"""The training loop."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import onepass
from onepass.errors import ConfigError, FolderError, TrainingError
from onepass.methods import METHODS
from onepass.model import Model
from onepass.tasks import read_task_file
from onepass.training import run
from onepass.training.average import RunningMean
from onepass.training.loop import Trainer
from onepass.training.losses import TaskLosses
from onepass.training.objective import Objective
from onepass.training.optimizer import make_optimizer

MakeTrainer = Callable[..., Trainer]
TOPIC, TONE, SAME = 0, 1, 2
FAST = ("head_rate=0.005", "token_rate=0.005", "encoder_rate=0.005", "average=0", "warmup=0", "clip=0")


def train(news: Path, *overrides: str, **options: Any) -> Model:
    return run.train(news, overrides=overrides, progress=False, **options)


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def equal(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def own(model: Model, task: int) -> dict[str, Tensor]:
    """The weights that are one task's alone."""
    return weights(torch.nn.ModuleList([model.method.tasks[task], model.heads[task]]))


class Steps:
    """Single steps of a trainer, with rows chosen by the test."""

    def __init__(self, trainer: Trainer, average: float = 0.0):
        self.trainer, self.model = trainer, trainer.model.train()
        self.optimizer = make_optimizer(self.model.method, self.model.heads, trainer.options)
        self.losses_of, self.losses = Objective(self.model, None, trainer.options), TaskLosses()
        self.mean = RunningMean([p for group in self.optimizer.param_groups for p in group["params"]], average)

    def __call__(self, *rows: tuple[int, int]) -> bool:
        return self.trainer.step(self.losses_of, self.optimizer, list(rows), self.losses, self.mean)


# --- one step -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_task_absent_from_a_batch_gets_no_update_at_all(method: str, make_trainer: MakeTrainer):
    step = Steps(make_trainer(method, weight_decay=0.5), average=0.9)
    for row in range(3):  # momentum for every task
        assert step((TOPIC, row), (TONE, row), (SAME, row))
    before = [own(step.model, task) for task in range(3)]
    means = [mean.clone() for mean in step.mean.means]
    for row in range(3):
        assert step((TOPIC, row), (SAME, row))
    after = [own(step.model, task) for task in range(3)]
    assert equal(before[TONE], after[TONE])
    fixed = {id(parameter) for parameter in step.model.method.stages()[-1].fixed}  # learned in an earlier stage
    topic = torch.nn.ModuleList([step.model.method.tasks[TOPIC], step.model.heads[TOPIC]])
    learning = [name for name, parameter in topic.named_parameters() if id(parameter) not in fixed]
    assert not any(torch.equal(before[TOPIC][name], after[TOPIC][name]) for name in learning)
    places = {id(p): i for i, p in enumerate(step.mean.parameters)}
    for parameter in [*step.model.method.tasks[TONE].parameters(), *step.model.heads[TONE].parameters()]:
        if id(parameter) in places:
            assert torch.equal(step.mean.means[places[id(parameter)]], means[places[id(parameter)]])


def test_a_step_whose_loss_is_not_finite_changes_nothing_and_is_counted(
    make_trainer: MakeTrainer, caplog: pytest.LogCaptureFixture
):
    trainer = make_trainer()
    step = Steps(trainer, average=0.9)
    step((TONE, 0))
    trainer.targets[TONE][1] = np.nan
    before, means = weights(step.model), [mean.clone() for mean in step.mean.means]
    with caplog.at_level(logging.WARNING):
        assert not step((TOPIC, 0), (TONE, 1))
    assert equal(before, weights(step.model))
    assert all(torch.equal(a, b) for a, b in zip(means, step.mean.means, strict=True))
    assert trainer.skipped == 1
    assert "non-finite" in caplog.text
    assert list(step.losses.take()) == [TONE]  # the loss of the first step only
    assert step((TOPIC, 0), (TONE, 0))  # and the next step is as ever
    assert all(p.isfinite().all() for p in step.model.parameters())


def gradient_norm(steps: Steps) -> float:
    """The norm of the gradient that reached the optimiser in a step."""
    norms = []

    def look(optimizer: Any, *_: Any) -> None:
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norms.append(torch.cat([g.flatten() for g in gradients]).norm().item())

    steps.optimizer.register_step_pre_hook(look)
    steps((TOPIC, 0), (TONE, 3), (SAME, 1))
    return norms[0]


def test_gradients_are_clipped_to_the_largest_norm(make_trainer: MakeTrainer):
    free = make_trainer(clip=0)
    norm = gradient_norm(Steps(free))
    assert norm > 0.01
    tight = make_trainer(clip=0.01)
    assert gradient_norm(Steps(tight)) == pytest.approx(0.01, rel=1e-3)
    wide = make_trainer(clip=norm * 2)
    assert gradient_norm(Steps(wide)) == pytest.approx(norm, rel=1e-3)


def test_a_tasks_weight_scales_its_part_of_the_gradient(make_trainer: MakeTrainer):
    light = make_trainer(clip=0)
    once = gradient_norm(Steps(light))
    heavy = make_trainer(clip=0)  # the same seed, so the same dropout
    for item in heavy.sets:
        item.task = item.task.model_copy(update={"weight": 3.0})
    thrice = gradient_norm(Steps(heavy))
    assert thrice == pytest.approx(3 * once, rel=1e-4)


def test_losses_by_task_are_means_since_the_last_look():
    losses = TaskLosses()
    losses.add([0, 2, 0], torch.tensor([1.0, 5.0, 2.0]))
    losses.add([0], torch.tensor([6.0]))
    assert losses.take() == {0: 3.0, 2: 5.0}
    assert losses.take() == {}


# --- a whole training -----------------------------------------------------------------------------------------------


def test_labels_numbers_and_pairs_are_learned_together(news: Path):
    model = train(news, *FAST, "epochs=12")
    first, last = model.training_record["history"][0], model.training_record["history"][-1]
    assert all(last["losses"][name] < 0.7 * first["losses"][name] for name in ("topic", "tone", "same"))
    answers = model.predict(["late goal wins", "senate vote"], tasks=["topic"])
    assert [answer["topic"].label for answer in answers] == ["sport", "politics"]
    good, bad = model.predict(["good match", "bad vote"], tasks=["tone"])
    assert good["tone"].label > bad["tone"].label


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(news: Path):
    first, second, other = train(news), train(news), train(news, "seed=1")
    assert equal(weights(first), weights(second))
    assert not equal(weights(first), weights(other))
    assert first.training_record["history"] == second.training_record["history"]


def test_a_run_says_what_happened(news: Path):
    model = train(news, "epochs=2", "evaluate_every=0.5")
    record = model.training_record
    assert record["options"]["epochs"] == 2 and record["options"]["select"] == "mean"
    assert record["skipped_steps"] == 0
    assert set(record["history"][0]) == {"stage", "epoch", "average", "losses", "scores", "best"}
    assert json.loads(json.dumps(record)) == record
    rows = [known["rows"] for known in model.records]
    assert rows == [{"train": 24, "validation": 2}, {"train": 22, "validation": 2}, {"train": 22, "validation": 2}]
    assert {known["scores"]["validation"]["metric"] for known in model.records} == {"accuracy", "spearman"}
    assert not model.training


@pytest.mark.parametrize(
    ("every", "epochs"),
    [
        (1.0, [1.0, 2.0]),
        (5.0, [2.0]),
        (1.5, [1.5, 2.0]),
        (0.5, [0.5, 1.0, 1.5, 2.0]),
        (0.3, [0.5, 0.75, 1.0, 1.25, 1.5, 2.0]),  # after the first step at or beyond 0.3, 0.6, 0.9, 1.2, 1.5, 1.8
    ],
)
def test_evaluations_come_every_so_many_epochs_and_at_the_end(news: Path, every: float, epochs: list[float]):
    # 68 rows in batches of 17 are four steps an epoch.
    model = train(news, "epochs=2", "batch_size=17", f"evaluate_every={every}")
    assert [record["epoch"] for record in model.training_record["history"]] == epochs


def test_processes_evaluate_when_all_have_taken_their_step(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch):
    """Between two of them one has learned from the round's batches and the other has not: they could decide apart."""
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 2)
    trainer = make_trainer(epochs=2, batch_size=8, evaluate_every=0.1)
    batches = []
    monkeypatch.setattr(trainer, "evaluate", lambda stage, epoch, state, *_: batches.append(state.batch))
    trainer.run_stage(trainer.model.method.stages()[0])
    assert batches == 2 * [2, 4, 6, 8, 10]  # the ninth batch has no partner and is cut in halves


def test_every_process_learns_from_fewer_rows_than_a_batch_each_has(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
):
    """A batch without a partner was left out: of rows that fit into one batch, all of them."""
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 4)
    learned: list[list[tuple[int, int]]] = [[], [], [], []]
    for process, found in enumerate(learned):
        monkeypatch.setattr("accelerate.Accelerator.process_index", process)
        trainer = make_trainer("single", epochs=1, batch_size=64, sampler="proportional")

        def step(_: Any, __: Any, rows: list[tuple[int, int]], *rest: Any, found: Any = found) -> bool:
            found += rows
            return True

        monkeypatch.setattr(trainer, "step", step)
        monkeypatch.setattr(trainer, "evaluate", lambda *_: None)
        for number, stage in enumerate(trainer.model.method.stages()):
            trainer.run_stage(stage, number)
    rows = [row for found in learned for row in found]
    assert len(rows) == len(set(rows)) == 68
    assert [len(found) for found in learned] == [18, 16, 18, 16]  # 24, 22 and 22 rows in four parts


def test_processes_step_at_the_same_rates(make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch):
    """They share gradients: with another rate each would train a model of its own."""
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 2)
    rates: list[list[float]] = [[], []]
    for process, found in enumerate(rates):
        monkeypatch.setattr("accelerate.Accelerator.process_index", process)
        trainer = make_trainer(epochs=2, batch_size=8)

        def step(_: Any, optimizer: Any, *rest: Any, found: list[float] = found) -> bool:
            found.append(optimizer.param_groups[0]["lr"])
            return True

        monkeypatch.setattr(trainer, "step", step)
        trainer.run_stage(trainer.model.method.stages()[0])
    assert len(rates[0]) == 10 and rates[0] == rates[1]


def test_parts_of_an_epoch_do_not_drift(make_trainer: MakeTrainer):
    trainer = make_trainer(batch_size=1, evaluate_every=0.1)
    for item in trainer.sets:
        item.train = item.train.take(np.arange(10))
    trainer.targets = [targets[:10] for targets in trainer.targets]
    trainer.run()  # 30 rows; 3 * 0.1 is more than 0.3 in floating point
    assert [round(record["epoch"] * 30) for record in trainer.history] == list(range(3, 31, 3))


TWO_TASKS = """
encoder: {encoder}
tasks:
  topic: {{train: train.csv, validation: validation.csv, text: text, label: topic, weight: 9}}
  tone: {{train: train.csv, validation: validation.csv, text: text, label: tone}}
train: {{epochs: 4, max_length: 16, head_rate: 0, token_rate: 0, encoder_rate: 0, average: 0, select: {select}}}
"""
# Answers of the two tasks after each epoch. On validation sport, vote and goal are right in 50, 40 and 10 % of rows,
# good, bad and late in 70, 20 and 10 %.
SCRIPT = [("goal", "good"), ("vote", "bad"), ("sport", "late"), ("goal", "late")]


class Scripted(Trainer):
    """Gives the model the same answer for every text, another one after each step."""

    def step(self, *arguments: Any) -> bool:
        ok = super().step(*arguments)
        for task, head, label in zip(self.model.tasks, self.model.heads, SCRIPT[len(self.history)], strict=True):
            head.weight.data.zero_()
            head.bias.data.copy_(torch.tensor([float(other == label) for other in task.labels]))
        return ok


@pytest.mark.parametrize(
    ("select", "scores"),
    [
        ("mean", {"topic": 10.0, "tone": 70.0}),  # 40 on average; then 30, 30, 10
        ("worst", {"topic": 40.0, "tone": 20.0}),  # 20 at least; else 10
        ("weighted", {"topic": 50.0, "tone": 10.0}),  # (9 * 50 + 10) / 10 = 46; then 38, 16, 10
    ],
)
def test_the_best_checkpoint_is_what_is_kept_and_saved(
    tmp_path: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch, select: str, scores: dict[str, float]
):
    topics = ["sport"] * 5 + ["vote"] * 4 + ["goal"]
    tones = ["good"] * 7 + ["bad"] * 2 + ["late"]
    rows = "\n".join(f"the match {n},{topic},{tone}" for n, (topic, tone) in enumerate(zip(topics, tones, strict=True)))
    for name in ("train", "validation"):
        (tmp_path / f"{name}.csv").write_text(f"text,topic,tone\n{rows}\n")
    (tmp_path / "tasks.yaml").write_text(TWO_TASKS.format(encoder=encoder, select=select))
    monkeypatch.setattr(run, "Trainer", Scripted)
    train(tmp_path / "tasks.yaml", output=tmp_path / "model")
    model = onepass.load(tmp_path / "model")
    found = onepass.evaluate(model, split="validation")["tasks"]
    assert {name: result["score"] for name, result in found.items()} == pytest.approx(scores)
    kept = [record["scores"]["validation"]["score"] for record in model.records]
    assert dict(zip(model.names, kept, strict=True)) == pytest.approx(scores)
    best = [record for record in model.training_record["history"] if record["best"]][-1]
    assert best["scores"] == pytest.approx(scores)
    assert len(model.training_record["history"]) == 4


def test_training_stops_early_when_nothing_gets_better(news: Path):
    still = ("head_rate=0", "token_rate=0", "encoder_rate=0")
    model = train(news, "epochs=50", "evaluate_every=0.5", "patience=3", *still)
    history = model.training_record["history"]
    assert [record["best"] for record in history] == [True, False, False, False]
    assert history[-1]["epoch"] < 2.5


def test_without_patience_training_goes_on(news: Path):
    model = train(news, "epochs=6", "batch_size=100", "head_rate=0", "token_rate=0", "encoder_rate=0")
    assert len(model.training_record["history"]) == 6


def test_without_validation_rows_the_last_weights_are_kept(make_trainer: MakeTrainer):
    trainer = make_trainer(epochs=2)
    for item in trainer.sets:
        item.validation = item.validation.take(np.zeros(0, np.int64))
    before = weights(trainer.model)
    trainer.run()
    assert trainer.history == []
    assert "scores" not in trainer.model.records[0]
    assert not equal(before, weights(trainer.model))


def test_without_validation_rows_the_running_mean_is_kept(make_trainer: MakeTrainer):
    def run(average: float) -> dict[str, Tensor]:
        trainer = make_trainer(average=average, epochs=2)
        for item in trainer.sets:
            item.validation = item.validation.take(np.zeros(0, np.int64))
        trainer.run()
        return weights(trainer.model)

    last, mean = run(0.0), run(0.9)
    start = weights(make_trainer().model)
    name = "heads.0.weight"
    assert not torch.equal(last[name], mean[name])
    # A mean of the way lies between the start and its end.
    assert (mean[name] - start[name]).norm() < (last[name] - start[name]).norm()


def test_the_running_mean_is_what_is_evaluated_and_saved(news: Path, tmp_path: Path):
    train(news, "average=0.9", "epochs=3", "tasks.topic.validation=0.4", output=tmp_path / "model")
    model = onepass.load(tmp_path / "model")
    best = [record for record in model.training_record["history"] if record["best"]][-1]
    found = onepass.evaluate(model, split="validation")["tasks"]
    assert {name: result["score"] for name, result in found.items()} == best["scores"]


def test_frozen_embeddings_stay_and_the_rest_of_the_encoder_learns(news: Path, make_trainer: MakeTrainer):
    start = make_trainer().model.method.encoder
    trained = train(news, "freeze=embeddings", "epochs=2").method.encoder
    tables = {id(p) for p in trained.embedding_parameters()}
    for (name, before), after in zip(start.named_parameters(), trained.parameters(), strict=True):
        assert torch.equal(before, after) == (id(after) in tables), name
    assert all(p.requires_grad for p in trained.parameters())


def test_a_frozen_encoder_stays_whole(news: Path, make_trainer: MakeTrainer):
    start = weights(make_trainer().model.method.encoder)
    assert equal(start, weights(train(news, "method=frozen").method.encoder))


def test_what_a_method_finds_out_about_its_tasks_is_recorded(news: Path):
    found = train(news, "method=mttag").training_record["findings"]
    assert {name: len(known["expert_use"]) for name, known in found.items()} == {"topic": 2, "tone": 2, "same": 2}
    assert train(news).training_record["findings"] == {}


def test_single_trains_each_task_alone_and_from_the_same_start(make_trainer: MakeTrainer):
    trainer = make_trainer("single")
    start = weights(trainer.model)
    base = weights(trainer.model.method.encoder)
    for number, stage in enumerate(trainer.model.method.stages()):
        before = [own(trainer.model, task) for task in range(3)]
        trainer.run_stage(stage)
        changed = [not equal(before[task], own(trainer.model, task)) for task in range(3)]
        assert changed == [task == number for task in range(3)]
    assert equal(base, weights(trainer.model.method.encoder))
    assert start.keys() == weights(trainer.model).keys()
    assert [list(record["scores"]) for record in trainer.history] == [["topic"], ["tone"], ["same"]]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"prompts": "single", "poolers": "single", "copy_heads": True}, {"prompts", "pooler", "head"}),
        ({"prompts": "single"}, {"prompts"}),
        ({"poolers": "single"}, {"pooler"}),
    ],
)
def test_mtop_keeps_of_its_single_task_stage_what_the_options_name(
    make_trainer: MakeTrainer, options: dict[str, Any], kept: set[str]
):
    trainer = make_trainer("mtop", method_options=options, head_rate=0.01, token_rate=0.01)
    model = trainer.model
    stage, joint = model.method.stages()
    encoder = weights(model.method.encoder)
    trained: dict[str, Tensor] = {}

    def parts() -> dict[str, Tensor]:
        task = model.method.tasks[TOPIC]
        found = {"prompts": task.prompts, "pooler": task.pooler.weight, "head": model.heads[TOPIC].weight}
        return {name: tensor.detach().clone() for name, tensor in found.items()}

    finish = stage.finish
    assert finish is not None

    def look(heads: Any) -> None:
        trained.update(parts())
        finish(heads)

    stage.finish = look
    before = parts()
    trainer.run_stage(stage)
    assert equal(encoder, weights(model.method.encoder))
    assert not any(torch.equal(before[name], trained[name]) for name in before)
    assert {name for name, tensor in parts().items() if torch.equal(tensor, trained[name])} == kept
    trainer.run_stage(joint)
    assert not equal(encoder, weights(model.method.encoder))
    assert [record["stage"] for record in trainer.history] == ["single-task prompts", "train"]


class Recorder(Trainer):
    """Notes the rows and the rates of each step."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.batches: list[list[tuple[int, int]]] = []
        self.rates: list[float] = []

    def step(self, losses_of: Any, optimizer: Any, rows: Any, losses: Any, mean: Any) -> bool:
        self.batches.append(rows)
        self.rates.append(optimizer.param_groups[0]["lr"] / optimizer.param_groups[0]["rate"])
        return super().step(losses_of, optimizer, rows, losses, mean)


def recorded(trainer: Trainer) -> Recorder:
    recorder = Recorder(trainer.model, trainer.sets, trainer.options, False)
    recorder.run()
    return recorder


def test_rates_rise_over_the_warmup_and_fall_to_nearly_nothing(make_trainer: MakeTrainer):
    # 68 rows in batches of 17, over two epochs: 8 steps, whose middles lie at 1/16, 3/16, ...
    rates = recorded(make_trainer(batch_size=17, epochs=2, warmup=0.25)).rates
    assert rates == pytest.approx([0.25, 0.75, 11 / 12, 9 / 12, 7 / 12, 5 / 12, 3 / 12, 1 / 12])


def test_a_training_of_one_step_learns(make_trainer: MakeTrainer):
    trainer = make_trainer(batch_size=100)
    before = weights(trainer.model)
    recorder = recorded(trainer)
    assert len(recorder.rates) == 1 and recorder.rates[0] > 0.5
    assert not equal(before, weights(trainer.model))


def test_every_row_is_seen_once_an_epoch_and_batches_mix_tasks(make_trainer: MakeTrainer):
    recorder = recorded(make_trainer(epochs=1, batch_size=8, sampler="proportional"))
    seen = [pair for batch in recorder.batches for pair in batch]
    assert sorted(seen) == [(TOPIC, i) for i in range(24)] + [(t, i) for t in (TONE, SAME) for i in range(22)]
    assert max(len({task for task, _ in batch}) for batch in recorder.batches) == 3


def test_the_sampler_divides_an_epoch(make_trainer: MakeTrainer):
    trainer = make_trainer(sampler="uniform", epochs=1)
    trainer.sets[SAME].train = trainer.sets[SAME].train.take(np.arange(2))
    recorder = recorded(trainer)  # 24 + 22 + 2 rows: 16 of each task
    seen = [task for batch in recorder.batches for task, _ in batch]
    assert [seen.count(task) for task in range(3)] == [16, 16, 16]


def test_the_annealed_sampler_ends_nearer_to_uniform(make_trainer: MakeTrainer):
    trainer = make_trainer(sampler={"name": "annealed", "drop": 1.0}, epochs=2, batch_size=48)
    trainer.sets[SAME].train = trainer.sets[SAME].train.take(np.arange(2))
    first, last = recorded(trainer).batches
    assert [sum(task == t for task, _ in first) for t in range(3)] == [24, 22, 2]
    assert [sum(task == t for task, _ in last) for t in range(3)] == [16, 16, 16]


def test_a_batch_holds_no_more_tokens_than_its_budget(make_trainer: MakeTrainer):
    recorder = recorded(make_trainer(batch_tokens=24, batch_size=100, epochs=1))
    tokens = [sum(recorder.sets[t].train.length(row) for t, row in batch) for batch in recorder.batches]
    assert max(tokens) <= 24
    assert min(tokens[:-1]) > 24 - max(item.train.lengths.max() for item in recorder.sets)


def test_a_row_longer_than_the_budget_is_a_batch_of_its_own(make_trainer: MakeTrainer):
    trainer = make_trainer(batch_tokens=1, epochs=1)
    for item in trainer.sets:
        item.train = item.train.take(np.arange(2))
    assert [len(batch) for batch in recorded(trainer).batches] == [1] * 6


def test_the_scores_of_a_training_in_16_bits_are_those_of_the_model_as_it_answers(news: Path):
    model = train(news, "precision=bf16", "device=cpu", "tasks.tone.metric=r2")
    found = onepass.evaluate(model, split="validation")["tasks"]
    for name, record in zip(model.names, model.records, strict=True):
        kept = record["scores"]["validation"]
        assert {key: found[name][key] for key in kept} == pytest.approx(kept, abs=1e-6), name


def test_bf16_trains_on_the_cpu_and_leaves_weights_in_full_precision(news: Path):
    model = train(news, "precision=bf16", "device=cpu")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(p.isfinite().all() for p in model.parameters())
    again = train(news, "precision=fp32")  # in the same process: accelerate must not hold on to bf16
    assert not equal(weights(model), weights(again))
    assert equal(weights(again), weights(train(news)))


# --- what stops a training ------------------------------------------------------------------------------------------


def test_a_row_without_a_finite_loss_costs_its_step_only(make_trainer: MakeTrainer):
    trainer = make_trainer(batch_size=4, epochs=2)
    trainer.targets[TONE][5] = np.inf
    trainer.run()
    assert trainer.skipped == 2
    assert trainer.model.training_record["skipped_steps"] == 2
    assert all(p.isfinite().all() for p in trainer.model.parameters())


def test_three_steps_in_a_row_without_a_finite_gradient_stop_the_training(make_trainer: MakeTrainer):
    trainer = make_trainer(batch_size=30)
    trainer.targets[TONE][:] = np.nan
    with pytest.raises(TrainingError) as error:
        trainer.run()
    assert trainer.skipped == 3
    assert str(error.value).startswith("3 steps in a row had a gradient that is not finite; training stopped")
    assert "The last batch held: " in str(error.value) and " row " in str(error.value)


def test_a_training_that_diverges_writes_nothing(news: Path, tmp_path: Path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(TrainingError, match="nothing was written"):
        train(news, "encoder_rate=1e30", "warmup=0", "epochs=2", output=tmp_path / "runs" / "model")
    assert list((tmp_path / "runs").iterdir()) == []


def test_weights_so_large_that_no_answer_is_finite_write_nothing(news: Path, tmp_path: Path):
    """Too few steps for three in a row without a finite gradient."""
    (tmp_path / "runs").mkdir()
    options = "head_rate=1e38", "warmup=0", "epochs=1", "batch_size=1000", "average=0"
    with pytest.raises(TrainingError, match=r"no finite answer to some rows of task 'to.*smaller rates"):
        train(news, *options, output=tmp_path / "runs" / "model")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_training_that_breaks_in_its_last_step_keeps_the_best_weights_before(make_trainer: MakeTrainer):
    trainer = make_trainer(batch_size=34, epochs=1, evaluate_every=0.5)

    class Breaking(Trainer):
        def step(self, *arguments: Any) -> bool:
            ok = super().step(*arguments)
            if self.history:
                self.model.heads[0].weight.data.fill_(float("nan"))
            return ok

    breaking = Breaking(trainer.model, trainer.sets, trainer.options, False)
    breaking.run()
    assert [record["best"] for record in breaking.history] == [True, False]
    assert all(p.isfinite().all() for p in breaking.model.parameters())


def test_all_faults_of_a_task_file_come_at_once_and_nothing_is_written(news: Path, tmp_path: Path):
    with pytest.raises(ConfigError) as error:
        train(news, "epoch=3", "method=reader", "tasks.topic.metric=acuracy", "warmup=-1", output=tmp_path / "out")
    for part in ("4 faults", "'epochs'", "'readers'", "'accuracy'", "train.warmup is -1"):
        assert part in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_task_file_that_was_read_elsewhere_is_checked_too(news: Path):
    file = read_task_file(news, ["epoch=3", "method=reader"])
    with pytest.raises(ConfigError, match="2 faults"):
        run.train(file, progress=False)


def test_an_output_that_exists_is_refused_before_anything_is_read(news: Path, tmp_path: Path):
    (tmp_path / "topic.csv").write_text("")  # a fault that would be found later
    (tmp_path / "out").mkdir()
    with pytest.raises(FolderError, match="exists already"):
        train(news, output=tmp_path / "out")


def test_no_space_for_the_model_is_said_before_the_training(
    news: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    used = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: used._replace(free=10_000))
    monkeypatch.setattr(Trainer, "run", lambda self: pytest.fail("the training began"))
    with pytest.raises(FolderError, match="There is no space for the model"):
        train(news, output=tmp_path / "out")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said(make_trainer: MakeTrainer):
    with pytest.raises(ConfigError, match="no GPU is visible here"):
        make_trainer(device="cuda")


def test_a_stage_is_as_long_as_its_own_rows_ask_for(make_trainer: MakeTrainer):
    """A model per task gets no fewer passes because other tasks have many rows."""
    trainer = make_trainer("single", epochs=0, evaluate_every=50)
    trainer.sets[SAME].train = trainer.sets[SAME].train.take(np.arange(2).repeat(15_000))
    asked: list[tuple[int, int]] = []
    trainer.take_turn = lambda *_: asked.append((trainer.tasks[0], trainer.options.epochs))  # type: ignore[method-assign]
    trainer.evaluate = lambda *_: None  # type: ignore[method-assign]
    trainer.run()
    assert dict(asked) == {TOPIC: 20, TONE: 20, SAME: 6}
