"""Texts of many requests into batches of tokens.

There is no timer: a batch is whatever waited while the last one ran, up to a number of tokens, whichever tasks the
texts ask for. One batch is sent ahead only when a full one waits, so that a worker under load never idles and a
request never waits for others to come.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onepass.server.replies import Refused

if TYPE_CHECKING:
    from onepass.server.child import Generation, Worker
    from onepass.server.metrics import Metrics
    from onepass.server.settings import Settings

HALF_LIFE_S = 2.0  # of what is known of the speed, in seconds of work
UNREAD_S = 1.0
"""More than an answer is ever on its way: one that lay unread while the server stood still tells nothing of speed"""
FEWEST_TOKENS = 256  # of a batch that is cut short for the time it takes
MESSAGES = {
    "failed": (500, "The model failed on this text."),
    "not_finite": (500, "The model's answer about this text is not a number."),
    "ended_worker": (500, "This text ended the model's process twice."),
    "cannot_answer": (422, "A task cannot be asked of this; GET /tasks tells what tasks read."),
    "unknown_task": (404, "A task was removed while the request waited."),
}
MODEL_FAULTS = ("failed", "not_finite")
"""Those that say nothing of the text if it is one of our own"""


@dataclass(eq=False)
class Ask:
    """A request's texts on their way: answered whole, by one version of the model."""

    texts: Sequence[Any]
    tasks: Sequence[str] | None
    sizes: Sequence[int]
    """Tokens of each text"""
    deadline: float
    future: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    arrived: float = field(default_factory=time.monotonic)
    results: list[bytes] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)
    generation: Generation | None = None
    """The version that answers, once the first text is on its way"""
    left: int = 0
    over: bool = False
    """Whether nobody waits any more"""
    queue_ms: float = 0.0
    run_ms: float = 0.0

    def end(self, reason: Exception) -> None:
        """Wait no longer, unless it is answered."""
        if not self.future.done():
            self.future.set_exception(reason)

    def reset(self) -> None:
        """Forget what is known: the version that answered so far is gone."""
        self.generation = None
        self.results = [b""] * len(self.texts)
        self.errors = {}
        self.left = len(self.texts)


@dataclass(eq=False)
class Item:
    """One text of a request."""

    ask: Ask
    place: int
    attempts: int = 0
    """Workers that ended while they had it"""

    @property
    def size(self) -> int:
        return self.ask.sizes[self.place]


@dataclass(eq=False)
class Batch:
    """What a worker runs at once; without items it is a probe."""

    number: int
    items: list[Item]
    tokens: int

    def head(self, probe: Any) -> dict[str, Any]:
        items = [{"text": item.ask.texts[item.place], "tasks": item.ask.tasks} for item in self.items]
        return {"op": "batch", "id": self.number, "items": items or [{"text": probe, "tasks": None}]}


class Batcher:
    """The queue, and who gets what is next."""

    def __init__(self, settings: Settings, metrics: Metrics):
        self.settings, self.metrics = settings, metrics
        self.queue: deque[Item] = deque()
        self.waiting = 0
        """Tokens in the queue"""
        self.generations: list[Generation] = []
        """Versions with workers, the current one last"""
        self._numbers = 0
        self._tokens, self._seconds = 0.0, 0.0

    # --- the queue ----------------------------------------------------------------------------------------------

    @property
    def rate(self) -> float:
        """Tokens a second of one worker."""
        if self._seconds:
            return self._tokens / self._seconds
        return float(self.generations[-1].facts["times"]["tokens_per_s"]) if self.generations else 1000.0

    @property
    def most_tokens(self) -> int:
        """Tokens of the next batch: what a worker does in the time that a batch may take.

        Who comes while a batch runs waits for its end, and all of its answers leave at once.
        """
        return min(self.settings.batch_tokens, max(FEWEST_TOKENS, int(self.rate * self.settings.batch_s)))

    def expected_wait(self) -> float:
        """Seconds until a request that came now would run."""
        workers = [worker for generation in self.generations for worker in generation.workers]
        ready = sum(worker.ready for worker in workers)
        running = sum(batch.tokens for worker in workers for batch in worker.batches)
        return (self.waiting + running) / (self.rate * max(1, ready))

    def check_room(self) -> None:
        """Raise if a request would have to wait too long; cheap, so that it can be asked first."""
        wait = self.expected_wait()
        if wait > self.settings.max_wait_s or len(self.queue) >= self.settings.max_queue:
            raise Refused(
                429,
                "overloaded",
                f"{len(self.queue)} texts wait already. Try again later.",
                retry_s=wait - self.settings.max_wait_s / 2,
            )

    def submit(self, ask: Ask) -> None:
        """Put a request's texts into the queue."""
        self.check_room()
        ask.reset()
        for place in range(len(ask.texts)):
            self._put(Item(ask, place))
        self.dispatch()

    def _put(self, item: Item, first: bool = False) -> None:
        self.queue.appendleft(item) if first else self.queue.append(item)
        self.waiting += item.size

    def cancel(self, ask: Ask) -> None:
        """Nobody waits for this any more: its texts are passed over."""
        ask.over = True

    def pinned(self, generation: Generation) -> bool:
        """Whether texts wait that only this version may answer."""
        return any(item.ask.generation is generation and not item.ask.over for item in self.queue)

    def sweep(self) -> None:
        """Take out what nobody waits for."""
        if any(item.ask.over for item in self.queue):
            self.queue = deque(item for item in self.queue if not item.ask.over)
            self.waiting = sum(item.size for item in self.queue)

    # --- to the workers and back --------------------------------------------------------------------------------

    def dispatch(self) -> None:
        """Give idle workers what waits."""
        for generation in self.generations:
            for worker in generation.workers:
                while self.queue and worker.ready and self._has_room(worker):
                    items = self._take(generation)
                    if not items:
                        break
                    self._send(worker, items)

    def probe(self, worker: Worker) -> None:
        """A real pass without a request, to know that passes work."""
        self._send(worker, [])

    def _has_room(self, worker: Worker) -> bool:
        return not worker.batches or (len(worker.batches) == 1 and self.waiting >= self.settings.batch_tokens)

    def _take(self, generation: Generation) -> list[Item]:
        """The next batch that this version may answer."""
        now = time.monotonic()
        items: list[Item] = []
        kept: list[Item] = []
        tokens, most = 0, self.most_tokens
        while self.queue and len(items) < self.settings.batch_texts:
            item = self.queue[0]
            ask = item.ask
            if ask.over or now >= ask.deadline:
                self._pop()
                continue
            if ask.generation is not generation and (ask.generation is not None or generation.retiring):
                kept.append(self._pop())
                continue
            # One that was on a worker when it ended goes alone: it may have been the reason.
            if items and (item.attempts or tokens + item.size > most):
                break
            items.append(self._pop())
            tokens += item.size
            if item.attempts:
                break
        for item in reversed(kept):
            self._put(item, first=True)
        return items

    def _pop(self) -> Item:
        item = self.queue.popleft()
        self.waiting -= item.size
        return item

    def _send(self, worker: Worker, items: list[Item]) -> None:
        now = time.monotonic()
        self._numbers += 1
        batch = Batch(self._numbers, items, sum(item.size for item in items))
        for item in items:
            if item.ask.generation is None:
                item.ask.generation = worker.generation
                item.ask.queue_ms = 1000 * (now - item.ask.arrived)
                self.metrics.queue_seconds.observe(now - item.ask.arrived)
        worker.send(batch)

    def done(self, worker: Worker, batch: Batch, seconds: float, head: dict[str, Any], body: bytes) -> None:
        """A worker's answers."""
        for ask in {item.ask for item in batch.items}:
            ask.run_ms += head["run_ms"]
        start = 0
        for place, (item, size) in enumerate(zip(batch.items, head["sizes"], strict=False)):
            answer, start = body[start : start + size], start + size
            ask = item.ask
            if ask.generation is not worker.generation or ask.over:
                continue
            ask.results[item.place] = answer
            if (code := head["errors"].get(str(place))) is not None:
                ask.errors[item.place] = code
            self._one_less(ask)
        if batch.items:
            self._learn(batch.tokens, min(seconds, head["run_ms"] / 1000 + UNREAD_S))
            self.metrics.batch(batch, head)
        self.dispatch()

    def _learn(self, tokens: int, seconds: float) -> None:
        """How fast workers are: a second of what the first passes showed, and then ever more of what batches take."""
        if not self._seconds:
            self._tokens, self._seconds = self.rate, 1.0
        keep = 0.5 ** (seconds / HALF_LIFE_S)
        self._tokens = keep * self._tokens + tokens
        self._seconds = keep * self._seconds + seconds

    def _one_less(self, ask: Ask) -> None:
        ask.left -= 1
        if ask.left == 0 and not ask.future.done():
            ask.future.set_result(None)

    def lost(self, worker: Worker, batches: Sequence[Batch]) -> None:
        """A worker ended with these batches, the first of which was running: try again, each text alone."""
        for batch in reversed(batches):
            for item in reversed(batch.items):
                item.attempts += batch is batches[0]
                if item.ask.generation is not worker.generation:
                    continue
                if item.attempts > 1:
                    item.ask.errors[item.place] = "ended_worker"
                    self._one_less(item.ask)
                elif not item.ask.over:
                    self._put(item, first=True)
        self.dispatch()

    def forget(self, generation: Generation) -> None:
        """A version is gone for good: requests that it has begun start again with another."""
        asks = {item.ask for item in self.queue if item.ask.generation is generation}
        if not asks:
            return
        keep = [item for item in self.queue if item.ask not in asks]
        attempts = {(item.ask, item.place): item.attempts for item in self.queue}
        again = []
        for ask in asks:
            ask.reset()
            again += [Item(ask, place, attempts.get((ask, place), 0)) for place in range(len(ask.texts))]
        self.queue = deque([*again, *keep])
        self.waiting = sum(item.size for item in self.queue)
        self.dispatch()
