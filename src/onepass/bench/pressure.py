"""A server under load: how much it can do, and what it does with less, with more, and with one who asks too much."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from onepass.bench.check import Check
from onepass.bench.load import Client, Load, open_loop, saturate
from onepass.bench.served import POOR, Server

if TYPE_CHECKING:
    from onepass.bench.serve import Bench

BUDGET = 200  # tokens a second of the poor key


async def find_capacity(bench: Bench, server: Server, client: Client) -> Check:
    """C: more and more is asked for until no more is answered; then what is answered while half as much again is asked.

    It counts what is answered while requests are sent, not what a queue still gives afterwards.
    """
    check = Check("capacity", "C: requests of one short text a second, answered while more are asked for")
    requests, seconds = bench.requests(client), 15.0 if bench.long else 4.0
    await warm_up(bench, client)
    closed = await saturate(client, requests, 64, 3.0)
    rate, steps = 0.7 * closed.rate(), []
    while True:
        load = await open_loop(client, requests, rate, seconds)
        steps.append([round(rate), round(load.rate()), round(load.quantile(0.99))])
        if load.rate() < 0.9 * rate:
            break
        rate *= 1.2
    bench.capacity = load.rate()
    bench.capacity = await hold(bench, client, seconds)
    check.found = {
        "requests_per_s": round(bench.capacity, 1),
        "ramp (asked, answered, p99 ms)": steps,
        "64 always under way": round(closed.rate(), 1),
    }
    return check


async def warm_up(bench: Bench, client: Client) -> None:
    """Ask much for some seconds: the runtime prepares itself for every new shape of a batch."""
    await saturate(client, bench.requests(client), 64, 3.0)
    await open_loop(client, bench.requests(client), 0.3 * bench.capacity or 50.0, 2.0)


async def hold(bench: Bench, client: Client, seconds: float = 5.0) -> float:
    """What is answered a second while half as much again as the last such figure is asked for."""
    return (await open_loop(client, bench.requests(client), 1.5 * bench.capacity, seconds)).rate()


async def steady(bench: Bench, server: Server, client: Client) -> Check:
    """R1: 0.7 C without a fault."""
    seconds = 300 if bench.long else 10
    check = Check("steady", f"R1: 0.7 C for {seconds} s, open loop")
    await open_loop(client, bench.requests(client), 0.7 * bench.capacity, 2)
    before = server.memory()
    load = await open_loop(client, bench.requests(client), 0.7 * bench.capacity, seconds)
    drift = server.memory() / before - 1
    check.found = {**load.told(), "memory_drift": round(drift, 4)}
    check.goals = {
        "no 5xx": load.faults == 0,
        "p99 <= 4 p50": load.quantile(0.99) <= 4 * load.quantile(0.5),
        "p99 <= 250 ms": load.quantile(0.99) <= 250,
        "memory <= +2 %": drift <= 0.02,
    }
    return check


async def overload(bench: Bench, server: Server, client: Client) -> Check:
    """R2: 3 C: as much as ever is answered, the rest is refused quickly."""
    seconds = 120 if bench.long else 8
    check = Check("overload", f"R2: 3 C for {seconds} s, open loop")
    memory, start = server.memory(), server.asked()
    load = await open_loop(client, bench.requests(client), 3 * bench.capacity, seconds)
    asked = {name: value - start[name] for name, value in server.asked().items()}
    grown = server.memory() - memory
    await asyncio.sleep(3)
    after = await open_loop(client, bench.requests(client), 0.5 * bench.capacity, 3)
    again = await hold(bench, client)
    goodput = load.rate() / ((bench.capacity + again) / 2)
    check.found = {
        **load.told(),
        "goodput_of_c": round(goodput, 3),
        "c_afterwards": round(again, 1),
        "refused_p99_ms": round(load.quantile(0.99, 429), 1),
        "asked": asked,
        "memory_mb": round(grown, 1),
        "p99_after_ms": round(after.quantile(0.99), 1),
    }
    check.goals = {
        "goodput >= 0.9 C": goodput >= 0.9,
        "429 within 50 ms": load.quantile(0.99, 429) <= 50,
        "no 5xx": load.faults == 0,
        "counters add up": asked["received"] == sum(asked.values()) - asked["received"],
        "memory <= +64 MB": grown <= 64,
    }
    return check


async def budget(bench: Bench, server: Server, client: Client) -> Check:
    """S3: a key that asks ten times its budget gets its budget, and costs the others little more than within it."""
    check = Check("budget", f"S3: a key of {BUDGET} tokens a second asks for 10 times as much, beside 0.3 C")
    turns, seconds = (6, 10.0) if bench.long else (2, 5.0)
    text, rate, requests = bench.texts[0], 0.3 * bench.capacity, bench.requests(client)
    tokens = json.loads((await client.send(client.request(text)))[1])["results"][0]["tokens"]
    alone, within, beyond, greedy = Load(), Load(), Load(), Load()
    poor = Client(server.port, POOR)

    async def beside(tokens_per_s: float, turn: int) -> tuple[Load, Load]:
        return await asyncio.gather(
            open_loop(poor, [poor.request(text)], tokens_per_s / tokens, seconds, seed=turns + turn),
            open_loop(client, requests, rate, seconds, seed=turn),
        )

    for turn in range(turns):  # side by side in time: a machine is not as fast in every minute
        alone.join(await open_loop(client, requests, rate, seconds, seed=turn))
        within.join((await beside(0.9 * BUDGET, turn))[1])
        asked, others = await beside(10 * BUDGET, turn)
        greedy.join(asked)
        beyond.join(others)
    poor.close()
    # What was left of a second's worth may be used at once, at the start of each turn.
    used = (greedy.statuses[200] * tokens - turns * BUDGET) / greedy.seconds
    cost = beyond.quantile(0.99) / within.quantile(0.99)
    check.found = {
        "tokens_per_s": round(used, 1),
        "others_p99": round(cost, 3),
        "others_p50": round(beyond.quantile(0.5) / within.quantile(0.5), 3),
        "p99_within_ms": round(within.quantile(0.99), 1),
        "p99_alone_ms": round(alone.quantile(0.99), 1),
        **beyond.told(),
    }
    check.goals = {"budget +-5 %": abs(used / BUDGET - 1) <= 0.05, "others <= +20 %": cost <= 1.2}
    return check
