"""What breaks or burdens a server on purpose: clients that leave, bad texts, workers that end, SIGTERM."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import statistics
import struct
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import psutil

from onepass.bench.check import Check
from onepass.bench.load import Client, Load, open_loop, until
from onepass.bench.served import KEY, Server

if TYPE_CHECKING:
    from onepass.bench.serve import Bench

FAULTS = ("fault:raise", "fault:nan")
PATIENCE_S = 45.0  # longer than the deadline of a request: a socket without an answer after that hangs


async def disconnects(bench: Bench, server: Server, client: Client) -> Check:
    """R5: what nobody waits for is not computed."""
    count = bench.times(2, 10) * 100
    check = Check("disconnects", f"R5: {count} clients leave while they wait")
    files, coroutines = psutil.Process(server.process.pid).num_fds(), server.counters()["onepass_coroutines"]
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
    more = server.counters()["onepass_coroutines"] - coroutines
    check.found = {
        "not_computed": round(spared, 4),
        "files_back_after_s": round(left, 2),
        "more_coroutines": more,
    }
    check.goals = {">= 95 % not computed": spared >= 0.95, "files back": left < 10, "coroutines back": more <= 5}
    return check


async def poison(bench: Bench, server: Server, client: Client) -> Check:
    """R7: a text that breaks the model does not break its neighbours, who get the answers they always get."""
    rounds = bench.times(10, 100)
    check = Check("poison", f"R7: {rounds} batches of 8 with one text that raises, gives NaN, ends or hangs the worker")
    texts, good, bad = bench.texts[:7], 0, 0

    async def labels(text: str) -> Any:
        status, body = await client.send(client.request(text))
        tasks = json.loads(body)["results"][0]["tasks"] if status == 200 else {}
        return {name: said["label"] for name, said in tasks.items()}

    expected = [await labels(text) for text in texts]
    for number in range(rounds):
        # The last two cost a worker twice, which takes seconds.
        fault = ("fault:kill", "fault:hang")[number // 10 % 2] if number % 10 == 9 else FAULTS[number % 2]
        *found, told = await asyncio.gather(*(labels(text) for text in texts), client.send(client.request(fault)))
        good += sum(answer == known for answer, known in zip(found, expected, strict=True))
        bad += told[0] == 500
        await until(server.ready, 30)
    check.found = {"neighbours_right": good, "bad_told": bad}
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
        lying += (await client.send(client.request("is it true?")))[0] not in (200, 429)  # 429: many waited
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
    """R4: SIGTERM with 100 requests under way loses none; a second SIGTERM does not wait for anybody."""
    rounds = bench.times(1, 20)
    check = Check("drain", f"R4: SIGTERM with 100 under way, {rounds} times")
    statuses: Counter[int] = Counter()
    codes, seconds, at_once = [], [], []
    for _ in range(rounds):
        with bench.server(**{"max-wait-s": 60}) as server:  # none is refused, however slow the machine
            client = Client(server.port, KEY)
            asked = await _under_way(server, client, ["fault:slow"] * 100)
            seconds.append(await _end(server, signals=1))
            statuses.update(status for status, _ in await asyncio.gather(*asked))
            codes.append(server.process.returncode)
            client.close()
        with bench.server() as server:
            client = Client(server.port, KEY)
            hanging = await _under_way(server, client, ["fault:hang"])
            at_once.append(await _end(server, signals=2))
            await asyncio.gather(*hanging)
            client.close()
    check.found = {
        "statuses": dict(statuses),
        "of": 100 * rounds,
        "codes": sorted(set(codes)),
        "s": round(max(seconds), 2),
        "second_signal_s": round(max(at_once), 2),
    }
    check.goals = {
        "none lost": statuses[200] == 100 * rounds,
        "exit 0": set(codes) == {0},
        "<= 30 s": max(seconds) <= 30,
        "second signal <= 1 s": max(at_once) <= 1,
    }
    return check


async def _under_way(server: Server, client: Client, texts: list[str]) -> list[asyncio.Task[tuple[int, bytes]]]:
    """Requests that the server has taken and not answered."""
    wanted = server.asked()["received"] + len(texts)
    asked = [asyncio.create_task(client.send(client.request([text]))) for text in texts]
    await until(lambda: server.asked()["received"] >= wanted, 20)
    return asked


async def _end(server: Server, signals: int) -> float:
    """Seconds from the last signal until the server has ended."""
    for number in range(signals):
        if number:
            await until(lambda: b"Stopping" in server.log.read_bytes(), 10)
        start = time.perf_counter()
        server.process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(server.process.wait, 60)
    return time.perf_counter() - start
