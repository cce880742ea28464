"""How long a change over HTTP takes, and what requests beside it feel.

    python benchmarks/changes.py MODEL [--workers 2] [--rounds 5] [--clients 2] [--pause 0.1]

MODEL has an engine (`onepass export`). A task is put and removed again, `--rounds` times, while clients ask for four
texts at a time with a pause between; one JSON object. A server's first changes take longer: shapes of batches are new.
"""

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

from onepass.bench.served import Server

NAME = "extra"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    for name, value in (("workers", 2), ("rounds", 5), ("clients", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--pause", type=float, default=0.1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        server = Server(options.model, Path(place), 0, workers=options.workers)
        try:
            print(json.dumps({"workers": options.workers} | measure(server.wait(), options)))
        finally:
            server.stop()


def measure(server: Server, options: argparse.Namespace) -> dict[str, object]:
    while len(json.loads(server.call("GET", "/info")[1])["workers"]) < options.workers:
        time.sleep(0.1)
    time.sleep(4)  # the spare worker starts last
    first = json.loads(server.call("GET", "/tasks")[1])["tasks"][0]["name"]
    archive = server.call("GET", f"/tasks/{first}/archive")[1]
    over, asked = threading.Event(), []
    body = json.dumps({"inputs": [f"late goal number {n} wins the cup" for n in range(4)]}).encode()

    def ask() -> None:
        while not over.is_set():
            start = time.monotonic()
            status = server.call("POST", "/predict", body)[0]
            asked.append((start, time.monotonic() - start, status))
            time.sleep(options.pause)

    clients = [threading.Thread(target=ask) for _ in range(options.clients)]
    for client in clients:
        client.start()
    time.sleep(3)
    begin, seconds, made = time.monotonic(), [], 0
    for number in range(2 * options.rounds):
        start = time.monotonic()
        method, change = ("DELETE", None) if number % 2 else ("PUT", archive)
        made += server.call(method, f"/tasks/{NAME}", change, "application/zip")[0] == 200
        seconds.append(round(time.monotonic() - start, 2))
        time.sleep(1)
    over.set()
    for client in clients:
        client.join()
    return {
        "changes": made,
        "seconds": seconds,
        "requests": len(asked),
        "failed": sum(status != 200 for _, _, status in asked),
        "p99_ms_before": p99([spent for start, spent, _ in asked if start < begin]),
        "p99_ms_beside": p99([spent for start, spent, _ in asked if start >= begin]),
    }


def p99(seconds: list[float]) -> float:
    return round(1000 * sorted(seconds)[int(0.99 * (len(seconds) - 1))], 1)


if __name__ == "__main__":
    main()
