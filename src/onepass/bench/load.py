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
    cpu_s: float = 0.0
    """Of this client, on the cores that the server needs too"""
    in_time: Counter[int] = field(default_factory=Counter)
    """Answers that came while requests were sent: those that a queue gives afterwards are no speed"""
    statuses: Counter[int] = field(default_factory=Counter)
    """0: no answer, or a connection that broke"""
    latencies: dict[int, list[float]] = field(default_factory=dict)
    """By status, in ms"""
    bodies: list[bytes] = field(default_factory=list)

    def add(self, status: int, latency_ms: float, in_time: bool = True) -> None:
        self.statuses[status] += 1
        self.in_time[status] += in_time
        self.latencies.setdefault(status, []).append(latency_ms)

    def join(self, other: Load) -> None:
        """Count another load as a part of this one."""
        self.seconds, self.cpu_s = self.seconds + other.seconds, self.cpu_s + other.cpu_s
        self.statuses.update(other.statuses)
        self.in_time.update(other.in_time)
        for status, values in other.latencies.items():
            self.latencies.setdefault(status, []).extend(values)
        self.bodies += other.bodies

    def rate(self) -> float:
        """Answers with labels a second."""
        return self.in_time[200] / self.seconds if self.seconds else 0.0

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
            "client_cores": round(self.cpu_s / self.seconds, 3) if self.seconds else 0.0,
        }


class Client:
    """Connections to one server, used again when they are idle.

    It runs on the cores that the server needs: requests are bytes made beforehand, and of an answer only the status and
    the length are read.
    """

    def __init__(self, port: int, key: str = ""):
        self.port = port
        self.key = key
        self.idle: deque[Connection] = deque()
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
            while True:
                found = self.idle.pop() if self.idle else None
                try:
                    connection = found or await self._connect()
                    answer = await connection.send(request)
                except OSError:
                    if found is None:
                        return 0, b""  # a connection that idled may have been closed; a new one not
                else:
                    if not connection.closing:
                        self.idle.append(connection)
                    return answer

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(lambda: Connection(loop), "127.0.0.1", self.port))[1]

    def close(self) -> None:
        while self.idle:
            self.idle.popleft().transport.close()


class Connection(asyncio.Protocol):
    """One connection, with one request under way at most."""

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self.loop, self.received, self.needed = loop, b"", 0
        self.future: asyncio.Future[tuple[int, bytes]] | None = None
        self.closing = False

    def send(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        self.future = self.loop.create_future()
        if self.closing:
            self.future.set_exception(ConnectionError())
        else:
            self.transport.write(request)
        return self.future

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        if self.future is not None and not self.future.done():
            self.future.set_exception(ConnectionError())

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.needed:
            end = self.received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.received[:end].lower()
            self.closing = b"\r\nconnection: close" in head
            _, _, length = head.partition(b"\r\ncontent-length: ")
            self.needed = end + 4 + int(length.partition(b"\r\n")[0] or 0)
        if len(self.received) >= self.needed and self.future is not None and not self.future.done():
            body = self.received[self.received.index(b"\r\n\r\n") + 4 : self.needed]
            status = int(self.received[9:12])
            self.received, self.needed = b"", 0
            if self.closing:
                self.transport.close()
            self.future.set_result((status, body))


async def open_loop(
    client: Client, requests: Sequence[bytes], per_second: float, seconds: float, seed: int = 0, keep: bool = False
) -> Load:
    """Send requests at random (Poisson) times, on average so many a second."""
    drawn, load, cpu = random.Random(seed), Load(seconds=seconds), time.process_time()
    start, due, under_way, number = time.perf_counter(), 0.0, set(), 0

    async def one(request: bytes, due: float) -> None:
        status, body = await client.send(request)
        now = time.perf_counter() - start
        load.add(status, 1000 * (now - due), now <= seconds)
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
    load.cpu_s = time.process_time() - cpu
    return load


async def saturate(client: Client, requests: Sequence[bytes], at_once: int, seconds: float) -> Load:
    """Ask with so many requests always under way; tells how much a server can do, not how long a user waits."""
    load, start, cpu = Load(), time.perf_counter(), time.process_time()
    numbers = iter(range(10**9))

    async def asker() -> None:
        while (begun := time.perf_counter()) < start + seconds:
            status, _ = await client.send(requests[next(numbers) % len(requests)])
            load.add(status, 1000 * (time.perf_counter() - begun))

    await asyncio.gather(*(asker() for _ in range(at_once)))
    load.seconds, load.cpu_s = time.perf_counter() - start, time.process_time() - cpu
    return load


async def until(happens: Callable[[], Any], seconds: float) -> float:
    """Seconds until something happens; infinity if it does not."""
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        if await asyncio.to_thread(happens):
            return time.perf_counter() - start
        await asyncio.sleep(0.05)
    return float("inf")
