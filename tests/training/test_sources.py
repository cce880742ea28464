"""Sources of a prefix model, one by one: only what belongs to the change moves."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from onepass.encoder.batch import Batch
from onepass.errors import ConfigError
from onepass.methods.prefix import TaskPrefixes
from onepass.training.loop import Trainer
from onepass.training.objective import Objective
from onepass.training.sets import TaskSet, fingerprint
from onepass.training.sources import add_source, learn_heads, learn_source, remove_source, update_source

MakeTrainer = Callable[..., Trainer]
TOPIC, TONE, SAME = range(3)


def trained(make_trainer: MakeTrainer, **options: str) -> Trainer:
    trainer = make_trainer("prefix", method_options=options, token_rate=0.05)
    trainer.run()
    return trainer


def prefixes(trainer: Trainer) -> list[Tensor]:
    method = cast(TaskPrefixes, trainer.model.method)
    return [parameter.detach().clone() for parameter in method.token_parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> list[bool]:
    return [torch.equal(a, b) for a, b in zip(one, other, strict=True)]


def test_training_learns_each_prefix_and_leaves_the_encoder(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("prefix", token_rate=0.05)
    before, encoder = prefixes(trainer), [p.clone() for p in trainer.model.method.encoder.parameters()]
    trainer.run()
    assert not any(same(before, prefixes(trainer)))
    assert all(same(encoder, list(trainer.model.method.encoder.parameters())))
    assert cast(TaskPrefixes, trainer.model.method).sources == [TOPIC, TONE, SAME]
    assert all(parameter.requires_grad for parameter in trainer.model.parameters())


def test_heads_learn_on_texts_that_are_read_once(make_trainer: MakeTrainer) -> None:
    """In the last stage the encoder reads each training text once, however many epochs there are."""
    trainer = make_trainer("prefix", epochs=4, evaluate_every=4)
    model, read = trainer.model, 0
    method = cast(TaskPrefixes, model.method)

    def count(_module: object, inputs: tuple[object, ...]) -> None:
        nonlocal read
        read += len(cast(Batch, inputs[1]))

    method.encoder.layers[0].register_forward_pre_hook(count)
    trainer.run_stage(method.target_stage())
    rows = sum(len(item.train) + len(item.validation) for item in trainer.sets)
    assert read == rows


def test_training_on_kept_texts_gives_the_losses_of_reading_them(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("prefix")
    model = trainer.model.eval()
    method = cast(TaskPrefixes, model.method)
    method.use([TOPIC, SAME])
    pairs = [(TOPIC, 0), (TONE, 3), (SAME, 1)]
    batch = Batch.of([trainer.sets[task].train.sequence(row) for task, row in pairs])
    asked = torch.tensor([[task] for task, _ in pairs])
    targets = [trainer.targets[task][row] for task, row in pairs]
    losses = Objective(model, None, trainer.options)
    torch.testing.assert_close(losses(batch, asked, targets, None, method.cache(batch)), losses(batch, asked, targets))


def test_texts_kept_in_a_file_train_the_same_head_but_for_rounding(
    make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = []
    for most in (2**29, 0):
        monkeypatch.setattr("onepass.training.loop.MOST_IN_MEMORY", most)
        trainer = make_trainer("prefix", dropout=0.0)
        trainer.run_stage(cast(TaskPrefixes, trainer.model.method).target_stage())
        heads.append(trainer.model.heads[TOPIC].weight.detach().clone())
    assert heads[0].dtype == torch.float32
    torch.testing.assert_close(*heads, atol=2e-3, rtol=0)


def test_sources_are_updated_added_and_removed_one_by_one(make_trainer: MakeTrainer) -> None:
    trainer = trained(make_trainer)
    model, sets, options = trainer.model, list(trainer.sets), trainer.options
    method = cast(TaskPrefixes, model.method)
    before = prefixes(trainer)
    update_source(model, sets, "same", options)
    assert same(before, prefixes(trainer)) == [True, True, False]

    before = prefixes(trainer)
    item = replace(sets[TOPIC], task=sets[TOPIC].task.model_copy(update={"name": "again"}))
    add_source(model, sets, item, options)
    assert method.sources == [0, 1, 2, 3]
    assert same(before, prefixes(trainer)[:3]) == [True, True, True]

    before = prefixes(trainer)
    remove_source(model, [*sets, item], "tone", options)
    assert method.sources == [TOPIC, SAME, 3]
    assert all(same(before, prefixes(trainer)))
    assert set(model.predict("late goal", ["tone"])) == {"tone"}  # the task stays
    with pytest.raises(ConfigError, match=r"Unknown source 'tone'.* Known: again, same, topic"):
        remove_source(model, sets, "tone", options)


def test_an_updated_source_has_nothing_of_what_it_was(make_trainer: MakeTrainer) -> None:
    found = []
    for harm in (0.0, 1.0):
        trainer = trained(make_trainer)
        with torch.no_grad():
            for parameter in (
                *cast(TaskPrefixes, trainer.model.method).own(SAME).parameters(),
                trainer.model.heads[SAME].bias,
            ):
                parameter.add_(harm)
        update_source(trainer.model, list(trainer.sets), "same", trainer.options)
        found.append(prefixes(trainer)[SAME])
    assert torch.equal(*found)


def test_numbers_of_an_updated_source_are_those_of_its_rows_now(make_trainer: MakeTrainer) -> None:
    trainer = trained(make_trainer)
    model, sets = trainer.model, list(trainer.sets)
    item = sets[TONE]
    train, validation = (replace(rows, targets=rows.targets + 1000) for rows in (item.train, item.validation))
    task = item.task.model_copy(update={"fitted": model.kinds[TONE].fit(item.task, train.targets)})
    sets[TONE] = TaskSet(task, train, validation)
    update_source(model, sets, "tone", trainer.options)
    assert model.predict("late goal", ["tone"])["tone"].label == pytest.approx(1000, abs=5)


def test_rows_with_other_labels_or_of_other_tasks_are_refused_before_anything_moves(make_trainer: MakeTrainer) -> None:
    trainer = trained(make_trainer)
    sets, before = list(trainer.sets), prefixes(trainer)
    fewer = replace(sets[TOPIC], task=sets[TOPIC].task.model_copy(update={"labels": ("sport",)}))
    for change in (
        lambda rows: update_source(trainer.model, rows, "tone", trainer.options),
        lambda rows: remove_source(trainer.model, rows, "tone", trainer.options),
        lambda rows: add_source(trainer.model, rows, fewer, trainer.options),
    ):
        with pytest.raises(ConfigError, match=r"Task 'topic' has the labels sport in its rows, but politics, sport in"):
            change([fewer, *sets[1:]])
        with pytest.raises(ConfigError, match=r"rows are of the tasks same, tone, topic\. .* order: topic, tone, same"):
            change(sets[::-1])
    assert all(same(before, prefixes(trainer))) and len(trainer.model.tasks) == 3


def test_heads_that_learned_anew_are_settled_anew(make_trainer: MakeTrainer) -> None:
    trainer = trained(make_trainer)
    model, task = trainer.model, trainer.model.tasks[TOPIC]
    stale = {"calibration": {"form": "temperature", "temperature": 9.0}, "thresholds": {"sport": 0.99}}
    model.tasks[TOPIC] = task.model_copy(update={"fitted": stale})
    model.records[TOPIC] = {"rows": {"train": 1, "validation": 1}, "data": "old"}
    remove_source(model, list(trainer.sets), "tone", trainer.options)
    assert model.tasks[TOPIC].fitted["calibration"]["form"] == "none"
    assert "thresholds" not in model.tasks[TOPIC].fitted
    record = model.records[TOPIC]
    assert record["rows"] == {"train": 24, "validation": 2}
    assert record["data"] == fingerprint(trainer.sets[TOPIC].train) and "validation" in record["scores"]
    assert record["calibration"]["before"] == record["calibration"]["after"]


@pytest.mark.parametrize(("source", "evaluations"), [("topic", 2), ("same", 1)])
def test_old_thresholds_choose_no_checkpoint_of_new_heads(
    source: str, evaluations: int, make_trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = trained(make_trainer)
    seen: list[bool] = []

    def evaluate(self: Trainer, *arguments: Any) -> None:
        if TOPIC in self.tasks:
            seen.append("thresholds" in self.model.tasks[TOPIC].fitted)
        evaluated(self, *arguments)

    evaluated = Trainer.evaluate
    monkeypatch.setattr(Trainer, "evaluate", evaluate)
    task = trainer.model.tasks[TOPIC]
    trainer.model.tasks[TOPIC] = task.model_copy(update={"fitted": {"thresholds": {"sport": 0.99}}})
    update_source(trainer.model, list(trainer.sets), source, trainer.options)
    assert seen == [False] * evaluations


def test_the_seed_rules_what_is_learned_of_sources(make_trainer: MakeTrainer) -> None:
    trainer = trained(make_trainer)
    sets = list(trainer.sets)
    item = replace(sets[TOPIC], task=sets[TOPIC].task.model_copy(update={"name": "again"}))
    for change in (
        lambda model: learn_source(model, sets, "same", trainer.options),
        lambda model: learn_heads(model, sets, trainer.options),
        lambda model: add_source(model, sets, item, trainer.options),
    ):
        learned = []
        for _ in range(2):
            model = copy.deepcopy(trainer.model)
            change(model)
            learned.append([parameter.detach() for parameter in model.parameters()])
        assert all(same(*learned))


def test_the_multi_task_rival_trains_the_encoder_and_then_freezes_it(make_trainer: MakeTrainer) -> None:
    trainer = make_trainer("prefix", method_options={"sources": "multitask"})
    stages = [stage.name for stage in trainer.model.method.stages()]
    encoder = [p.clone() for p in trainer.model.method.encoder.parameters()]
    trainer.run_stage(trainer.model.method.stages()[0])
    moved = [p.clone() for p in trainer.model.method.encoder.parameters()]
    assert not all(same(encoder, moved))
    trainer.run_stage(trainer.model.method.stages()[1])
    assert all(same(moved, list(trainer.model.method.encoder.parameters())))
    assert stages == ["sources together", "heads"]
    with pytest.raises(ConfigError, match="has no sources"):
        remove_source(trainer.model, trainer.sets, "topic", trainer.options)
