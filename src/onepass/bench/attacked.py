"""Good traffic beside those who wish a server ill.

With the attack and without it in turns, for equally long: a machine is not as fast in every minute, and a p99 before an
attack says little of one after it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from onepass.bench.attack import CONNECTIONS, SOCKETS, attack
from onepass.bench.check import Check
from onepass.bench.load import Client, Load, open_loop
from onepass.bench.served import Server

if TYPE_CHECKING:
    from onepass.bench.serve import Bench

PAUSE_S = 2.0  # until an attack is under way, and until the server has closed what one has left


class Turns:
    """0.3 C beside an attack and without it, again and again."""

    def __init__(self, bench: Bench, client: Client, turns: int, seconds: float):
        self.bench, self.client, self.turns, self.seconds = bench, client, turns, seconds
        self.alone, self.beside = Load(), Load()
        self.attacks: Counter[str] = Counter()
        """What all attacks did together; `cores` of the attackers is a mean"""

    async def run(self, kind: str, port: int, wait_s: float, **facts: Any) -> None:
        """`wait_s` is from the start of an attack to the first request that counts."""
        requests, rate = self.bench.requests(self.client), 0.3 * self.bench.capacity
        for turn in range(self.turns):
            self.alone.join(await open_loop(self.client, requests, rate, self.seconds, seed=turn))
            with attack(kind, port, **facts) as attacked:
                await asyncio.sleep(wait_s)
                self.beside.join(await open_loop(self.client, requests, rate, self.seconds, seed=self.turns + turn))
            self.attacks.update(attacked)
            await asyncio.sleep(PAUSE_S)
        self.attacks["cores"] /= self.turns  # type: ignore[assignment]

    @property
    def cost(self) -> float:
        """How many times the p99 is with the attack what it is without."""
        return self.beside.quantile(0.99) / max(self.alone.quantile(0.99), 5)

    def told(self) -> dict[str, Any]:
        facts = {
            "p99_alone_ms": round(self.alone.quantile(0.99), 1),
            "p50_alone_ms": round(self.alone.quantile(0.5), 1),
        }
        attacks = {name: round(value, 3) for name, value in self.attacks.items()}
        return {"others_p99": round(self.cost, 3), **self.beside.told(), **facts, "attack": attacks}


async def slow_sockets(bench: Bench, server: Server, client: Client) -> Check:
    """R6: sockets that send a head or a body byte by byte, or do not read the answer, do not disturb good traffic."""
    seconds = 40 if bench.long else 5
    turns = Turns(bench, client, bench.times(2, 3), seconds)
    check = Check(
        "slow", f"R6: {SOCKETS} slow sockets beside 0.3 C, {turns.turns} times for {seconds} s and as long without"
    )
    unread = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    heads = b"GET / HTTP/1.1\r\nX-Slow: ", b"POST /predict HTTP/1.1\r\nHost: a\r\n"
    starts = [*heads, client.request("x")[:-3], 20 * unread, 15 * unread]  # twenty are refused, and come again
    await turns.run("slow", server.port, PAUSE_S, starts=[start.decode("latin-1") for start in starts])
    closed = {name: value for name, value in server.counters().items() if "connections_closed_total" in name and value}
    check.found = {**turns.told(), "closed": closed}
    check.goals = {
        "all answered": turns.beside.statuses[200] == sum(turns.beside.statuses.values()),
        "p99 <= 2x": turns.cost <= 2,
    }
    return check


async def flood(bench: Bench, server: Server, client: Client) -> Check:
    """S2: requests with a wrong key take no place in the queue, and cost the others little."""
    seconds = 30 if bench.long else 5
    turns = Turns(bench, client, bench.times(2, 3), seconds)
    what = f"10 C of requests with a wrong key on {CONNECTIONS} connections beside 0.3 C"
    check = Check("flood", f"S2: {what}, {turns.turns} times for {seconds} s and as long without")
    before, wrong = server.counters(), [request.decode() for request in bench.requests(Client(server.port, "no key"))]
    await turns.run("flood", server.port, 0.0, requests=wrong, per_second=10 * bench.capacity)
    after = server.counters()
    received = 'onepass_asks_total{outcome="received"}'
    good = sum(turns.beside.statuses.values()) + sum(turns.alone.statuses.values())
    queued = after[received] - before[received] - good
    refused = (after["onepass_unauthorised_total"] - before["onepass_unauthorised_total"]) / turns.beside.seconds
    check.found = {"refused_per_s": round(refused, 1), "queued": queued, **turns.told()}
    check.goals = {
        "none queued": queued == 0,
        "no 5xx": turns.beside.faults == 0,
        "others <= +20 %": turns.cost <= 1.2,
    }
    return check
