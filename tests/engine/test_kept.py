"""What the engine remembers of choices of tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onepass
from onepass.engine.core import Core
from onepass.engine.kept import Kept
from onepass.engine.poolers import poolers_of
from onepass.inquiry import Pieces
from onepass.tasks import Task


def test_the_last_few_are_kept_as_long_as_they_are_small():
    found: list[tuple[int, ...]] = []

    def find(key: tuple[int, ...]) -> dict[str, np.ndarray]:
        found.append(key)
        return {"weights": np.zeros(sum(key), np.uint8)}

    kept = Kept(find, most=3, most_bytes=100)
    for key in ((10,), (20,), (10,), (30,), (40,)):  # the fourth choice sends away the one that was asked longest ago
        assert kept(key)["weights"].nbytes == sum(key)
    assert found == [(10,), (20,), (30,), (40,)] and kept.bytes == 80
    kept((90,))
    assert kept.bytes == 90  # beside it no other has room
    kept((300,))
    assert kept((300,))["weights"].nbytes == 300 and found[-2:] == [(90,), (300,)]


def test_tasks_in_another_order_are_the_same_choice(folder: Path, monkeypatch: pytest.MonkeyPatch):
    engine, chosen, run = onepass.load(folder, engine=True, threads=1), [], Core._logits

    def noting(core: Core, pieces: Any, asked: tuple[int, ...], ranges: Any) -> list[Any]:
        chosen.append(asked)
        return run(core, pieces, asked, ranges)

    monkeypatch.setattr(Core, "_logits", noting)
    one, other = (engine.predict("goal", tasks=names) for names in (["topic", "spam"], ["spam", "topic"]))
    assert chosen[0] == chosen[1] and list(other) == ["spam", "topic"]
    assert one == other


def test_choices_of_wide_tasks_take_no_more_than_twice_their_memory(make_folder: Callable[..., Path]):
    labels = [f"label {number}" for number in range(800)]
    tasks = [Task(name=f"wide-{n}", text="text", label="label", labels=labels) for n in range(6)]
    core = onepass.load(make_folder(tasks=tasks), engine=True, threads=1)._core
    size = sum(array.nbytes for task in core.runner.tasks for array in task.values())
    pieces = [Pieces([2, 5, 3], [0, 0, 0])]
    for left_out in range(6):
        core.logits(pieces, [task for task in range(6) if task != left_out])
    assert size < core._heads.bytes + core.runner.chosen.bytes <= 2 * size


@pytest.mark.parametrize("options", [{"method": "readers"}, {"method": "mtdnn", "pooler": "task"}])
def test_any_number_of_tasks_is_asked_in_few_shapes_and_answered_alike(
    options: dict[str, Any], make_folder: Callable[..., Path]
):
    tasks = [Task(name=f"task-{n}", text="text", label="label", labels=["no", "yes"]) for n in range(40)]
    core = onepass.load(make_folder(tasks=tasks, **options), engine=True, threads=1)._core
    pieces = [Pieces([2, 5, 3], [0, 0, 0]), Pieces([2, 6, 7, 3], [0] * 4)]
    every, shapes = core.logits(pieces, range(40)), set()
    for count in range(1, 41):
        found = core.logits(pieces, range(count))
        assert len(found) == count
        assert max(np.abs(one - other).max() for one, other in zip(found, every, strict=False)) < 1e-6
        shapes.add(len(core.runner.chosen(tuple(range(count)))["pooler_bias"]))
    assert len(shapes) == 15 + 8 + 3


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="there is no /proc")
def test_poolers_keep_little_for_every_number_of_texts():
    width, number = 384, 6
    names = {"method.pooler.weight": (width, width), "method.pooler.bias": (width,)}
    own = {name: np.zeros(shape, np.float32) for name, shape in names.items()}
    poolers = poolers_of([own] * number, width, 1)
    chosen = poolers.choose(range(number))
    before = resident()
    for texts in range(1, 151):
        poolers(np.zeros((number, texts, width), np.float32), chosen)
    assert resident() - before < 220  # MB; with all shapes kept it was 312


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
