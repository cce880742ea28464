"""Kinds of task that read more of a row than its vector: words, marks, spans, candidates."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onepass
from onepass.engine.engine import Engine
from onepass.engine.points import point_logits
from onepass.heads import KINDS
from onepass.heads.tagging import Tagging
from onepass.model import Model
from onepass.tasks import Task

LONG = "the late goal wins the match . " * 12  # three windows of 38 tokens
TASKS = [
    Task(name="topic", text="text", label="topic", labels=["a", "b", "c"]),
    Task(name="names", kind="tagging", text="text", label="tags", labels=["LOC", "PER"], options={"windows": 3}),
    Task(
        name="sense", kind="words", text=["one", "two"], label="same", labels=["no", "yes"], options={"words": "word"}
    ),
    Task(name="best", kind="choice", text="text", label="best", options={"choices": "choices"}),
    Task(name="answer", kind="extraction", text=["question", "text"], label="answer", options={"windows": 3}),
]
ROWS: list[dict[str, Any]] = [
    {"text": "the late goal wins"},
    {"text": LONG},
    {"one": "the late goal wins", "two": "late is bad", "word": "late"},
    {"text": "goal", "choices": ["match", "the senate vote", "why", "match"]},
    {"question": "why is it bad ?", "text": LONG},
    {"question": "why ?", "text": "it is late", "choices": ["vote", "goal"]},
]


def same(one: Any, other: Any) -> bool:
    """Whether two answers are the same up to rounding."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == pytest.approx(other, abs=1e-4)) if isinstance(one, float) else one == other


@pytest.fixture(scope="module", params=["readers", "mtdnn"])
def pair(request: pytest.FixtureRequest, make_folder: Callable[..., Path]) -> tuple[Model, Engine]:
    folder = make_folder(method=request.param, tasks=TASKS)
    return onepass.load(folder), onepass.load(folder, engine=True, threads=1)


def test_the_engine_answers_every_kind_like_the_model(pair: tuple[Model, Engine]):
    assert {task.kind for task in TASKS} | {"multilabel", "regression"} == set(KINDS)
    model, engine = pair
    for wanted, found in zip(model.label(ROWS), engine.label(ROWS), strict=True):
        assert same(wanted.to_dict(), found.to_dict())


def test_equal_candidates_share_no_score(pair: tuple[Model, Engine]):
    for labels in pair:
        (found,) = labels.label([ROWS[3]], ["best"])
        scores = found.tasks["best"].scores
        assert scores is not None and list(scores) == ["match", "the senate vote", "why"]
        assert sum(scores.values()) == pytest.approx(1.0)


def test_tokens_are_answered_alike_alone_and_together(pair: tuple[Model, Engine], monkeypatch: pytest.MonkeyPatch):
    _, engine = pair
    together = engine.label(ROWS)
    for row, found in zip(ROWS, together, strict=True):
        assert same(engine.label([row])[0].to_dict(), found.to_dict())
    monkeypatch.setattr("onepass.engine.core.MOST_NUMBERS", 1)  # one text at a time
    for wanted, found in zip(together, engine.label(ROWS), strict=True):
        assert same(wanted.to_dict(), found.to_dict())


def test_a_point_is_the_mean_of_its_tokens_turned_by_the_vector():
    generator = torch.Generator().manual_seed(0)
    head, film = torch.nn.Linear(4, 3), torch.nn.Linear(4, 8)
    own = {"head": head, "method.film": film}
    weights = {f"{n}.{k}": v.detach().numpy() for n, m in own.items() for k, v in m.state_dict().items()}
    vectors = torch.randn(2, 4, generator=generator)
    states = [torch.randn(count, 4, generator=generator) for count in (5, 3)]
    ranges = [np.array([[1, 2], [2, 5]], np.int16), np.array([[0, 2]], np.int16)]
    found = point_logits(weights, Tagging(), vectors.numpy(), [part.numpy() for part in states], ranges)
    for row, points in enumerate(ranges):
        scale, shift = film(vectors[row]).chunk(2)
        means = torch.stack([((1 + scale) * states[row] + shift)[a:b].mean(0) for a, b in points.tolist()])
        assert np.allclose(found[row], head(means).detach().numpy(), atol=1e-6)
