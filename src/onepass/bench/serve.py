"""What a server stands: its capacity, and then everything that should not bring it down.

Each check starts from the capacity C that was found on this machine in this run, so that the figures are shares of C.
The numbers R1 to R8, S3, P2 are those of the project's reliability goals. The client runs beside the server and takes
its share of the same cores; that share is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from onepass.bench import attacked, faults, hostile, pressure
from onepass.bench.changed import changes
from onepass.bench.check import Check
from onepass.bench.load import Client
from onepass.bench.overhead import compare
from onepass.bench.served import KEY, Server
from onepass.contents import read_config
from onepass.server.priority import settle

WORDS = (
    "the council voted late on a new budget for roads schools and the harbour while people asked why it took so long",
    "team wins final after extra time doctors warn of flu season market falls as rates rise artist opens gallery",
)
LOADS = ("steady", "overload", "slow", "flood", "budget", "changes")
"""Checks before which C is measured again: a machine is not as fast in every minute"""
ALONE = ("inside", "drain", "canaries")  # checks with servers of their own


class Bench:
    """The checks, against servers of one model folder."""

    def __init__(self, folder: Path, *, long: bool = False, threads: int = 0, rounds: int = 0, capacity: float = 0.0):
        read_config(folder)  # says so if this is no model folder at all; servers run on copies
        self.folder, self.long, self.threads = folder, long, threads or os.cpu_count() or 1
        self.rounds = rounds
        """Of checks that repeat something; 0: as many as the form has"""
        self.capacity, self.given = capacity, bool(capacity)
        """C, requests of one text a second; 0: it is found first"""
        words = " ".join(WORDS).split()
        self.texts = [" ".join([str(n), *words[n % 23 : n % 23 + 6 + n % 13]]) for n in range(4000)]
        """Short texts, all different: the same text twice in a batch may be computed once"""
        self.long_texts = [" ".join([str(n), *words * 4][:140]) for n in range(200)]
        """As long as the model reads"""

    @contextlib.contextmanager
    def server(self, **options: Any) -> Iterator[Server]:
        with tempfile.TemporaryDirectory(prefix="onepass-bench-") as place:
            started = Server(self.folder, Path(place), self.threads, **options)
            try:
                yield started.wait()
            finally:
                started.stop()

    def checks(self) -> dict[str, Callable[[Server, Client], Awaitable[Check]]]:
        """Those that share a server, in order; capacity comes first, whichever are chosen."""
        return {
            "capacity": partial(pressure.find_capacity, self),
            "steady": partial(pressure.steady, self),
            "overload": partial(pressure.overload, self),
            "disconnects": partial(faults.disconnects, self),
            "slow": partial(attacked.slow_sockets, self),
            "poison": partial(faults.poison, self),
            "hostile": partial(hostile.hostile, self),
            "flood": partial(attacked.flood, self),
            "budget": partial(pressure.budget, self),
            "changes": partial(changes, self),
            "kills": partial(faults.kills, self),
        }

    def times(self, short: int, long: int) -> int:
        """How often something is repeated."""
        return self.rounds or (long if self.long else short)

    def run(self, only: list[str] | None = None) -> Iterator[Check]:
        """Run the checks, one after the other."""
        settle()  # what holds the client up would count as the server's
        shared = {name: check for name, check in self.checks().items() if only is None or name in only}
        if not self.capacity and (shared or only is None):
            shared = {"capacity": partial(pressure.find_capacity, self), **shared}
        with self.server() if shared else contextlib.nullcontext() as server:
            if server is not None and self.given:
                asyncio.run(self._warm_up(server))
            for name, check in shared.items():
                assert server is not None
                yield asyncio.run(self._one(check, server, again=name in LOADS and not self.given))
        for name, alone in (
            ("inside", partial(compare, self)),
            ("drain", partial(faults.drain, self)),
            ("canaries", partial(hostile.canaries, self)),
        ):
            if only is None or name in only:
                yield asyncio.run(alone())

    async def _warm_up(self, server: Server) -> None:
        client = Client(server.port, KEY)
        await pressure.warm_up(self, client)
        client.close()

    async def _one(
        self, check: Callable[[Server, Client], Awaitable[Check]], server: Server, again: bool = False
    ) -> Check:
        client = Client(server.port, KEY)
        try:
            if again:
                self.capacity = await pressure.hold(self, client)
            found = await check(server, client)
            found.found["c"] = round(self.capacity, 1)
            return found
        finally:
            client.close()

    def requests(self, client: Client) -> list[bytes]:
        return [client.request(text) for text in self.texts]
