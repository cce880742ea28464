"""Training an added task: on cached texts as on the texts themselves, with nothing else moved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from onepass.errors import ConfigError, TrainingError
from onepass.methods import METHODS
from onepass.model import Model
from onepass.tasks import Task, make_task
from onepass.training import adding
from onepass.training.adding import Adding, AddOptions, add_options, cached_logits, train_task
from onepass.training.cache import TextCache
from onepass.training.sets import TaskSet, read_set
from onepass.training.start import most_similar

MakeModel = Callable[..., Model]


@pytest.fixture
def item(tone: Task, make_model: MakeModel) -> TaskSet:
    return read_set(tone, make_model(num_tasks=1).tokenizer, least_rows=10)


def weights_of(model: Model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].caches != "nothing"])
def test_a_cached_text_gives_the_loss_and_gradients_of_the_text_itself(
    name: str, make_model: MakeModel, item: TaskSet
) -> None:
    found = []
    for cached in (True, False):
        model = make_model(name)
        model.add(item.task)
        model.eval()
        run = Adding(model, item, AddOptions(precision="fp32"), progress=False)
        assert run.train.store is not None
        if not cached:
            run.train.store = None
        loss = run.loss([5, 0, 17, 3])
        loss.backward()
        found.append(
            (
                float(loss.detach()),
                [p.grad for p in [*model.method.tasks[-1].parameters(), *model.heads[-1].parameters()]],
            )
        )
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_texts_may_be_read_in_half_precision(make_model: MakeModel, item: TaskSet) -> None:
    model = make_model()
    full, half = TextCache(model.method, item.train), TextCache(model.method, item.train, half=True)
    assert full.store is not None and half.store is not None
    assert full.store.dtype == half.store.dtype == torch.float32
    assert not torch.equal(full.store, half.store)
    torch.testing.assert_close(full.store, half.store, atol=0.05, rtol=0.05)


def test_a_large_cache_lies_in_a_file_in_half_precision(make_model: MakeModel, item: TaskSet) -> None:
    model = make_model()
    small, large = (TextCache(model.method, item.train, most_in_memory=most) for most in (2**20, 0))
    assert small.store is not None and large.store is not None
    assert small.store.dtype == torch.float32 and large.store.dtype == torch.float16
    with torch.no_grad():
        one, other = (cache.ask([7, 1, 30], [0])[-1].vectors for cache in (small, large))
    torch.testing.assert_close(one, other, atol=2e-3, rtol=0)


def test_a_full_disk_is_said_before_training(
    make_model: MakeModel, item: TaskSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(TrainingError, match=r"no space left.*TMPDIR"):
        TextCache(make_model().method, item.train, most_in_memory=0)


@pytest.mark.parametrize("start", ["mean", "similar", "fresh"])
def test_nothing_but_the_new_task_moves(start: str, make_model: MakeModel, item: TaskSet) -> None:
    model = make_model()
    before = weights_of(model)
    train_task(model, item, add_options({"start": start, "epochs": 2}), progress=False)
    after = weights_of(model)
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert all(p.requires_grad for p in model.parameters())
    assert model.records[-1]["rows"] == {"train": 36, "validation": 4}
    assert "validation" in model.records[-1]["scores"]


def test_a_task_can_begin_like_another(make_model: MakeModel, item: TaskSet) -> None:
    model = make_model()
    train_task(model, item, AddOptions(like=model.names[1], epochs=1, token_rate=0.0, head_rate=0.0), progress=False)
    other, own = (model.method.tasks[number].state_dict() for number in (1, -1))
    assert all(torch.equal(value, own[name]) for name, value in other.items())
    with pytest.raises(ConfigError, match="Unknown task 'nobody'"):
        train_task(model, item, AddOptions(like="nobody"), progress=False)


@pytest.mark.parametrize("start", ["mean", "similar", "fresh"])
def test_a_task_that_joins_a_group_leaves_its_readers_as_they_are(
    start: str, make_model: MakeModel, item: TaskSet
) -> None:
    model = make_model(num_tasks=1)
    first = make_task("first", {"train": item.task.train, "text": "text", "label": "tone", "group": "a"})
    model.add(first.model_copy(update={"labels": item.task.labels}))
    before = weights_of(model)
    joining = TaskSet(item.task.model_copy(update={"group": "a"}), item.train, item.validation)
    train_task(model, joining, add_options({"start": start, "epochs": 2}), progress=False)
    after = weights_of(model)
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert model.method.readers_of().tolist() == [0, 1, 1]
    assert not torch.equal(model.heads[2].weight, model.heads[1].weight)


def test_a_fitted_head_knows_its_rows_before_the_first_step(make_model: MakeModel, item: TaskSet) -> None:
    scores = {}
    for head in ("fitted", "drawn"):
        model = make_model()
        options = AddOptions(head=head, epochs=1, token_rate=0.0, head_rate=0.0)  # type: ignore[arg-type]
        train_task(model, item, options, progress=False)
        logits = cached_logits(model, len(model.tasks) - 1, TextCache(model.method, item.train))
        scores[head] = float((logits.argmax(-1) == item.train.targets).mean())
    assert scores["fitted"] > max(0.8, scores["drawn"])


def test_to_few_rows_the_head_is_fitted_and_no_step_is_made(tone: Task, make_model: MakeModel) -> None:
    model = make_model()
    few = read_set(tone, model.tokenizer, least_rows=100)
    train_task(model, few, AddOptions(start="fresh"), progress=False)
    logits = cached_logits(model, len(model.tasks) - 1, TextCache(model.method, few.train))
    assert float((logits.argmax(-1) == few.train.targets).mean()) > 0.8
    torch.manual_seed(AddOptions().seed)
    untrained = make_model()
    torch.manual_seed(AddOptions().seed)
    untrained.add(few.task)
    assert torch.equal(model.method.tasks[-1].tokens, untrained.method.tasks[-1].tokens)


def test_two_trainings_with_one_seed_are_the_same(make_model: MakeModel, item: TaskSet) -> None:
    heads = []
    for noise in (1, 2):
        model = make_model()
        torch.manual_seed(noise)
        train_task(model, item, AddOptions(epochs=2), progress=False)
        heads.append(model.heads[-1].weight.detach())
    assert torch.equal(*heads)


def test_few_rows_are_all_trained_on(tone: Task, make_model: MakeModel) -> None:
    model = make_model()
    train_task(model, read_set(tone, model.tokenizer, AddOptions().least_rows), AddOptions(epochs=1), progress=False)
    assert model.records[-1]["rows"] == {"train": 40, "validation": 0}
    assert "scores" not in model.records[-1]


def test_a_training_that_breaks_leaves_the_model_as_it_was(make_model: MakeModel, item: TaskSet) -> None:
    model = make_model()
    before, names = weights_of(model), list(model.names)
    with pytest.raises(TrainingError, match="not finite"):
        train_task(model, item, AddOptions(epochs=3, head_rate=1e38, token_rate=1e38, patience=0), progress=False)
    assert model.names == names and len(model.heads) == len(model.method.tasks) == len(names)
    after = weights_of(model)
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def test_the_mean_start_is_the_mean_of_the_others(make_model: MakeModel) -> None:
    method = make_model().method
    method.start_from_mean(2, [0, 1])
    for name, value in method.tasks[2].state_dict().items():
        wanted = (method.tasks[0].state_dict()[name] + method.tasks[1].state_dict()[name]) / 2
        torch.testing.assert_close(value, wanted)


@pytest.mark.parametrize(("method", "options"), [("readers", {}), ("mtdnn", {"pooler": "task"}), ("frozen", {})])
def test_vectors_are_the_same_whatever_a_cache_was_made_for(
    method: str, options: dict[str, Any], make_model: MakeModel, item: TaskSet
) -> None:
    model = make_model(method, **options)
    model.add(Task(name="tags", kind="tagging", text="text", label="tags", labels=["O", "B-x"]))
    model.eval()
    for tokens in (False, True):
        texts = TextCache(model.method, item.train, tokens=tokens)
        for tasks in ([0, 1], [3], [0, 3]):
            batch, asked, _, states = texts.ask([0, 1, 2], tasks)
            torch.testing.assert_close(states.vectors, model.method(batch, asked).vectors)


def test_the_most_similar_task_is_the_one_that_knows_the_answer(make_model: MakeModel, item: TaskSet) -> None:
    """One task of three has weights with which the labels can be told apart; the others' vectors are constant."""
    model = make_model()
    train_task(model, item, AddOptions(epochs=30, head_rate=1e-2, token_rate=1e-2), progress=False)
    with torch.no_grad():
        for number in (0, 1, 2):
            model.method.tasks[number].pooler.weight.zero_()
    texts = TextCache(model.method, item.train)
    assert most_similar(texts, item.train.targets, [0, 1, 2, 3], seed=0) == 3


def test_numbers_and_several_labels_have_a_most_similar_task_too(make_model: MakeModel, item: TaskSet) -> None:
    texts = TextCache(make_model().method, item.train)
    generator = np.random.default_rng(0)
    for targets in (generator.normal(size=36), generator.integers(0, 2, (36, 3)).astype(np.float32)):
        assert most_similar(texts, targets, [0, 1, 2], seed=0) in (0, 1, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "Did you mean 'epochs'"),
        ({"start": "middle"}, "mean, similar, fresh"),
        ({"head_rate": -1.0}, "a number from 0"),
        ({"head_rate": float("nan")}, "a number from 0"),
        ({"batch_size": 0}, "a number from 1"),
        ({"epochs": 1.5}, "whole number"),
        ({"average": 1}, "a number from 0 to 0.9999"),
        ({"seed": 2**32}, "a whole number from 0 to 4294967295"),
        ({"like": 3}, "the name of a task"),
        ({"device": "gpu"}, "auto, cpu, cuda"),
        ({"epoch": 3, "start": 1}, "2 faults"),
    ],
)
def test_options_are_checked(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        add_options(values)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_and_the_model_is_as_it_was(make_model: MakeModel, item: TaskSet) -> None:
    model = make_model()
    with pytest.raises(ConfigError, match="The device is 'cuda', which cannot be used"):
        train_task(model, item, AddOptions(device="cuda"), progress=False)
    assert len(model.tasks) == 3 and model.device.type == "cpu"


@pytest.mark.gpu
def test_a_task_trained_on_a_gpu_leaves_the_model_where_and_as_it_was(make_model: MakeModel, item: TaskSet) -> None:
    model = make_model()
    before = [parameter.clone() for parameter in model.parameters()]
    train_task(model, item, AddOptions(device="cuda", epochs=1), progress=False)
    assert len(model.tasks) == 4 and {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    model.discard(3)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_a_task_given_in_python_is_checked_like_one_in_a_file(make_model: MakeModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"3 faults"):
        adding.add_named_task(make_model(), "Tone!", {"train": tmp_path / "no.csv", "text": "text", "metric": "f3"}, {})
