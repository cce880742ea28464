"""A model in a process of its own, without HTTP: what a server is measured against."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class InProcess:
    """Answers in another process, one order a line."""

    def __init__(self, folder: Path, threads: int):
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "onepass.bench.inside", str(folder), str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def say(self, order: dict[str, Any]) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def throughput(self, texts: list[str], seconds: float) -> float:
        """Texts a second, 64 at a time."""
        return self.say({"texts": texts, "seconds": seconds})

    def one(self, text: str) -> float:
        """Milliseconds of one text."""
        return self.say({"texts": [text], "seconds": 0})

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def _answer_orders(folder: Path, threads: int) -> None:
    """What the process of InProcess does; its answers are also made into JSON, as a server's are."""
    from onepass.server.served import load_model

    model = load_model(folder, threads)
    model.label(["a first text"])
    for line in sys.stdin:
        order = json.loads(line)
        texts, start, count = order["texts"], time.perf_counter(), 0
        while not count or time.perf_counter() < start + order["seconds"]:
            some = [texts[(count + place) % len(texts)] for place in range(min(64, len(texts)))]
            json.dumps([labelled.to_dict() for labelled in model.label(some)])
            count += len(some)
        seconds = time.perf_counter() - start
        sys.stdout.write(f"{count / seconds if order['seconds'] else 1000 * seconds}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _answer_orders(Path(sys.argv[1]), int(sys.argv[2]))
