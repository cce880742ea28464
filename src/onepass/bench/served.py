"""A server process under test."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from onepass.errors import ConfigError
from onepass.server.keys import hash_of

KEY, ADMIN, POOR = "bench", "bench-admin", "bench-poor"
PATIENCE_S = 600  # a change of tasks waits for all that is busy


class Server:
    """A server process under test, on a copy of the model folder."""

    def __init__(
        self, folder: Path, place: Path, threads: int, quiet: bool = True, name: str = "model", **options: Any
    ):
        self.place, self.folder = place, Path(shutil.copytree(folder, place / name))
        (place / "keys").write_text(f"bench {hash_of(KEY).hex()}\npoor {hash_of(POOR).hex()} 200\n")
        flags = {"port": 0, "keys": place / "keys", "threads": threads, "max-requests-per-key": 10_000} | options
        self.log = place / "log"
        command = [sys.executable, "-m", "onepass", "serve", str(self.folder), "--quiet" if quiet else "--no-quiet"]
        environment = os.environ | {"ONEPASS_ADMIN_KEY": ADMIN, "ONEPASS_SERVER_FAULTS": "1"}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *(str(word) for name, value in flags.items() for word in (f"--{name}", value))],
                stderr=log,
                env=environment,
            )
        self.port = 0

    def wait(self) -> Server:
        end = time.monotonic() + 120
        while not (self.port and self.ready()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise ConfigError(f"The server did not start: {self.log.read_text()[-1000:]}")
            if found := re.search(r"on http://\S+:(\d+)", self.log.read_text()):
                self.port = int(found[1])
            time.sleep(0.05)
        return self

    def call(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            try:
                connection.request(method, path, body, {"X-API-Key": ADMIN, "Content-Type": kind})
                answer = connection.getresponse()
                return answer.status, answer.read()
            except TimeoutError as error:
                raise ConfigError(
                    f"The server did not answer {method} {path} within {PATIENCE_S} s. Is the machine busy? Changes of "
                    "tasks wait for everybody else; measure when nothing else runs."
                ) from error

    def ready(self) -> bool:
        try:
            return self.call("GET", "/readyz")[0] == 200
        except (OSError, ConfigError):
            return False

    def counters(self) -> dict[str, float]:
        lines = self.call("GET", "/metrics")[1].decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def asked(self) -> dict[str, float]:
        """How requests ended so far."""
        found = self.counters()
        names = ("received", "answered", "failed", "rejected", "expired", "left")
        return {name: found[f'onepass_asks_total{{outcome="{name}"}}'] for name in names}

    def worker(self) -> psutil.Process:
        """The process that serves, not the spare one."""
        return psutil.Process(json.loads(self.call("GET", "/info")[1])["workers"][0])

    def memory(self) -> float:
        """MB of the server and its workers."""
        everyone = [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children()]
        return sum(process.memory_info().rss for process in everyone) / 1e6

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)
