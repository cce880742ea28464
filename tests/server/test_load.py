"""The open-loop client, against a server."""

import asyncio
from typing import Any

import pytest

from onepass.bench.load import Client, Load, open_loop, saturate


def test_latency_counts_from_when_a_request_was_due(server: Any) -> None:
    async def measure() -> tuple[Load, Load]:
        client = Client(server.port)
        slow = asyncio.create_task(client.send(client.request("fault:slow")))
        load = await open_loop(client, [client.request("goal"), client.request("vote", ["topic"])], 100, 0.5, keep=True)
        await slow
        more = await saturate(client, [client.request("goal")], 4, 0.2)
        client.close()
        return load, more

    load, more = asyncio.run(measure())
    assert set(load.statuses) == set(more.statuses) == {200} and len(load.bodies) == load.statuses[200] > 20
    assert load.faults == 0 and 0 < load.quantile(0.5) <= load.quantile(0.99) < 10_000
    assert more.rate() == pytest.approx(more.statuses[200] / more.seconds)


def test_no_answer_is_a_fault() -> None:
    async def measure() -> Load:
        client = Client(1)  # nobody listens there
        return await open_loop(client, [client.request("goal")], 100, 0.1)

    load = asyncio.run(measure())
    assert load.faults == sum(load.statuses.values()) > 0


def test_answers_that_a_queue_gives_afterwards_are_no_speed() -> None:
    load, more = Load(seconds=2.0), Load(seconds=2.0)
    for in_time in (True, True, False):
        load.add(200, 5.0, in_time)
    more.add(429, 1.0)
    load.join(more)
    assert load.rate() == 0.5 and load.statuses == {200: 3, 429: 1} and load.quantile(0.5, 429) == 1.0
