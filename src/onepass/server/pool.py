"""The worker processes: started, watched, replaced.

A worker that ends, falls silent or runs over its time is replaced. A new version of the model is a new set of workers:
they load and try it while the old ones serve, then take over; requests begun on the old version end on it. Then one of
the old workers waits as the spare one: it reads only what the next version has of its own. Of several workers half may
leave the old version for the new one before it takes over, and the others after: that is sooner than new processes are.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepass.atomic import reason
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import FolderError, OnepassError
from onepass.server.batcher import Batcher
from onepass.server.child import Generation, Worker
from onepass.server.folder import revision_of
from onepass.server.follower import Follower
from onepass.server.launch import Launch
from onepass.server.replies import Refused

if TYPE_CHECKING:
    from onepass.server.settings import Settings

log = logging.getLogger(__name__)
TICK_S, PROBE_S, FRESH_S = 0.1, 1.0, 5.0
RETIRED = "a newer version took over"
REST_S = 5.0  # that a change waits for a worker that has the version before
STALLED_S = 1.0  # between two looks at the workers, after which the server itself stood still
BACK_OFF_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Pool:
    """Keeps as many workers as are wanted, on the newest version that works."""

    def __init__(self, folder: Path, settings: Settings, batcher: Batcher):
        self.folder, self.settings, self.batcher = folder, settings, batcher
        self.launch = Launch(folder, settings)
        self.current: Generation | None = None
        self.starting: set[Worker] = set()
        self.spare: Worker | None = None
        """A process that has imported what takes long, or served before, and waits to be told to load"""
        self.restarts = 0
        self.failures = 0
        """Workers in a row that ended before they were ready"""
        self.refused: str | None = None
        """Why the newest version was not taken over, if it was not"""
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the first model is loaded, or with what is wrong with it"""
        self._replacing = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._not_before = 0.0
        self._closed = False
        self._read: tuple[tuple[bytes, int], Tokenizer] | None = None
        self._looked = time.monotonic()
        """When the workers were last looked at"""
        self._judge_after = 0.0
        """No worker is found silent before this: the server did not listen"""
        self.draining = False
        """Whether the server was told to end"""
        self.adopted: Callable[[], None] = lambda: None
        """Called when a version has taken over"""
        self.follower = Follower(self)
        self.made: str | None = None
        """The revision that the change under way made of the folder, once it has"""

    @property
    def replacing(self) -> bool:
        """Whether another version is on its way."""
        return self._replacing.locked()

    @property
    def serving(self) -> bool:
        """Whether a worker answers, so that others have time to load."""
        return self.current is not None and any(worker.ready for worker in self.current.workers)

    def spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- versions -----------------------------------------------------------------------------------------------

    def start_worker(self, change: dict[str, Any] | None = None, worker: Worker | None = None) -> Worker:
        """Tell a worker to load: the given one, which rests, else the spare one, else a new one."""
        if worker is None:
            worker, self.spare = self.spare, None
        now = time.monotonic()
        if worker is not None and self._listens(now) and worker.silence(now) > self.settings.silent_s:
            worker.kill("it said nothing while it waited")
        if worker is None or worker.gone:
            worker = Worker(self)
            self.spawn(worker.run())
        self.starting.add(worker)
        worker.load(change)
        return worker

    @property
    def changes_folder(self) -> bool:
        """Whether workers can change the folder themselves: they hold an engine."""
        return self.current is not None and any(worker.holds for worker in self.current.workers)

    async def replace(self, change: dict[str, Any] | None = None) -> Generation:
        """Load the folder, after a change if there is one, beside what serves; take over if it works, else raise."""
        async with self._replacing:
            before = revision_of(self.folder)
            if change is None and self.current is not None and self.current.revision == before:
                self.refused = None
                return self.current
            try:
                await self._until_one_rests()
                held = self.spare is not None and self.spare.holds
                try:
                    generation, workers = await self._load(change)
                except Refused:  # not by its model: a worker ended, or somebody else changed the folder meanwhile
                    if change and (now := revision_of(self.folder)) != before:
                        self.made = self.made or now
                    made = change is not None and self.made is not None
                    if self._closed or not (held or made):  # one that held a model may have ended by that
                        raise
                    generation, workers = await self._load(None if made else change)
            except (OnepassError, Refused) as error:
                self.refused = self.refused if change else str(error)
                raise
            self.adopt(generation, workers)
            return generation

    async def _until_one_rests(self) -> None:
        """Wait for a worker that is about to be free: it has the next version sooner than a new one."""
        end = time.monotonic() + REST_S
        while self.settings.spare and self.spare is None and self._one_will_rest() and time.monotonic() < end:
            await asyncio.sleep(TICK_S / 4)

    async def _load(self, change: dict[str, Any] | None = None) -> tuple[Generation, list[Worker]]:
        """The folder as it is now, or after a change that the first worker makes, and the workers that hold it."""
        workers = [self.start_worker(change)]
        try:
            facts = [await workers[0].facts] if change or self.changes_folder else []
            self.made = facts[0]["revision"] if change else self.made
            borrowed = [worker for _ in range(self.settings.workers // 2) if (worker := await self._borrowed())]
            # If there are any, those that stay come when the version before is over.
            others: Sequence[Worker | None] = borrowed or [None] * (self.settings.workers - 1)
            workers += [self.start_worker(worker=worker) for worker in others]
            facts += await asyncio.gather(*(worker.facts for worker in workers[len(facts) :]))
            if len({found["revision"] for found in facts}) > 1:
                raise Refused(409, "refused", "The model folder was replaced while it was read. Try again.")
            return Generation(facts[0], self._tokenizer(facts[0])), workers
        except BaseException:  # a worker that stayed among those that start would be waited for
            for worker in workers:
                self._release(worker, "its model was refused")
            raise

    async def _borrowed(self) -> Worker | None:
        """A worker that leaves the version that serves, to rest when it has answered; the last one never does."""
        able = [worker for worker in (self.current.workers if self.current else []) if worker.ready and worker.holds]
        if len(able) < 2:
            return None
        worker = min(able, key=lambda worker: len(worker.batches))
        worker.leaving = True
        while worker.batches and not worker.gone:
            await asyncio.sleep(TICK_S / 4)
        if worker.gone:
            return None
        worker.rest()
        return worker

    def _release(self, worker: Worker, why: str) -> None:
        """Let a worker wait for the next version with what it holds, or end it."""
        self.starting.discard(worker)
        if self.settings.spare and self.spare is None and worker.can_rest:
            worker.rest()
            self.spare = worker
        else:
            worker.kill(why)

    def adopt(self, generation: Generation, workers: list[Worker]) -> None:
        """Let a version serve; the one before ends when its requests are answered."""
        if self.current is not None:
            self.current.retiring = True
        self.current = generation
        self.batcher.generations.append(generation)
        for worker in workers:
            self._join(worker, generation)
        log.info("serving revision %s, %d tasks", generation.revision, len(generation.tasks))
        if not self.first.done():
            self.first.set_result(None)
        self.adopted()

    def _join(self, worker: Worker, generation: Generation) -> None:
        self.starting.discard(worker)
        worker.generation = generation
        generation.workers.append(worker)
        self.failures, self.refused = 0, None
        self.batcher.dispatch()

    def _tokenizer(self, facts: dict[str, Any]) -> Tokenizer:
        """The tokenizer of a version; mostly that of the one before, and reading it would hold up everybody."""
        path, length = self.folder / "tokenizer.json", facts["max_length"]
        try:
            known = path.read_bytes(), length
        except OSError as error:  # the folder is away for a moment
            raise FolderError(f"{path} cannot be read: {reason(error)}.") from error
        if self._read is None or self._read[0] != known:
            self._read = known, Tokenizer.load(path, length)
        return self._read[1]

    async def _refill(self, worker: Worker) -> None:
        """One more worker for the current version."""
        try:
            facts = await worker.facts
            if self.current is not None and facts["revision"] == self.current.revision:
                self._join(worker, self.current)
            else:
                self.adopt(Generation(facts, self._tokenizer(facts)), [worker])
        except (OnepassError, Refused) as error:
            self._release(worker, "its model was refused")
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if self._closed:  # it did not fail: the server ends
            return
        self.failures += 1
        self.refused = str(error)
        self._not_before = time.monotonic() + BACK_OFF_S[min(self.failures, len(BACK_OFF_S) - 1)]
        log.error("a worker could not start: %s", error)
        if not self.first.done() and isinstance(error, OnepassError):
            self.first.set_exception(error)

    def ended(self, worker: Worker) -> None:
        """A process is gone: what it had is tried again elsewhere."""
        self.starting.discard(worker)
        if worker is self.spare:
            self.spare = None
        generation = worker.generation
        if generation is None or self._closed:
            return
        generation.workers.remove(worker)
        if generation.retiring and worker.why.startswith(RETIRED):
            return
        self.restarts += 1
        log.warning("worker %d is gone: %s", worker.number, worker.why)
        lost = list(worker.batches)
        worker.batches.clear()
        self.batcher.lost(worker, lost)

    # --- watching -----------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether a real pass ended a moment ago and a worker is alive now."""
        return self.why_not_ready() is None

    def why_not_ready(self) -> str | None:
        """In words that anyone may read: not those of `refused`, which name folders."""
        now = time.monotonic()
        if self._closed or self.draining:
            return "shutting down"
        workers = [worker for worker in (self.current.workers if self.current else []) if worker.ready]
        if not workers:
            return "no worker could load the model: the log says why" if self.refused else "the model is being loaded"
        if all(now - worker.beaten > min(1.0, self.settings.silent_s) for worker in workers):
            return "no worker says that it is alive"
        if all(now - worker.forward > FRESH_S for worker in workers):
            return f"no pass ended within {FRESH_S:g} s"
        return None

    async def watch(self) -> None:
        """Look after the workers until the server ends."""
        ticks, self._looked = 0, time.monotonic()
        while True:
            now = time.monotonic()
            if now - self._looked > STALLED_S:  # stopped, starved or busy: what the workers said is still unread
                self._judge_after = now + self.settings.silent_s
            self._looked = now
            self._look(now)
            if self.settings.watch and ticks % 10 == 0 and self.current is not None:
                self.follower.look()
            ticks += 1
            await asyncio.sleep(TICK_S)

    def _listens(self, now: float) -> bool:
        """Whether a worker's silence means anything; not after the server stood still, nor before that is noticed."""
        return now >= self._judge_after and now - self._looked <= STALLED_S

    def _look(self, now: float) -> None:
        self.batcher.sweep()
        generations = list(self.batcher.generations)
        workers = [worker for generation in generations for worker in generation.workers]
        for worker in [*self.starting, *workers, *([self.spare] if self.spare else [])]:
            trouble = worker.trouble(now, self.settings, self.batcher.rate) if self._listens(now) else None
            if trouble:
                log.warning("worker %d is replaced: %s", worker.number, trouble)
                worker.kill(trouble)
            elif worker.ready and not worker.probed and now - worker.forward > PROBE_S:
                self.batcher.probe(worker)
        for generation in generations:
            idle = not any(worker.batches for worker in generation.workers)
            done = idle and not self.batcher.pinned(generation)
            if generation.retiring and (done or not generation.workers):
                self._retire(generation)
        if now < self._not_before or self.replacing:
            return
        if self._missing():
            self._not_before = now + BACK_OFF_S[1]
            self.spawn(self._refill(self.start_worker()))
        elif self.settings.spare and self.spare is None and not self.starting and not self._one_will_rest():
            self._not_before = now + BACK_OFF_S[1]
            self.spare = Worker(self)
            self.spawn(self.spare.run())

    def _retire(self, generation: Generation) -> None:
        if generation in self.batcher.generations:
            self.batcher.generations.remove(generation)
        for worker in list(generation.workers):
            if worker.can_rest and self._missing() and not self.replacing:
                worker.rest()
                self.spawn(self._refill(self.start_worker(worker=worker)))
            else:
                self._release(worker, RETIRED)
        self.batcher.forget(generation)

    def _missing(self) -> bool:
        """Whether there are fewer workers for the current version than wanted."""
        ready = [worker for worker in (self.current.workers if self.current else []) if worker.ready]
        return len(self.starting) + len(ready) < self.settings.workers

    def _one_will_rest(self) -> bool:
        """Whether a worker is about to be free to be the spare one."""
        retiring = [generation for generation in self.batcher.generations if generation.retiring]
        return any(worker.holds for generation in retiring for worker in generation.workers)

    def kill_all(self) -> None:
        workers = [worker for generation in self.batcher.generations for worker in generation.workers]
        for worker in [*workers, *self.starting, *([self.spare] if self.spare else [])]:
            worker.kill("the server ended")

    async def close(self) -> None:
        self._closed = True
        self.kill_all()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=5)
