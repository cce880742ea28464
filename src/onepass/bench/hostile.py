"""R16, R17: what requests at and beyond every limit cost; S4: texts that must appear nowhere but in their answer."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from onepass.bench.check import Check
from onepass.bench.load import Client
from onepass.bench.served import KEY, Server

if TYPE_CHECKING:
    from onepass.bench.serve import Bench

LIMIT = 2_000_000  # the default of --max-body-bytes
TEXTS = 256  # of --max-texts
REPEATS = 3
BEYOND = ("deep", "deep object", "a long number", "too large", "a gzip bomb", "tiny chunks")
CANARY = "zq7canary{:05d}"


async def hostile(bench: Bench, server: Server, client: Client) -> Check:
    """R16, R17: no request costs more than 1.5 times the CPU of the largest honest one; too large ones cost nothing."""
    check = Check("hostile", "R16, R17: requests at and beyond the limits")
    honest = _json([text * 4 for text in (bench.long_texts * 2)[:TEXTS]])
    costs = {"honest": [_cost(server, honest) for _ in range(REPEATS)]}
    requests = _requests()
    for name in [name for name in requests if name not in BEYOND]:
        costs[name] = [_cost(server, requests[name]) for _ in range(REPEATS)]
    front = psutil.Process(server.process.pid)
    memory = front.memory_info().rss
    for name in BEYOND:
        costs[name] = [_cost(server, requests[name]) for _ in range(REPEATS)]
    growth = front.memory_info().rss - memory
    most = statistics.median(cpu for cpu, _, _ in costs["honest"])
    shares = {name: statistics.median(cpu for cpu, _, _ in found) / most for name, found in costs.items()}
    statuses = {name: sorted({status for _, _, status in found}) for name, found in costs.items()}
    refused_ms = 1000 * max(seconds for _, seconds, _ in costs["too large"])
    check.found = {
        "statuses": statuses,
        "cpu_of_honest": {name: round(share, 3) for name, share in shares.items()},
        "honest_cpu_s": round(most, 2),
        "too_large_ms": round(refused_ms, 1),
        "memory_mb": round(growth / 1e6, 1),
    }
    check.goals = {
        "no 5xx": all(status < 500 for found in statuses.values() for status in found),
        "cpu <= 1.5x": max(shares.values()) <= 1.5,
        "413 within 100 ms": statuses["too large"] == [413] and refused_ms <= 100,
        "memory <= +2 bodies": growth <= 2 * LIMIT,
    }
    return check


def _json(inputs: Any, headers: str = "", tasks: Any = None) -> bytes:
    return _post(json.dumps({"inputs": inputs} | ({"tasks": tasks} if tasks else {})).encode(), headers)


def _post(body: bytes, headers: str = "") -> bytes:
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-API-Key: {KEY}\r\n"
    return f"{head}Connection: close\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _requests() -> dict[str, bytes]:
    head = _post(b"").partition(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    return {
        "long texts": _json(["wörd " * 700] * TEXTS),
        "one long word": _json(["x" * 7000] * TEXTS),
        "no spaces, many scripts": _json(["\u4e2d\u0939\u0301\u0e01" * 300] * TEXTS),
        "combining marks": _json(["a" + "\u0301" * 1200] * TEXTS),
        "lone surrogates": _json(["\ud800" * 1100] * TEXTS),
        "rows": _json([{f"column {n}": "word " * 20 for n in range(64)} for _ in range(150)]),
        "many names": _json("a text", tasks=[f"task-{n}" for n in range(10_000)]),
        "many keys": _post(json.dumps({f"key {n}": n for n in range(100_000)}).encode()),
        "deep": _post(b"[" * 100_000),
        "deep object": _post(b'{"inputs":' * 100_000),
        "a long number": _post(b'{"inputs": ' + b"9" * 1_000_000 + b"}"),
        "too large": _post(b'{"inputs": "' + b"a" * (2 * LIMIT) + b'"}'),
        "a gzip bomb": _post(gzip.compress(b" " * 50_000_000), "Content-Encoding: gzip\r\n"),
        "tiny chunks": head + b"1\r\n \r\n" * 60_000 + b"0\r\n\r\n",
    }


def _cost(server: Server, request: bytes) -> tuple[float, float, int]:
    """CPU seconds of the server and its workers for a request, how long it took, and its status; 0: closed."""
    before, start, status = _cpu(server), time.perf_counter(), 0
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request)
        answer = connection.recv(65536)
        status = int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0
        while connection.recv(65536):
            pass
    return _cpu(server) - before, time.perf_counter() - start, status


def _cpu(server: Server) -> float:
    """CPU seconds that the server and the worker that serves have used so far."""
    times = [process.cpu_times() for process in (psutil.Process(server.process.pid), server.worker())]
    return sum(found.user + found.system for found in times)


async def canaries(bench: Bench) -> Check:
    """S4: texts of all routes, with faults on purpose, are in no log, counter, error, or file that stays."""
    count = 100 * bench.times(10, 100)
    check = Check("canaries", f"S4: {count} texts, with default settings")
    errors: list[bytes] = []
    with bench.server(quiet=False) as server:
        client = Client(server.port, KEY)
        for start in range(0, count, 100):
            texts = [f"{CANARY.format(n)} {bench.texts[n % 200]}" for n in range(start, start + 100)]
            texts[0], texts[1] = f"fault:raise {texts[0]}", f"fault:nan {texts[1]}"
            for body in (texts, texts[0], texts[1], [texts, 1], {"column": texts[2]}, [[texts[3]] * 3]):
                status, answer = await client.send(client.request(body))
                errors.append(answer if status != 200 else _faults(answer))
        client.close()
        errors += _elsewhere(server)
        places = {
            "log": server.log.read_bytes(),
            "metrics": server.call("GET", "/metrics")[1],
            "errors": b"".join(errors),
            "model folder": _files(server.place),
            "temporary files": b"".join(_files(path) for path in Path(tempfile.gettempdir()).glob("onepass-??????*")
                                        if path != server.place),
        }  # fmt: skip
    word = CANARY.partition("{")[0].encode()
    check.found = {"hits": {name: content.count(word) for name, content in places.items()}, "errors": len(errors)}
    check.goals = {f"none in {name}": hits == 0 for name, hits in check.found["hits"].items()}
    return check


def _faults(answer: bytes) -> bytes:
    """What an answer says of texts that failed."""
    return json.dumps([result for result in json.loads(answer)["results"] if "error" in result]).encode()


def _elsewhere(server: Server) -> list[bytes]:
    """The answers to texts in other places: other routes, the path, a broken body, rows that cannot be learned."""
    canary = CANARY.format(99999)
    task = json.loads(server.call("GET", "/tasks")[1])["tasks"][0]["name"]
    tensor = {"name": "text", "shape": [2], "datatype": "BYTES", "data": [canary, 1]}
    asked = [
        ("POST", "/classify", {"input": [f"fault:raise {canary}"], "task": task}),
        ("POST", "/v1/moderations", {"input": f"fault:nan {canary}"}),
        ("POST", "/v2/models/model/infer", {"inputs": [tensor]}),
        ("PUT", "/tasks/taught?wait=1", {"rows": [{"text": canary, "label": "only one"}]}),
    ]
    found = [server.call(method, path, json.dumps(body).encode())[1] for method, path, body in asked]
    found.append(server.call("POST", "/predict", f'{{"inputs": "{canary}'.encode())[1])
    server.call("GET", f"/{canary}?{canary}={canary}")
    return found


def _files(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file() and path.name != "log")
