"""What breaks or burdens a server on purpose: clients that leave or dawdle, bad texts, workers that end, SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import statistics
import struct
import time
from typing import TYPE_CHECKING

import psutil

from onepass.bench.check import Check
from onepass.bench.load import Client, Load, open_loop, until
from onepass.bench.served import KEY, Server

if TYPE_CHECKING:
    from onepass.bench.serve import Bench

PATIENCE_S = 45.0  # longer than the deadline of a request: a socket without an answer after that hangs


async def disconnects(bench: Bench, server: Server, client: Client) -> Check:
    """R5: what nobody waits for is not computed."""
    count = bench.times(2, 10) * 100
    check = Check("disconnects", f"R5: {count} clients leave while they wait")
    files = psutil.Process(server.process.pid).num_fds()
    worker, computed = server.worker(), server.counters()["onepass_texts_computed_total"]
    for _ in range(count // 100):
        worker.suspend()  # for less time than makes it count as hung
        for number in range(100):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(client.request(bench.texts[number]))
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


async def slow_sockets(bench: Bench, server: Server, client: Client) -> Check:
    """R6: slow sockets do not disturb good traffic."""
    check = Check("slow", "R6: 500 slow sockets beside 0.3 C")
    seconds = 120 if bench.long else 8
    alone = await open_loop(client, bench.requests(client), 0.3 * bench.capacity, 4)
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
    load = await open_loop(client, bench.requests(client), 0.3 * bench.capacity, seconds)
    dripping.cancel()
    for connection in slow:
        connection.close()
    check.found = {**load.told(), "p99_alone_ms": round(alone.quantile(0.99), 1)}
    check.goals = {
        "all answered": load.statuses[200] == sum(load.statuses.values()),
        "p99 <= 2x": load.quantile(0.99) <= 2 * max(alone.quantile(0.99), 5),
    }
    return check


async def poison(bench: Bench, server: Server, client: Client) -> Check:
    """R7: a text that breaks the model does not break its neighbours."""
    rounds = bench.times(10, 100)
    check = Check("poison", f"R7: {rounds} batches of 8 with one bad text")
    good = bad = 0
    for number in range(rounds):
        fault = ("fault:raise", "fault:nan")[number % 2]
        answers = await asyncio.gather(*(client.send(client.request(text)) for text in [*bench.texts[:7], fault]))
        good += sum(status == 200 for status, _ in answers[:7])
        bad += answers[7][0] == 500
    check.found = {"neighbours_answered": good, "bad_told": bad}
    check.goals = {"all neighbours": good == 7 * rounds, "all bad ones told": bad == rounds}
    return check


async def kills(bench: Bench, server: Server, client: Client) -> Check:
    """R3: killed and stopped workers are replaced, and the health check says so meanwhile."""
    rounds = bench.times(2, 50)
    check = Check("kills", f"R3: {rounds} workers killed and {rounds} stopped, in turn, under 0.5 C")
    told: dict[str, list[float]] = {"SIGKILL": [], "SIGSTOP": []}
    back: dict[str, list[float]] = {"SIGKILL": [], "SIGSTOP": []}
    answers, hung, lying = Load(), 0, 0
    for number in range(2 * rounds):
        name = ("SIGKILL", "SIGSTOP")[number % 2]
        await until(server.ready, 60)
        await asyncio.sleep(1)
        asking = asyncio.create_task(open_loop(client, bench.requests(client), 0.5 * bench.capacity, 4, seed=number))
        await asyncio.sleep(0.5)
        server.worker().send_signal(signal.Signals[name])
        start = time.perf_counter()
        told[name].append(await until(lambda: not server.ready(), 10))
        await until(server.ready, 60)
        back[name].append(time.perf_counter() - start)
        lying += (await client.send(client.request("is it true?")))[0] != 200  # ready, and yet it does not answer
        _, pending = await asyncio.wait({asking}, timeout=PATIENCE_S)
        if pending:
            hung += 1
            asking.cancel()
        else:
            answers.statuses.update(asking.result().statuses)
    check.found = {
        "told_after_s": {name: round(max(found), 2) for name, found in told.items()},
        "back_after_s": {name: round(max(found), 2) for name, found in back.items()},
        "back_median_s": {name: round(statistics.median(found), 2) for name, found in back.items()},
        "recovered": {
            name: sum(t <= 2 and b <= 10 for t, b in zip(told[name], back[name], strict=True)) for name in told
        },
        "statuses": dict(sorted(answers.statuses.items())),
        "hung": hung,
        "ready_without_an_answer": lying,
    }
    check.goals = {
        "told <= 2 s": all(max(found) <= 2 for found in told.values()),
        "back <= 10 s": all(max(found) <= 10 for found in back.values()),
        "no hung or broken socket": hung == 0 and answers.statuses[0] == 0,
        "no lie": lying == 0,
    }
    return check


async def drain(bench: Bench) -> Check:
    """R4: SIGTERM with 100 requests under way loses none."""
    rounds = bench.times(1, 20)
    check = Check("drain", f"R4: SIGTERM with 100 under way, {rounds} times")
    answered, codes, seconds = 0, [], []
    for _ in range(rounds):
        with bench.server() as server:
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
