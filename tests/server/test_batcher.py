"""The queue and the batches, with workers that only note what they are sent."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from onepass.server.batcher import Ask, Batcher
from onepass.server.metrics import Metrics
from onepass.server.replies import Refused
from onepass.server.settings import Settings


class Generation:
    def __init__(self, retiring: bool = False):
        self.workers: list[Any] = []
        self.retiring = retiring
        self.facts = {"times": {"tokens_per_s": 1000.0}}


class Worker:
    ready = True

    def __init__(self, generation: Generation):
        self.generation, self.batches, self.sent = generation, deque(), []
        generation.workers.append(self)

    def send(self, batch: Any) -> None:
        self.batches.append(batch)
        self.sent.append([item.size for item in batch.items])

    def answer(
        self, batcher: Batcher, seconds: float = 0.01, errors: dict[str, str] | None = None, unread_s: float = 0.0
    ) -> None:
        batch = self.batches.popleft()
        sizes = [1] * len(batch.items)
        run_ms = 1000 * (seconds - unread_s)
        head = {"sizes": sizes, "errors": errors or {}, "run_ms": run_ms, "padding": 0, "counts": {}}
        batcher.done(self, batch, seconds, head, b"x" * len(sizes))


def ask(sizes: list[int], seconds: float = 60) -> Ask:
    return Ask(["t"] * len(sizes), None, sizes, time.monotonic() + seconds)


def asyncly(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


def parts(**options: Any) -> tuple[Batcher, Generation, Worker]:
    batcher = Batcher(Settings(**{"batch_tokens": 100, **options}), Metrics())
    generation = Generation()
    batcher.generations.append(generation)  # type: ignore[arg-type]
    return batcher, generation, Worker(generation)


@asyncly
async def test_a_batch_is_what_waited_up_to_its_tokens() -> None:
    batcher, _, worker = parts()
    batcher.submit(ask([10]))
    assert worker.sent == [[10]]  # nobody waits for others to come
    for size in (40, 50, 30, 90):
        batcher.submit(ask([size]))
    assert worker.sent == [[10], [40, 50]]  # a full batch is sent ahead
    worker.answer(batcher)
    assert worker.sent[2:] == [[30]]
    worker.answer(batcher)
    assert worker.sent[3:] == []  # less than a full batch waits until the worker is idle
    worker.answer(batcher)
    assert worker.sent[3:] == [[90]] and batcher.waiting == 0


@asyncly
async def test_a_batch_takes_about_as_long_as_it_may() -> None:
    batcher, _, worker = parts(batch_tokens=10_000, batch_s=0.5)
    batcher.submit(ask([10]))
    for _ in range(30):
        batcher.submit(ask([50]))
    worker.answer(batcher, seconds=0.01)  # as fast as the first passes said: 1,000 tokens a second
    assert worker.sent[1] == [50] * 10
    worker.answer(batcher, seconds=0.25)  # twice as fast: more from now on
    assert 10 < len(worker.sent[2]) < 20


@asyncly
async def test_a_slow_first_batch_does_not_turn_others_away() -> None:
    batcher, _, worker = parts(max_wait_s=2.0)
    batcher.submit(ask([10]))
    worker.answer(batcher, seconds=0.5)  # 20 tokens a second, once
    for _ in range(10):
        batcher.submit(ask([50]))  # half a second at the usual speed


@asyncly
async def test_an_answer_that_is_there_is_given_though_its_time_is_over() -> None:
    batcher, _, worker = parts()
    request, late = ask([10]), ask([10])
    batcher.submit(request)
    batcher.submit(late)
    late.end(TimeoutError())
    worker.answer(batcher)
    request.end(TimeoutError())
    assert request.future.exception() is None and isinstance(late.future.exception(), TimeoutError)


@asyncly
async def test_a_request_is_done_when_its_last_text_is() -> None:
    batcher, _, worker = parts()
    request = ask([60, 60, 60])
    batcher.submit(request)
    worker.answer(batcher)
    worker.answer(batcher, errors={"0": "failed"})
    assert not request.future.done()
    worker.answer(batcher)
    assert request.future.done() and request.results == [b"x"] * 3 and request.errors == {1: "failed"}


@asyncly
async def test_what_is_late_or_left_is_passed_over() -> None:
    batcher, _, worker = parts()
    batcher.submit(ask([10]))
    late, left, good = ask([10], seconds=-1), ask([10]), ask([11])
    for request in (late, left, good):
        batcher.submit(request)
    batcher.cancel(left)
    worker.answer(batcher)
    assert worker.sent == [[10], [11]]


@asyncly
async def test_too_long_a_queue_is_refused_with_the_time_to_wait() -> None:
    batcher, _, worker = parts(max_wait_s=2.0)
    batcher.submit(ask([50] * 60))  # 3 s at 1,000 tokens a second; taken, since nothing was before it
    with pytest.raises(Refused) as refused:
        batcher.submit(ask([10]))
    assert refused.value.status == 429 and int(refused.value.headers()["retry-after"]) == 2
    for _ in range(15):
        worker.answer(batcher, seconds=0.1)
    batcher.submit(ask([10]))


@asyncly
async def test_texts_of_a_lost_worker_are_tried_again_alone_and_only_once() -> None:
    batcher, generation, worker = parts()
    first, second = ask([10]), ask([20])
    worker.ready = False
    batcher.submit(first)
    batcher.submit(second)
    worker.ready = True
    batcher.dispatch()
    assert worker.sent == [[10, 20]]
    generation.workers.clear()
    batcher.lost(worker, list(worker.batches))  # type: ignore[arg-type]
    other = Worker(generation)
    batcher.dispatch()
    other.answer(batcher)
    assert other.sent == [[10], [20]] and first.future.done()
    generation.workers.clear()
    batcher.lost(other, list(other.batches))  # type: ignore[arg-type]
    assert second.errors == {0: "ended_worker"} and second.future.done()


@asyncly
async def test_a_request_is_answered_by_one_version() -> None:
    batcher, old, worker = parts()
    begun, later = ask([60, 60]), ask([5])
    batcher.submit(begun)
    batcher.submit(later)
    old.retiring, new = True, Generation()
    batcher.generations.append(new)  # type: ignore[arg-type]
    other = Worker(new)
    batcher.dispatch()
    assert other.sent == [[5]]  # what was not begun goes to the new version
    worker.answer(batcher)
    worker.answer(batcher)
    assert worker.sent == [[60], [60]] and begun.generation is old


@asyncly
async def test_a_request_begins_again_when_its_version_is_gone() -> None:
    batcher, old, worker = parts()
    begun = ask([60, 60])
    batcher.submit(begun)
    worker.answer(batcher)
    lost = list(worker.batches)
    old.workers.clear()
    batcher.lost(worker, lost)  # type: ignore[arg-type]
    batcher.generations.remove(old)  # type: ignore[arg-type]
    new = Generation()
    other = Worker(new)
    batcher.generations.append(new)  # type: ignore[arg-type]
    batcher.forget(old)  # type: ignore[arg-type]
    while other.batches:
        other.answer(batcher)
    assert sorted(other.sent) == [[60], [60]] and begun.generation is new and begun.future.done()


@asyncly
async def test_a_server_that_stood_still_does_not_take_its_workers_for_slow() -> None:
    batcher, _, worker = parts()
    for _ in range(20):
        batcher.submit(ask([50]))
        worker.answer(batcher, 0.05)
    known = batcher.rate
    batcher.submit(ask([50]))
    worker.answer(batcher, 200.05, unread_s=200.0)
    assert batcher.rate > known / 4
    for _ in range(5):  # refused, if what waits were thought to take long
        batcher.submit(ask([50]))
