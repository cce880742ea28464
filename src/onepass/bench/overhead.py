"""P2: what HTTP costs: texts a second as a share of those in-process, and the time added to one text alone."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from onepass.bench.check import Check
from onepass.bench.inside import InProcess
from onepass.bench.load import Client, saturate
from onepass.bench.served import KEY

if TYPE_CHECKING:
    from onepass.bench.serve import Bench

SINGLE = 200  # texts that are asked alone


async def compare(bench: Bench) -> Check:
    """P2: about as fast as without HTTP, and hardly slower for one text."""
    check = Check("inside", "P2: texts a second against in-process, time added to one text")
    inside = InProcess(bench.folder, bench.threads)
    with bench.server(**{"max-wait-s": 60}) as server:  # as many at once as it takes, and none refused
        client = Client(server.port, KEY)
        shares = {
            "short": await share(bench, client, inside, bench.texts, 1),
            "long": await share(bench, client, inside, bench.long_texts, 1),
            "long_by_8": await share(bench, client, inside, bench.long_texts, 8),
        }
        waits: dict[str, list[float]] = {"http": [], "inside": []}
        for text in bench.texts[:SINGLE]:
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
    check.goals = {
        "share >= 0.85 (long)": shares["long"][0] >= 0.85,
        "share >= 0.85 (short)": shares["short"][0] >= 0.85,
        "added <= 2 ms": added <= 2,
    }
    return check


async def share(bench: Bench, client: Client, inside: InProcess, texts: list[str], at_once: int) -> list[float]:
    """Texts a second over HTTP, so many a request, as shares of those without it; the middle, the least, the most."""
    requests = [client.request(texts[n : n + at_once]) for n in range(0, len(texts), at_once)]
    ratios = []
    await saturate(client, requests, max(8, 64 // at_once), 2.0)
    for _ in range(7 if bench.long else 3):  # side by side in time: other programs come and go
        before = inside.throughput(texts, 1.5)
        load = await saturate(client, requests, max(8, 64 // at_once), 3.0)
        ratios.append(at_once * load.rate() / ((before + inside.throughput(texts, 1.5)) / 2))
    return [round(found, 3) for found in (statistics.median(ratios), min(ratios), max(ratios))]
