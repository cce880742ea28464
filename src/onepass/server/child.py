"""One worker process, seen from the server; and a version of the model with the workers that hold it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from onepass.atomic import reason
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import FolderError
from onepass.server.batcher import MODEL_FAULTS, Batch
from onepass.server.exchange import Elsewhere
from onepass.server.frames import frame, read_frame
from onepass.server.priority import LOADING
from onepass.server.replies import Refused
from onepass.server.sizes import Reader

if TYPE_CHECKING:
    from onepass.server.pool import Pool
    from onepass.server.settings import Settings

SLOWER = 10  # times the measured speed, before a batch counts as hung
QUIET_S = 10.0  # at least, for one that loads or waits: an import may keep it from speaking


class Generation:
    """One version of the model, and the workers that hold it."""

    def __init__(self, facts: dict[str, Any], tokenizer: Tokenizer):
        self.facts, self.tokenizer = facts, tokenizer
        self.revision: str = facts["revision"]
        self.tasks: dict[str, dict[str, Any]] = {task["name"]: task for task in facts["tasks"]}
        self.reader = Reader(tokenizer, facts["definitions"])
        self.workers: list[Worker] = []
        self.retiring = False


class Worker:
    """One process, seen from the server."""

    def __init__(self, pool: Pool):
        self.pool = pool
        self.born = self.beaten = time.monotonic()
        self.heard = False
        """Whether it ever said anything"""
        self.forward = 0.0
        """When a pass last ended with an answer"""
        self.batches: deque[Batch] = deque()
        """Sent and not yet answered; the first one runs"""
        self.running_since = 0.0
        self.generation: Generation | None = None
        self.facts: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.wanted = False
        """Whether it was told to load the model; a spare one waits for that"""
        self.change: dict[str, Any] | None = None
        """What it was told to do to the folder before"""
        self.holds = False
        """Whether it has a model from which the next version is soon made"""
        self.leaving = False
        """Whether it is to answer what it has and then rest"""
        self.writer: asyncio.StreamWriter | None = None
        self.gone = False
        self.why = "it ended"
        self.process: asyncio.subprocess.Process | None = None

    @property
    def ready(self) -> bool:
        return self.generation is not None and not self.gone and not self.leaving

    @property
    def probed(self) -> bool:
        """Whether a probe is on its way."""
        return any(not batch.items for batch in self.batches)

    @property
    def number(self) -> int:
        return self.process.pid if self.process else 0

    async def run(self) -> None:
        """Start the process and listen to it until it ends."""
        ours = None
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                self.process = await asyncio.create_subprocess_exec(
                    *self.pool.launch.worker(theirs.fileno(), self.pool.serving),
                    pass_fds=[theirs.fileno()],
                    stdin=asyncio.subprocess.DEVNULL,
                    env=self.pool.launch.environment(),
                    process_group=0,  # Ctrl-C in a terminal is the server's to handle
                )
            reader, self.writer = await asyncio.open_connection(sock=ours)
            if self.wanted:
                self.load(self.change)
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
                while True:
                    self._hear(*await read_frame(reader))
        except OSError as error:  # no more processes, files or memory to be had
            self.why = f"its process could not be started: {reason(error)}"
        finally:
            self.kill(self.why)
            # By its transport: one that still held the number of a closed socket would, when collected as garbage,
            # make the loop deaf to the next connection that gets this number.
            if (end := self.writer or ours) is not None:
                end.close()
            if self.process is not None:
                code = await self.process.wait()
                self.why = f"{self.why} ({f'signal {-code}' if code < 0 else f'code {code}'})"
            if not self.facts.done():
                self.facts.set_exception(Refused(409, "refused", f"The model could not be loaded: {self.why}."))
                self.facts.exception()  # asked for, or nobody cares
            self.pool.ended(self)

    def load(self, change: dict[str, Any] | None = None) -> None:
        """Tell the process to load the model, now or as soon as it listens; with a change, to make it first."""
        self.wanted, self.change, self.born = True, change, time.monotonic()
        if self.writer is not None:
            niceness = max(LOADING, self.pool.settings.change_nice) if change else LOADING
            told = {"gently": self.pool.serving, "change": change, "niceness": niceness}
            self.writer.write(frame({"op": "load", **told}))

    @property
    def can_rest(self) -> bool:
        return self.holds and self.facts.done() and not self.gone and not self.batches

    def rest(self) -> None:
        """Keep what it holds, and wait to be told to load the next version."""
        if self.generation is not None:
            self.generation.workers.remove(self)
        self.generation, self.wanted, self.leaving = None, False, False
        self.facts = asyncio.get_running_loop().create_future()

    def _hear(self, head: dict[str, Any], body: bytes) -> None:
        self.beaten, self.heard = (now := time.monotonic()), True
        if head["op"] == "done":
            if head["id"] != self.batches[0].number:  # answers must never reach another request than their own
                self.why = "it answered out of turn"
                raise ValueError(self.why)
            batch = self.batches.popleft()
            seconds, self.running_since = now - self.running_since, now
            if sum(code in MODEL_FAULTS for code in head["errors"].values()) < len(head["sizes"]):
                self.forward = now
            elif not batch.items:  # no memory, or a device after a fault: whatever it is asked, it fails
                self.why = "it failed on a text of our own"
                raise ValueError(self.why)
            self.pool.batcher.done(self, batch, seconds, head, body)
        elif head["op"] == "ready":
            self.forward, self.holds = now, head["reopens"]
            self.facts.set_result(head)
        elif head["op"] == "refused":
            self.facts.set_exception((Elsewhere if head["elsewhere"] else FolderError)(head["message"]))

    def send(self, batch: Batch) -> None:
        assert self.writer is not None and self.generation is not None
        if not self.batches:
            self.running_since = time.monotonic()
        self.batches.append(batch)
        self.writer.write(frame(batch.head(self.generation.facts["probe"])))

    def silence(self, now: float) -> float:
        """For how many seconds it said nothing; one that has not begun to speak may still start."""
        return now - self.beaten if self.heard else 0.0

    def trouble(self, now: float, settings: Settings, rate: float) -> str | None:
        """Why the process should be replaced, if so."""
        if self.gone:
            return None
        loads = not self.facts.done()  # or waits to be told to
        if loads and (self.wanted or not self.heard) and now - self.born > settings.start_s:
            return "it took too long to load the model"
        if self.silence(now) > (max(settings.silent_s, QUIET_S) if loads else settings.silent_s):
            return f"it said nothing for {self.silence(now):.1f} s"
        if self.batches:
            allowed = max(settings.silent_s, SLOWER * self.batches[0].tokens / rate)
            if now - self.running_since > allowed:
                return f"a batch ran for more than {allowed:.1f} s"
        return None

    def kill(self, why: str) -> None:
        if not self.gone:
            self.gone, self.why = True, why
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)  # process.kill() could take its exit code from the watcher
