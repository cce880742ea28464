"""R8: tasks that come, change and go under load, each answer of one version; a broken candidate never serves."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import logging
import math
import zipfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onepass.bench.check import Check
from onepass.bench.load import Client, Load, open_loop, saturate
from onepass.bench.served import Server

if TYPE_CHECKING:
    from onepass.bench.serve import Bench

log = logging.getLogger(__name__)
NAME = "benched"
ALONE = 5  # times that requests are sent for two seconds before the changes, and as often after
TOGETHER = 10  # rounds after which the changes pause for as long again
WARM_S = 3.0  # of many requests on each of two workers, with the task and without
ROLLBACKS = 3  # a round, to each of the versions that there are
NEAR = 1e-4  # between the scores of a task and of its copy


async def changes(bench: Bench, server: Server, client: Client) -> Check:
    """R8: a task is put, replaced and removed again and again, versions are taken back, broken candidates refused."""
    rounds = bench.times(1, 67)  # three changes, two candidates that must be refused, and rollbacks a round
    counts = f"{3 * rounds} changes of tasks, {2 * rounds} broken candidates, {ROLLBACKS * rounds} rollbacks"
    check = Check("changes", f"R8: {counts} under 0.5 C")
    first, second = (task["name"] for task in _tasks(server)[:2])
    archives = [server.call("GET", f"/tasks/{name}/archive")[1] for name in (first, second)]
    spoilt = [_spoilt(archives[0], weights) for weights in (_nan, _cut)]
    requests, served = bench.requests(client), {_revision(server): _versions(server)}
    over, memory, seeds = asyncio.Event(), [server.memory()], itertools.count()

    async def ask(keep: bool = False) -> Load:
        """Two seconds of requests, at other times than those before: bursts would come again and again."""
        return await open_loop(client, requests, 0.5 * bench.capacity, 2, next(seeds), keep)

    async def keep_asking() -> None:
        while not over.is_set():
            total.join(await ask(keep=True))

    async def change(method: str, archive: bytes | None) -> int:
        path = f"/tasks/{NAME}"
        return await call(method, path, archive, "application/zip")

    async def call(method: str, path: str, body: bytes | None, kind: str = "application/json") -> int:
        status, answer = await asyncio.to_thread(server.call, method, path, body, kind)
        if status == 200:
            served[json.loads(answer)["revision"]] = await asyncio.to_thread(_versions, server)
        return status

    async def warm_up() -> None:
        """After the first change a worker waits with the model for the next one, and the runtime takes memory for
        every shape of a batch that a graph has not seen: memory counts from when both have seen some."""
        for archive in (archives[0], archives[1], None, archives[0], None) * (3 if bench.long else 1):
            await change("PUT" if archive else "DELETE", archive)
            await saturate(client, requests, 64, WARM_S)
            await open_loop(client, requests, 0.7 * bench.capacity, WARM_S, next(seeds))

    alone, total = Load(), Load()
    done = refused = taken_back = 0
    for number in range(rounds):
        if number in (0, 1) or number % TOGETHER == 0:  # in turns: a machine is not as fast in every minute
            for _ in range(ALONE):
                alone.join(await ask())
            over.clear()
            asking = asyncio.create_task(keep_asking())
        done += await change("PUT", archives[0]) == 200
        refused += await change("PUT", spoilt[number % 2]) in (409, 422)
        done += await change("PUT", archives[1]) == 200
        done += await change("DELETE", None) == 200
        refused += await change("PUT", spoilt[(number + 1) % 2]) in (409, 422)
        for revision in (list(served)[1:] + list(served)[:1])[:ROLLBACKS]:
            taken_back += await call("POST", "/rollback", json.dumps({"revision": revision}).encode()) == 200
        if number:
            memory.append(server.memory())
        log.info("round %d of %d: %d MB, %d changes, %d refused", number + 1, rounds, memory[-1], done, refused)
        if number == 0 or number % TOGETHER == TOGETHER - 1 or number == rounds - 1:
            over.set()
            await asking
            p99s = round(total.quantile(0.99), 1), round(alone.quantile(0.99), 1)
            log.info("p99 %s ms, alone %s ms; %s", *p99s, dict(total.statuses))
        if number == 0:  # the first changes of a server count as all others do
            await warm_up()
            memory.append(server.memory())
    for _ in range(ALONE):
        alone.join(await ask())
    wrong = _wrong(total, served)
    growth = memory[-1] / memory[1] - 1
    check.found = {
        **total.told(),
        "changes": done,
        "refused": refused,
        "taken_back": taken_back,
        "versions_seen": len({json.loads(body)["revision"] for body in total.bodies if b'"revision"' in body}),
        "wrong": wrong,
        "p99_alone_ms": round(alone.quantile(0.99), 1),
        "memory_mb": [round(found) for found in (memory[0], *memory[1::TOGETHER], memory[-1])],
        "memory_growth": round(growth, 4),
    }
    check.goals = {
        "all changes made": done == 3 * rounds,
        "all rollbacks made": taken_back == ROLLBACKS * rounds,
        "broken ones refused": refused == 2 * rounds,
        "no request failed": total.statuses[200] == sum(total.statuses.values()),
        "every answer of one version": wrong == 0,
        "memory <= +1 % a hundred": growth <= max(1.0, done / 100) / 100,
        "p99 <= 2x": total.quantile(0.99) <= 2 * alone.quantile(0.99),
    }
    return check


def _tasks(server: Server) -> list[dict[str, Any]]:
    return list(json.loads(server.call("GET", "/tasks")[1])["tasks"])


def _revision(server: Server) -> str:
    return str(json.loads(server.call("GET", "/tasks")[1])["revision"])


def _versions(server: Server) -> dict[str, tuple[int, frozenset[str]]]:
    """The version and the labels of each task that is served."""
    return {task["name"]: (task["version"], frozenset(task["labels"])) for task in _tasks(server)}


def _wrong(load: Load, served: dict[str, dict[str, tuple[int, frozenset[str]]]]) -> int:
    """Answers that are not those of the version they name: other tasks, versions of tasks, labels or scores."""
    wrong = 0
    for body in load.bodies:
        answer = json.loads(body)
        if "error" not in answer:
            known = served.get(answer["revision"], {})
            wrong += sum(not _is_of(result["tasks"], known) for result in answer["results"])
    return wrong


def _is_of(found: dict[str, Any], known: dict[str, tuple[int, frozenset[str]]]) -> bool:
    scores = {name: said.get("scores") or {} for name, said in found.items()}
    if any(known.get(name) != (said["version"], frozenset(scores[name])) for name, said in found.items()):
        return False
    if NAME not in known:
        return True
    # It is a copy of another task, and must say what that one says.
    copied = scores.get(NAME, {})
    others = [given for name, given in scores.items() if name != NAME and given.keys() == copied.keys()]
    return any(all(abs(given[label] - copied[label]) <= NEAR for label in copied) for given in others)


def _spoilt(archive: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """An archive whose weights were changed."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, change(data) if name.endswith(".safetensors") else data)
    return made.getvalue()


def _nan(weights: bytes) -> bytes:
    import numpy as np
    from safetensors.numpy import load, save

    tensors = load(weights)
    spoilt = max(tensors, key=lambda name: tensors[name].size)
    tensors[spoilt] = np.where(
        np.arange(tensors[spoilt].size).reshape(tensors[spoilt].shape), tensors[spoilt], math.nan
    )
    return save({name: np.ascontiguousarray(value, np.float32) for name, value in tensors.items()})


def _cut(weights: bytes) -> bytes:
    return weights[: len(weights) // 2]
