"""A server's parts, and how a request for labels goes through them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request

from onepass.server.batcher import MESSAGES, Ask, Batcher
from onepass.server.body import Left, deadline_of, read_json, strings
from onepass.server.changes import Changes
from onepass.server.child import Generation
from onepass.server.keys import ANYONE, Key, Keyring
from onepass.server.metrics import Metrics
from onepass.server.pool import Pool
from onepass.server.replies import Refused
from onepass.server.settings import Settings

FEW_CHARACTERS = 4000  # cut into tokens at once; more in a thread, while other requests go on


@dataclass(frozen=True)
class Answered:
    """A request's answers, and the version that gave them."""

    ask: Ask
    generation: Generation

    @property
    def tokens(self) -> int:
        return sum(self.ask.sizes)

    def fault(self, place: int) -> Refused | None:
        code = self.ask.errors.get(place)
        return None if code is None else Refused(MESSAGES[code][0], code, MESSAGES[code][1])


class Service:
    """Everything a server holds; made inside the running event loop."""

    def __init__(self, folder: Path, settings: Settings, keys: Keyring, admin_keys: Keyring):
        self.folder, self.settings, self.keys, self.admin_keys = folder, settings, keys, admin_keys
        # As it was given: where a link leads to may change, and who asks by this name goes on asking.
        self.name = Path(os.path.abspath(folder)).name
        self.metrics = Metrics()
        self.batcher = Batcher(settings, self.metrics)
        self.pool = Pool(folder, settings, self.batcher)
        self.changes = Changes(folder, self.pool)
        if admin_keys:
            self.pool.adopted = self.changes.remember
        self.metrics.watch(self.batcher, self.pool)
        self.started = time.time()

    def generation(self) -> Generation:
        """The version that serves now."""
        if self.pool.current is None:
            raise Refused(503, "loading", "The model is being loaded.", retry_s=2)
        return self.pool.current

    def key(self, headers: Mapping[str, str]) -> Key:
        """Who asks; raises if it is nobody we know."""
        if not self.keys:
            return ANYONE
        if (key := self.keys.find(headers) or self.admin_keys.find(headers)) is None:
            self.metrics.refused_keys.inc()
            raise Refused(401, "unauthorised", "Send a key: Authorization: Bearer KEY, or X-API-Key: KEY.")
        return key

    async def read(self, request: Request, allowed: Collection[str] | None = None) -> tuple[Key, dict[str, Any]]:
        """Who asks for labels, and the body; raises before it is read if the answer would be to try again later."""
        key = self._admit(request.headers)
        key.under_way += 1  # a body that comes slowly takes memory as long as it does
        try:
            return key, await read_json(request, self.settings.max_body_bytes, allowed)
        finally:
            key.under_way -= 1

    def _admit(self, headers: Mapping[str, str]) -> Key:
        key = self.key(headers)
        try:
            self._check_under_way(key, key.under_way + 1)
            self.batcher.check_room()
            key.check_budget()
        except Refused:
            self.metrics.count_ask("received")
            self.metrics.count_ask("rejected")
            raise
        return key

    async def ask(self, request: Request, key: Key, texts: Sequence[Any], tasks: Sequence[str] | None) -> Answered:
        """Labels for texts; waits in the queue, and gives up when the client leaves or the time is over."""
        outcome = "failed"
        self.metrics.count_ask("received")
        key.under_way += 1
        try:
            answered = await self._ask(request, key, texts, tasks)
            errors = answered.ask.errors
            self.metrics.count_errors(errors.values())
            outcome = "answered" if len(errors) < len(texts) else "failed"
            return answered
        except Refused as refused:
            outcome = {429: "rejected", 504: "expired"}.get(refused.status, "failed")
            raise
        except (Left, asyncio.CancelledError):
            outcome = "left"
            raise
        finally:
            key.under_way -= 1
            self.metrics.count_ask(outcome)

    def _check_under_way(self, key: Key, count: int) -> None:
        if key is not ANYONE and count > self.settings.max_requests_per_key:
            raise Refused(429, "too_many_requests", "Too many requests of this key are under way.", retry_s=1)

    async def _ask(self, request: Request, key: Key, texts: Sequence[Any], tasks: Sequence[str] | None) -> Answered:
        seconds = deadline_of(request.headers, self.settings.deadline_s)
        arrived = time.monotonic()
        self._check_under_way(key, key.under_way)
        generation = self.generation()
        sizes = await self._measure(texts, tasks, generation)
        key.charge(sum(sizes))
        ask = Ask(texts, tasks, sizes, deadline=arrived + seconds)
        self.batcher.submit(ask)
        loop = asyncio.get_running_loop()
        # After the body nothing comes but the news that the client left.
        gone: asyncio.Task[Any] = loop.create_task(request.receive())  # type: ignore[arg-type]
        gone.add_done_callback(lambda _: ask.end(Left()))
        late = Refused(504, "deadline", f"There was no answer within {seconds:g} s.")
        timer = loop.call_later(ask.deadline - time.monotonic(), ask.end, late)
        try:
            await ask.future
        finally:
            timer.cancel()
            gone.cancel()
            self.batcher.cancel(ask)
        assert ask.generation is not None  # it has answered
        return Answered(ask, ask.generation)

    async def _measure(self, texts: Sequence[Any], tasks: Sequence[str] | None, generation: Generation) -> list[int]:
        """The tokens of each input."""
        measured = partial(generation.reader.measured, texts, tasks, self.settings.max_texts)
        # How much rows are, with all of their candidates, is known only then.
        few = not any(isinstance(text, dict) for text in texts)
        few = few and sum(len(part) for text in texts for part in strings(text)) <= FEW_CHARACTERS
        return measured() if few else await asyncio.to_thread(measured)

    async def close(self) -> None:
        self.changes.close()
        await self.pool.close()
