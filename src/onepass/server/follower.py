"""Takes over what somebody puts into the model folder while it is served; what is refused is tried ever more rarely."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from onepass.errors import OnepassError
from onepass.server.folder import revision_of
from onepass.server.replies import Refused

if TYPE_CHECKING:
    from onepass.server.pool import Pool

log = logging.getLogger(__name__)
MOMENT = 3  # looks at the folder, a second apart


class Follower:
    """Looks at the folder of a pool, and lets the pool load it when it is another version."""

    def __init__(self, pool: Pool):
        self.pool = pool
        self.hold = False
        """Whether the folder is left alone for now: somebody is changing it, and will say when it is done"""
        self._seen, self._tries, self._next_try = "", 0, 0.0
        self._unread = 0
        """How often in a row the folder could not be read"""

    def look(self) -> None:
        try:
            revision = revision_of(self.pool.folder)
        except OnepassError as error:  # away for a moment, or for good: what is loaded serves on
            self._unread += 1
            if self._unread == MOMENT:
                log.warning("what is loaded serves on, but no worker could be replaced: %s", error)
            return
        self._unread = 0
        if self.pool.current is None or revision == self.pool.current.revision:
            if self._tries and not self.pool.replacing:  # what was refused is gone
                self.pool.refused, self._tries = None, 0
            self._seen = revision
        elif not self.hold and not self.pool.replacing and time.monotonic() >= self._next_try:
            self._tries = self._tries + 1 if revision == self._seen else 1
            self._seen, self._next_try = revision, time.monotonic() + min(60.0, 2.0**self._tries)
            self.pool.spawn(self.take_over(revision))

    async def take_over(self, revision: str) -> None:
        try:
            await self.pool.replace()
        except (OnepassError, Refused, OSError) as error:
            log.error("revision %s of the model folder was refused, the old one serves on: %s", revision, error)
