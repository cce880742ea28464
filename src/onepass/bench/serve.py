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
import signal
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from onepass.bench.inside import InProcess
from onepass.bench.load import Client, Load, open_loop, saturate, until
from onepass.bench.served import KEY, POOR, Server

WORDS = (
    "the council voted late on a new budget for roads schools and the harbour while people asked why it took so long",
    "team wins final after extra time doctors warn of flu season market falls as rates rise artist opens gallery",
)
ALONE = ("inside", "drain")  # checks with servers of their own
JSON = "application/json"


@dataclass
class Check:
    """One thing a server should stand: what was found, and whether that is enough."""

    name: str
    what: str
    found: dict[str, Any] = field(default_factory=dict)
    goals: dict[str, bool] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return all(self.goals.values())

    def told(self) -> dict[str, Any]:
        return {"name": self.name, "what": self.what, "met": self.met, "goals": self.goals, "found": self.found}


class Bench:
    """The checks, against servers of one model folder."""

    def __init__(self, folder: Path, *, long: bool = False, threads: int = 0):
        self.folder, self.long, self.threads = folder, long, threads or os.cpu_count() or 1
        self.capacity = 0.0
        """C, requests of one text a second"""
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
            "disconnects": self.disconnects,
            "slow": self.slow_sockets,
            "poison": self.poison,
            "budget": self.budget,
            "changes": self.changes,
            "kills": self.kills,
        }

    def run(self, only: list[str] | None = None) -> Iterator[Check]:
        """Run the checks, one after the other."""
        with self.server() as server:
            for name, check in self.checks().items():
                if only is None or name in only or name == "capacity":
                    yield asyncio.run(self._one(check, server))
        for name, alone in (("inside", self.compare), ("drain", self.drain)):
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

    async def disconnects(self, server: Server, client: Client) -> Check:
        """R5: what nobody waits for is not computed."""
        count = 1000 if self.long else 200
        check = Check("disconnects", f"R5: {count} clients leave while they wait")
        files = psutil.Process(server.process.pid).num_fds()
        worker, computed = server.worker(), server.counters()["onepass_texts_computed_total"]
        for _ in range(count // 100):
            worker.suspend()  # for less time than makes it count as hung
            for number in range(100):
                with socket.create_connection(("127.0.0.1", server.port)) as connection:
                    connection.sendall(client.request(self.texts[number]))
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await asyncio.sleep(0.3)
            worker.resume()
            await until(lambda: server.counters()["onepass_queue_texts"] == 0, 30)
        await asyncio.sleep(0.5)
        spared = 1 - (server.counters()["onepass_texts_computed_total"] - computed) / count
        left = await until(lambda: psutil.Process(server.process.pid).num_fds() <= files + 10, 10)
        check.found = {"not_computed": round(spared, 4), "files_back_after_s": round(left, 2)}
        check.goals = {">= 95 % not computed": spared >= 0.95, "files back": left < 10}
        return check

    async def slow_sockets(self, server: Server, client: Client) -> Check:
        """R6: slow sockets do not disturb good traffic."""
        check = Check("slow", "R6: 500 slow sockets beside 0.3 C")
        seconds = 120 if self.long else 8
        alone = await open_loop(client, self.requests(client), 0.3 * self.capacity, 4)
        starts = [b"GET / HTTP/1.1\r\nX-Slow: ", client.request("x")[:-3], b"POST /predict HTTP/1.1\r\nHost: a\r\n"]
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(500)]
        for number, connection in enumerate(slow):
            connection.setblocking(False)
            connection.send(starts[number % len(starts)])

        async def trickle() -> None:
            while True:
                for connection in slow:
                    with contextlib.suppress(OSError):
                        connection.send(b"x")
                await asyncio.sleep(1)

        dripping = asyncio.create_task(trickle())
        load = await open_loop(client, self.requests(client), 0.3 * self.capacity, seconds)
        dripping.cancel()
        for connection in slow:
            connection.close()
        check.found = {**load.told(), "p99_alone_ms": round(alone.quantile(0.99), 1)}
        check.goals = {
            "all answered": load.statuses[200] == sum(load.statuses.values()),
            "p99 <= 2x": load.quantile(0.99) <= 2 * max(alone.quantile(0.99), 5),
        }
        return check

    async def poison(self, server: Server, client: Client) -> Check:
        """R7: a text that breaks the model does not break its neighbours."""
        rounds = 100 if self.long else 10
        check = Check("poison", f"R7: {rounds} batches of 8 with one bad text")
        good = bad = 0
        for number in range(rounds):
            fault = ("fault:raise", "fault:nan")[number % 2]
            answers = await asyncio.gather(*(client.send(client.request(text)) for text in [*self.texts[:7], fault]))
            good += sum(status == 200 for status, _ in answers[:7])
            bad += answers[7][0] == 500
        check.found = {"neighbours_answered": good, "bad_told": bad}
        check.goals = {"all neighbours": good == 7 * rounds, "all bad ones told": bad == rounds}
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

    async def changes(self, server: Server, client: Client) -> Check:
        """R8: tasks come and go under load; every answer is of one version; a broken one never serves."""
        rounds = 100 if self.long else 2
        check = Check("changes", f"R8: {2 * rounds} changes under 0.5 C")
        tasks = json.loads(server.call("GET", "/tasks")[1])["tasks"]
        archive = server.call("GET", f"/tasks/{tasks[0]['name']}/archive")[1]
        over, memory = asyncio.Event(), server.memory()
        loads: list[Load] = []
        alone = await open_loop(client, self.requests(client), 0.5 * self.capacity, 5)

        async def keep_asking() -> None:
            while not over.is_set():
                loads.append(await open_loop(client, self.requests(client), 0.5 * self.capacity, 2, keep=True))

        asking = asyncio.create_task(keep_asking())
        done = refused = 0
        versions: dict[str, set[str]] = {}
        weights = server.folder / "tasks" / tasks[0]["name"] / "weights.safetensors"
        for _ in range(rounds):
            status, _ = await asyncio.to_thread(server.call, "PUT", "/tasks/benched", archive, "application/zip")
            done += status == 200
            status, _ = await asyncio.to_thread(server.call, "DELETE", "/tasks/benched")
            done += status == 200
            data = weights.read_bytes()
            weights.unlink()
            weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            status, _ = await asyncio.to_thread(server.call, "PUT", "/tasks/benched", archive, "application/zip")
            refused += status == 409
            weights.unlink()
            weights.write_bytes(data)
        over.set()
        await asking
        total: Load = Load(seconds=sum(load.seconds for load in loads))
        for load in loads:
            total.statuses.update(load.statuses)
            for status, values in load.latencies.items():
                total.latencies.setdefault(status, []).extend(values)
            for body in load.bodies:
                answer = json.loads(body) if body.startswith(b"{") else {}
                for result in answer.get("results", []):
                    versions.setdefault(answer["revision"], set()).add(",".join(sorted(result.get("tasks", {}))))
        mixed = sum(len(sets) > 1 for sets in versions.values())
        check.found = {
            **total.told(),
            "changes": done,
            "damaged_refused": refused,
            "versions_seen": len(versions),
            "mixed": mixed,
            "p99_alone_ms": round(alone.quantile(0.99), 1),
            "memory_mb": round(server.memory() - memory, 1),
        }
        check.goals = {
            "all changes made": done == 2 * rounds,
            "damaged refused": refused == rounds,
            "no request failed": total.statuses[200] == sum(total.statuses.values()),
            "no mixed answer": mixed == 0,
            "p99 <= 2x": total.quantile(0.99) <= 2 * alone.quantile(0.99),
        }
        return check

    async def kills(self, server: Server, client: Client) -> Check:
        """R3: killed and stopped workers are replaced, and the health check says so meanwhile."""
        rounds = 50 if self.long else 4
        check = Check("kills", f"R3: {rounds} workers killed or stopped under 0.5 C")
        told, back, faults, unanswered = [], [], 0, 0
        for number in range(rounds):
            await until(server.ready, 60)
            await asyncio.sleep(1)
            asking = asyncio.create_task(open_loop(client, self.requests(client), 0.5 * self.capacity, 4, seed=number))
            await asyncio.sleep(0.5)
            server.worker().send_signal((signal.SIGKILL, signal.SIGSTOP)[number % 2])
            start = time.perf_counter()
            told.append(await until(lambda: not server.ready(), 10))
            await until(server.ready, 60)
            back.append(time.perf_counter() - start)
            load = await asking
            faults, unanswered = faults + load.faults, unanswered + load.statuses[0]
        check.found = {
            "told_after_s": round(max(told), 2),
            "back_after_s": round(max(back), 2),
            "back_median_s": round(statistics.median(back), 2),
            "5xx": faults,
            "unanswered": unanswered,
        }
        check.goals = {
            "told <= 2 s": max(told) <= 2,
            "back <= 10 s": max(back) <= 10,
            "no hung socket": unanswered == 0,
        }
        return check

    async def drain(self) -> Check:
        """R4: SIGTERM with 100 requests under way loses none."""
        rounds = 20 if self.long else 1
        check = Check("drain", f"R4: SIGTERM with 100 under way, {rounds} times")
        answered, codes, seconds = 0, [], []
        for _ in range(rounds):
            with self.server() as server:
                client = Client(server.port, KEY)
                before = server.asked()["received"]
                asked = [asyncio.create_task(client.send(client.request(["fault:slow"]))) for _ in range(100)]
                wanted = before + 100
                await until(lambda: server.asked()["received"] >= wanted, 20)  # noqa: B023  waited for in this round
                start = time.perf_counter()
                server.process.send_signal(signal.SIGTERM)
                answered += sum(status == 200 for status, _ in await asyncio.gather(*asked))
                codes.append(await asyncio.to_thread(server.process.wait, 60))
                seconds.append(time.perf_counter() - start)
                client.close()
        check.found = {
            "answered": answered,
            "of": 100 * rounds,
            "codes": sorted(set(codes)),
            "s": round(max(seconds), 2),
        }
        check.goals = {
            "none lost": answered == 100 * rounds,
            "exit 0": set(codes) == {0},
            "<= 30 s": max(seconds) <= 30,
        }
        return check
