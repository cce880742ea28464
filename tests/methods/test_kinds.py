"""Every method with every kind of task that it serves; a new method or kind is picked up by itself."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from onepass.data.encoding import tokenise
from onepass.data.items import Item
from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Encoder
from onepass.errors import ConfigError
from onepass.heads import KINDS
from onepass.methods import METHODS, Method, States
from onepass.model import Model
from onepass.served import check_served
from onepass.tasks import MethodChoice, Task, TaskFile
from onepass.training.adding import AddOptions, train_task
from onepass.training.evaluation import score_tasks
from onepass.training.optimizer import make_optimizer
from onepass.training.options import TrainOptions
from onepass.training.sets import TaskSet, read_set
from onepass.where import pack

MakeModel = Callable[..., Model]
# For each kind the keys of a task, and rows of it.
ROWS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "classification": (
        {"text": "text", "label": "label"},
        [{"text": f"w{i} w{i + 1} w5", "label": "ab"[i % 4 == 0]} for i in range(8)],
    ),
    "multilabel": (
        {"text": "text", "label": "label"},
        [{"text": f"w{i} w{i + 1}", "label": ["a", "b"][: i % 3]} for i in range(8)],
    ),
    "regression": (
        {"text": "text", "label": "label"},
        [{"text": f"w{i} w{i + 1} w9", "label": i / 4} for i in range(8)],
    ),
    "choice": (
        {"text": "text", "label": "label", "choices": "choices"},
        [
            {"text": f"w{i}", "choices": [f"w{i + j}" for j in range(1 + i % 4)], "label": i % (1 + i % 4)}
            for i in range(8)
        ],
    ),
    "words": (
        {"text": ["one", "two"], "label": "label", "words": "word"},
        [{"one": f"w1 w{i} w3", "two": f"w{i}", "word": f"w{i}", "label": "ab"[i % 4 == 0]} for i in range(8)],
    ),
    "extraction": (
        {"text": ["question", "text"], "label": "label", "windows": 3},
        [
            {
                "question": f"w{i}",
                "text": " ".join(f"w{i + j}" for j in range(2 + 6 * i)),
                "label": [f"w{i + 1}"] if i % 3 else [],
            }
            for i in range(8)
        ],
    ),
    "tagging": (
        {"text": "text", "label": "label", "windows": 3},
        [
            {
                "text": [f"w{i + j}" for j in range(2 + 6 * i)],
                "label": ["B-x" if j % 3 else "O" for j in range(2 + 6 * i)],
            }
            for i in range(8)
        ],
    ),
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[[Model, str], TaskSet]:
    """Reads the rows of a kind."""

    def read_rows(model: Model, kind: str) -> TaskSet:
        keys, rows = ROWS[kind]
        path = tmp_path / f"{kind}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        options = {key: value for key, value in keys.items() if key not in Task.model_fields}
        common = {key: value for key, value in keys.items() if key in Task.model_fields}
        task = Task(name=kind, kind=kind, train=path, validation=path, options=options, **common)
        return read_set(task, model.tokenizer)

    return read_rows


def losses(model: Model, number: int, item: TaskSet, rows: list[int]) -> Tensor:
    batch, asked, where = pack([(number, item.train, row) for row in rows])
    targets = model.kinds[number].scale_targets(item.task, item.train.targets, item.train.readings)
    return model.losses(batch, asked, [targets[row] for row in rows], None, where)


def test_every_kind_has_rows_here() -> None:
    assert set(ROWS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_serves_the_kind_or_refuses_it(
    name: str, kind: str, make_model: MakeModel, read: Callable[[Model, str], TaskSet], tmp_path: Path
) -> None:
    model = make_model(name, num_tasks=1)
    item = read(model, kind)
    if KINDS[kind].reads_tokens and not METHODS[name].gives_tokens:
        with pytest.raises(ConfigError, match="cannot serve"):
            model.add(item.task)
        return
    model.add(item.task, item.train)
    every = list(range(len(item.train)))

    # What a row's answer is depends on that row alone, and not on the batch.
    with torch.no_grad():
        together = losses(model, 1, item, every)
        assert together.shape == (8,) and together.isfinite().all()
        for row in (0, 7):
            torch.testing.assert_close(losses(model, 1, item, [row])[0], together[row], atol=1e-5, rtol=1e-5)

    # Every head learns, and so does what the method has for the task.
    model.train()
    losses(model, 1, item, every).mean().backward()
    assert model.heads[1].weight.grad.abs().sum() > 0  # a bias is nothing to a softmax over points
    assert all(p.grad is None for p in model.heads[0].parameters())
    options = TrainOptions(encoder_rate=1e-4, head_rate=2e-3, token_rate=1e-3, weight_decay=0.0)
    optimizer = make_optimizer(model.method, model.heads, options)
    seen = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = losses(model, 1, item, every).mean()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    assert min(seen[1:]) < seen[0]

    # Scored, saved and loaded it says the same; that of plain vectors is in the contract of the methods.
    if KINDS[kind].points == "vector" and not KINDS[kind].ragged:
        return
    model.eval()
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    scores = score_tasks(model, {1: item.validation})
    assert score_tasks(loaded, {1: item.validation}) == scores
    assert 0 <= scores[kind]["score"] <= 100 or kind == "regression"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind].reads_tokens])
@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].caches != "nothing"])
def test_a_task_that_reads_tokens_is_added_from_cached_texts(
    name: str, kind: str, make_model: MakeModel, read: Callable[[Model, str], TaskSet]
) -> None:
    options = {"pooler": "task"} if name == "mtdnn" else {}
    model = make_model(name, num_tasks=2, **options)
    item = read(model, kind)
    train_task(model, item, AddOptions(epochs=3), progress=False)
    found = model.records[2]["scores"]["validation"]
    again = score_tasks(model, {2: item.validation})[kind]  # without the cache
    assert again["score"] == pytest.approx(found["score"])


def passes(model: Model, ask: Callable[[], Any]) -> int:
    """How many sequences enter a first layer."""
    read = 0

    def count(_module: object, inputs: tuple[Any, ...]) -> None:
        nonlocal read
        read += len(inputs[1])

    hooks = [m.layers[0].register_forward_pre_hook(count) for m in model.modules() if isinstance(m, Encoder)]
    ask()
    for hook in hooks:
        hook.remove()
    return read


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].one_pass])
def test_one_pass_answers_tasks_of_all_kinds_on_single_texts(
    name: str, make_model: MakeModel, read: Callable[[Model, str], TaskSet], texts: list[str]
) -> None:
    model = make_model(name, num_tasks=1)
    kinds = [kind for kind in KINDS if kind in ("classification", "multilabel", "regression", "tagging")]
    for kind in kinds:
        item = read(model, kind)
        model.add(item.task, item.train)
    expected = len(texts) * (1 if model.method.one_pass else len(model.tasks))
    assert passes(model, lambda: model.predict(texts)) == expected
    answers = model.predict(texts[0])
    assert set(answers) == {"topic", *kinds}
    assert answers["tagging"].spans is not None


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].gives_tokens])
def test_a_task_that_reads_tokens_may_come_before_others(
    name: str, make_model: MakeModel, read: Callable[[Model, str], TaskSet], texts: list[str]
) -> None:
    model = make_model(name, num_tasks=1)
    for kind in ("tagging", "classification"):
        item = read(model, kind)
        model.add(item.task, item.train)
    tagged = model.label(texts, ["topic", "tagging"])
    for one, also in zip(model.label(texts), tagged, strict=True):
        assert list(one.tasks) == ["topic", "tagging", "classification"]
        assert one.tasks["tagging"].spans is not None and also.tasks["tagging"].spans is not None
        assert len(one.tasks["tagging"].label) == len(also.tasks["tagging"].label)


def test_the_last_layer_of_the_text_is_computed_only_for_tasks_that_read_tokens(
    make_model: MakeModel, read: Callable[[Model, str], TaskSet], texts: list[str]
) -> None:
    model = make_model("readers")
    model.add(read(model, "tagging").task)
    rows: list[int] = []
    model.method.encoder.layers[-1].down.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    model.predict(texts[0], tasks=["topic", "tone"])
    assert rows == [4]  # two readers of each task, and nothing of the text
    rows.clear()
    model.predict(texts[0], tasks=["topic", "tagging"])
    assert rows == [len(model.tokenizer.encode([(texts[0],)])[0]), 4]


def test_readers_turn_the_tokens_they_read(make_model: MakeModel, read: Callable[[Model, str], TaskSet]) -> None:
    """(1 + scale) * x + shift, from the task's own vector; another task that reads the same tokens is not touched."""
    model = make_model("readers", num_tasks=1)
    item = read(model, "tagging")
    model.add(item.task)
    model.add(item.task.model_copy(update={"name": "other"}))
    batch, _, _ = pack([(1, item.train, row) for row in (0, 1)])
    asked = torch.tensor([[1, 0, 2]] * 2)
    with torch.no_grad():
        plain = model.method(batch, asked).tokens
        film = model.method.tasks[1].film
        film.bias[0], film.bias[-1] = 1.0, 0.5  # the scale of the first number of a state, the shift of the last
        states = model.method(batch, asked)
    assert plain is not None and states.tokens is not None
    asks, places = np.array([0, 3, 5]), np.array([1, 2, 2])
    one, two = plain.take(asks, places), states.tokens.take(asks, places)
    torch.testing.assert_close(
        one, model.method.encoder(batch)[[1, batch.layout.lengths[0] + 2, batch.layout.lengths[0] + 2]]
    )
    torch.testing.assert_close(two[:2, 0], 2 * one[:2, 0])
    torch.testing.assert_close(two[:2, -1], one[:2, -1] + 0.5)
    torch.testing.assert_close(two[:2, 1:-1], one[:2, 1:-1])
    torch.testing.assert_close(two[2], one[2])


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_long_texts_are_read_in_windows_whose_logits_are_pooled(
    pooling: str, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model("readers", num_tasks=1)
    path = tmp_path / "rows.jsonl"
    long = " ".join(f"w{i % 50}" for i in range(70))
    path.write_text("\n".join(json.dumps({"text": text, "label": i % 2}) for i, text in enumerate([long, "w1 w2"] * 2)))
    options = {"windows": 4, "pooling": pooling, "overlap": 0.2}
    item = read_set(Task(name="long", text="text", label="label", train=path, options=options), model.tokenizer)
    model.add(item.task)
    (tokens,) = tokenise([Item([(long,)])], model.tokenizer, "vector", model.kinds[1].windows)
    assert len(tokens.sequences) == 3 and not tokens.truncated
    alone = model.logits(Batch.of(tokens.sequences), [1])[0]  # (3, 2)
    pooled = alone.mean(0) if pooling == "mean" else alone.max(0)
    wanted = np.exp(pooled) / np.exp(pooled).sum()
    answers = model.predict(["w3", long], tasks=["long", "topic"])
    np.testing.assert_allclose(list(answers[1]["long"].scores.values()), wanted, atol=1e-5)
    row = next(row for row in range(len(item.train)) if item.train.length(row) > 32)
    with torch.no_grad():
        loss = losses(model, 1, item, [row, row])
    torch.testing.assert_close(loss, torch.full((2,), float(-np.log(wanted[0]))), atol=1e-5, rtol=1e-5)


class Vectors(Method):
    """A method that gives no tokens."""

    def forward(self, batch: Batch, asked: Tensor) -> States:
        raise AssertionError("is refused before")


def test_a_method_without_tokens_refuses_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "vectors", Vectors)
    tasks = {
        "names": Task(name="names", kind="tagging", text="tokens", label="tags"),
        "topic": Task(name="topic", text="text", label="topic"),
    }
    file = TaskFile(path=Path("tasks.yaml"), tasks=tasks, method=MethodChoice(name="vectors"))
    (fault,) = check_served(file)
    assert fault.startswith("Task 'names': method 'vectors' gives one vector a text and cannot serve 'tagging'")
    assert check_served(file.model_copy(update={"method": MethodChoice(name="readers")})) == []
