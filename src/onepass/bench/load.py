"""An open-loop HTTP client: requests leave when they are due, whatever became of those before.

A client that waits for an answer before it asks again slows down with the server and hides what its users would feel.
Here latency counts from the time at which a request was due.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

CONNECTIONS = 1000


@dataclass
class Load:
    """What came of a load."""

    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    """0: no answer, or a connection that broke"""
    latencies: dict[int, list[float]] = field(default_factory=dict)
    """By status, in ms"""
    bodies: list[bytes] = field(default_factory=list)

    def add(self, status: int, latency_ms: float) -> None:
        self.statuses[status] += 1
        self.latencies.setdefault(status, []).append(latency_ms)

    def rate(self, status: int = 200) -> float:
        return self.statuses[status] / self.seconds if self.seconds else 0.0

    def quantile(self, share: float, status: int = 200) -> float:
        """A quantile of the latency, in ms; 0 if there was no such answer."""
        found = sorted(self.latencies.get(status, [0.0]))
        return found[min(len(found) - 1, int(share * len(found)))]

    @property
    def faults(self) -> int:
        """Answers from 500 on, and none at all."""
        return sum(count for status, count in self.statuses.items() if status == 0 or status >= 500)

    def told(self) -> dict[str, Any]:
        return {
            "statuses": dict(sorted(self.statuses.items())),
            "p50_ms": round(self.quantile(0.5), 2),
            "p99_ms": round(self.quantile(0.99), 2),
            "answered_per_s": round(self.rate(), 2),
        }


class Client:
    """Connections to one server, used again when they are idle."""

    def __init__(self, port: int, key: str = ""):
        self.port = port
        self.key = key
        self.idle: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self.limit = asyncio.Semaphore(CONNECTIONS)

    def request(self, text: Any, tasks: Sequence[str] | None = None) -> bytes:
        """The bytes of a POST /predict."""
        body = json.dumps({"inputs": text} | ({"tasks": list(tasks)} if tasks else {})).encode()
        key = f"X-API-Key: {self.key}\r\n" if self.key else ""
        head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{key}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body of an answer; status 0 if there was none."""
        async with self.limit:
            fresh = False
            while True:
                try:
                    fresh = not self.idle
                    found = self.idle.popleft() if self.idle else None
                    reader, writer = found or await asyncio.open_connection("127.0.0.1", self.port)
                    writer.write(request)
                    return await self._answer(reader, writer)
                except (OSError, asyncio.IncompleteReadError, ValueError):
                    if fresh:
                        return 0, b""  # a connection that idled may have been closed; a new one not

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes]:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if b": " in line)
        body = await reader.readexactly(int(headers.get(b"content-length", 0)))
        if headers.get(b"connection") == b"close":
            writer.close()
        else:
            self.idle.append((reader, writer))
        return int(lines[0].split()[1]), body

    def close(self) -> None:
        while self.idle:
            self.idle.popleft()[1].close()


async def open_loop(
    client: Client, requests: Sequence[bytes], per_second: float, seconds: float, seed: int = 0, keep: bool = False
) -> Load:
    """Send requests at random (Poisson) times, on average so many a second."""
    drawn, load = random.Random(seed), Load(seconds=seconds)
    start, due, under_way, number = time.perf_counter(), 0.0, set(), 0

    async def one(request: bytes, due: float) -> None:
        status, body = await client.send(request)
        load.add(status, 1000 * (time.perf_counter() - start - due))
        if keep:
            load.bodies.append(body)

    while (due := due + drawn.expovariate(per_second)) < seconds:
        await asyncio.sleep(max(0.0, start + due - time.perf_counter()))
        task = asyncio.create_task(one(requests[number % len(requests)], due))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        number += 1
    if under_way:
        await asyncio.wait(set(under_way))
    return load


async def saturate(client: Client, requests: Sequence[bytes], at_once: int, seconds: float) -> Load:
    """Ask with so many requests always under way; tells how much a server can do, not how long a user waits."""
    load, start = Load(), time.perf_counter()
    numbers = iter(range(10**9))

    async def asker() -> None:
        while (begun := time.perf_counter()) < start + seconds:
            status, _ = await client.send(requests[next(numbers) % len(requests)])
            load.add(status, 1000 * (time.perf_counter() - begun))

    await asyncio.gather(*(asker() for _ in range(at_once)))
    load.seconds = time.perf_counter() - start
    return load


async def until(happens: Callable[[], Any], seconds: float) -> float:
    """Seconds until something happens; infinity if it does not."""
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        if await asyncio.to_thread(happens):
            return time.perf_counter() - start
        await asyncio.sleep(0.05)
    return float("inf")
