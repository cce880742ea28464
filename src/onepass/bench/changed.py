"""R8: tasks that come and go under load."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from onepass.bench.check import Check
from onepass.bench.load import Client, Load, open_loop
from onepass.bench.served import Server

if TYPE_CHECKING:
    from onepass.bench.serve import Bench


async def changes(bench: Bench, server: Server, client: Client) -> Check:
    """R8: tasks come and go under load; every answer is of one version; a broken one never serves."""
    rounds = bench.times(2, 100)
    check = Check("changes", f"R8: {2 * rounds} changes under 0.5 C")
    tasks = json.loads(server.call("GET", "/tasks")[1])["tasks"]
    archive = server.call("GET", f"/tasks/{tasks[0]['name']}/archive")[1]
    over, memory = asyncio.Event(), server.memory()
    loads: list[Load] = []
    alone = await open_loop(client, bench.requests(client), 0.5 * bench.capacity, 5)

    async def keep_asking() -> None:
        while not over.is_set():
            loads.append(await open_loop(client, bench.requests(client), 0.5 * bench.capacity, 2, keep=True))

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
