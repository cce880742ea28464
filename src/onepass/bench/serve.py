"""What a server stands: its capacity, and then everything that should not bring it down.

Each check starts from the capacity C that was found on this machine in this run, so that the figures are shares of C.
The numbers R1 to R8, S3, P2 are those of the project's reliability goals. The client runs beside the server and takes
its share of the same cores; that share is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from onepass.bench import faults, hostile
from onepass.bench.changed import changes
from onepass.bench.check import Check
from onepass.bench.inside import InProcess
from onepass.bench.load import Client, open_loop, saturate
from onepass.bench.served import KEY, POOR, Server

WORDS = (
    "the council voted late on a new budget for roads schools and the harbour while people asked why it took so long",
    "team wins final after extra time doctors warn of flu season market falls as rates rise artist opens gallery",
)
ALONE = ("inside", "drain", "canaries")  # checks with servers of their own


class Bench:
    """The checks, against servers of one model folder."""

    def __init__(self, folder: Path, *, long: bool = False, threads: int = 0, rounds: int = 0, capacity: float = 0.0):
        self.folder, self.long, self.threads = folder, long, threads or os.cpu_count() or 1
        self.rounds = rounds
        """Of checks that repeat something; 0: as many as the form has"""
        self.capacity = capacity
        """C, requests of one text a second; 0: it is found first"""
        words = " ".join(WORDS).split()
        self.texts = [" ".join([str(n), *words[n % 23 : n % 23 + 6 + n % 13]]) for n in range(200)]
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
            "capacity": self.find_capacity,
            "steady": self.steady,
            "overload": self.overload,
            "disconnects": partial(faults.disconnects, self),
            "slow": partial(faults.slow_sockets, self),
            "poison": partial(faults.poison, self),
            "hostile": partial(hostile.hostile, self),
            "flood": partial(faults.flood, self),
            "budget": self.budget,
            "changes": partial(changes, self),
            "kills": partial(faults.kills, self),
        }

    def times(self, short: int, long: int) -> int:
        """How often something is repeated."""
        return self.rounds or (long if self.long else short)

    def run(self, only: list[str] | None = None) -> Iterator[Check]:
        """Run the checks, one after the other."""
        shared = {name: check for name, check in self.checks().items() if only is None or name in only}
        if not self.capacity and (shared or only is None):
            shared = {"capacity": self.find_capacity, **shared}
        with self.server() if shared else contextlib.nullcontext() as server:
            for check in shared.values():
                assert server is not None
                yield asyncio.run(self._one(check, server))
        for name, alone in (
            ("inside", self.compare),
            ("drain", partial(faults.drain, self)),
            ("canaries", partial(hostile.canaries, self)),
        ):
            if only is None or name in only:
                yield asyncio.run(alone())

    async def _one(self, check: Callable[[Server, Client], Awaitable[Check]], server: Server) -> Check:
        client = Client(server.port, KEY)
        try:
            return await check(server, client)
        finally:
            client.close()

    def requests(self, client: Client) -> list[bytes]:
        return [client.request(text) for text in self.texts]

    # --- the checks ---------------------------------------------------------------------------------------------

    async def compare(self) -> Check:
        """P2: about as fast as without HTTP, and hardly slower for one text."""
        check = Check("inside", "P2: texts a second against in-process, time added to one text")
        inside = InProcess(self.folder, self.threads)
        with self.server(**{"max-wait-s": 60}) as server:  # as many at once as it takes, and none refused
            client = Client(server.port, KEY)
            shares = {
                "short": await self.share(client, inside, self.texts, 1),
                "long": await self.share(client, inside, self.long_texts, 1),
                "long_by_8": await self.share(client, inside, self.long_texts, 8),
            }
            waits: dict[str, list[float]] = {"http": [], "inside": []}
            for text in self.texts:
                start = time.perf_counter()
                await client.send(client.request(text))
                waits["http"].append(1000 * (time.perf_counter() - start))
                waits["inside"].append(inside.one(text))
            client.close()
        inside.close()
        added = statistics.median(waits["http"]) - statistics.median(waits["inside"])
        check.found = {
            "share_of_in_process": shares,
            "added_ms": round(added, 2),
            "one_text_ms": round(statistics.median(waits["http"]), 2),
        }
        check.goals = {"share >= 0.85 (long)": shares["long"] >= 0.85, "added <= 2 ms": added <= 2}
        return check

    async def find_capacity(self, server: Server, client: Client) -> Check:
        """The ramp: more and more, until what is asked for is not answered any more."""
        check = Check("capacity", "C: requests of one short text a second")
        requests = self.requests(client)
        await saturate(client, requests, 32, 1.0)
        best = await saturate(client, requests, 64, 3.0)
        rate = 0.6 * best.rate()
        while True:
            load = await open_loop(client, requests, rate, 20.0 if self.long else 4.0)
            if load.statuses[200] < 0.97 * sum(load.statuses.values()) or load.quantile(0.99) > 1000:
                break
            self.capacity, rate = load.rate(), 1.15 * rate
        self.capacity = self.capacity or best.rate()
        check.found = {"requests_per_s": round(self.capacity, 1), "saturated_per_s": round(best.rate(), 1)}
        return check

    async def share(self, client: Client, inside: InProcess, texts: list[str], at_once: int) -> float:
        """Texts a second over HTTP, so many a request, as a share of those without it."""
        requests = [client.request(texts[n : n + at_once]) for n in range(0, len(texts), at_once)]
        ratios = []
        for _ in range(7 if self.long else 3):  # side by side in time: other programs come and go
            before = inside.throughput(texts, 1.5)
            load = await saturate(client, requests, max(8, 64 // at_once), 3.0)
            ratios.append(at_once * load.rate() / ((before + inside.throughput(texts, 1.5)) / 2))
        return round(statistics.median(ratios), 3)

    async def steady(self, server: Server, client: Client) -> Check:
        """R1: 0.7 C without a fault."""
        check = Check("steady", "R1: 0.7 C, open loop")
        await open_loop(client, self.requests(client), 0.7 * self.capacity, 2)
        before = server.memory()
        load = await open_loop(client, self.requests(client), 0.7 * self.capacity, 300 if self.long else 10)
        drift = server.memory() / before - 1
        check.found = {**load.told(), "memory_drift": round(drift, 4)}
        check.goals = {
            "no 5xx": load.faults == 0,
            "p99 <= 4 p50": load.quantile(0.99) <= 4 * load.quantile(0.5),
            "p99 <= 250 ms": load.quantile(0.99) <= 250,
            "memory <= +2 %": drift <= 0.02,
        }
        return check

    async def overload(self, server: Server, client: Client) -> Check:
        """R2: 3 C: as much as ever is answered, the rest is refused quickly."""
        check = Check("overload", "R2: 3 C, open loop")
        memory, start = server.memory(), server.asked()
        load = await open_loop(client, self.requests(client), 3 * self.capacity, 120 if self.long else 8)
        asked = {name: value - start[name] for name, value in server.asked().items()}
        await asyncio.sleep(5)
        after = await open_loop(client, self.requests(client), 0.5 * self.capacity, 3)
        goodput = load.rate() / self.capacity
        check.found = {
            **load.told(),
            "goodput_of_c": round(goodput, 3),
            "refused_p99_ms": round(load.quantile(0.99, 429), 1),
            "asked": asked,
            "memory_mb": round(server.memory() - memory, 1),
            "p99_after_ms": round(after.quantile(0.99), 1),
        }
        check.goals = {
            "goodput >= 0.9 C": goodput >= 0.9,
            "429 within 50 ms": load.quantile(0.99, 429) <= 50,
            "no 5xx": load.faults == 0,
            "counters add up": asked["received"] == sum(asked.values()) - asked["received"],
            "memory <= +64 MB": server.memory() - memory <= 64,
        }
        return check

    async def budget(self, server: Server, client: Client) -> Check:
        """S3: a key that asks ten times its budget gets its budget, and costs the others little."""
        check = Check("budget", "S3: a key of 200 tokens a second asks for 10 times as much")
        seconds = 60 if self.long else 8
        text = self.texts[0]
        tokens = json.loads((await client.send(client.request(text)))[1])["results"][0]["tokens"]
        alone = await open_loop(client, self.requests(client), 0.3 * self.capacity, seconds)
        poor = Client(server.port, POOR)
        greedy, others = await asyncio.gather(
            open_loop(poor, [poor.request(text)], 2000 / tokens, seconds, seed=1),
            open_loop(client, self.requests(client), 0.3 * self.capacity, seconds),
        )
        poor.close()
        used = (greedy.statuses[200] * tokens - 200) / seconds  # a second's worth may be used at once, at first
        cost = others.quantile(0.99) / alone.quantile(0.99)
        check.found = {"tokens_per_s": round(used, 1), "others_p99": round(cost, 3), **others.told()}
        check.goals = {"budget +-5 %": abs(used / 200 - 1) <= 0.05, "others <= +20 %": cost <= 1.2}
        return check
