"""A server as a process of its own, with a tiny model, real sockets and real signals."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import onepass

SOURCE = str(Path(onepass.__file__).parents[1])
AUDIT = str(Path(__file__).parent / "audit")
PATIENT_S = 200.0  # for what must happen, on however busy a machine


class Running:
    """A server process and ways to talk to it."""

    def __init__(self, folder: Path, log: Path, options: dict[str, Any], environment: dict[str, str]):
        self.folder, self.log = folder, log
        flags = {"port": 0, "spare": False} | options
        command = [sys.executable, "-m", "onepass", "serve", str(folder)]
        for name, value in flags.items():
            flag = name.replace("_", "-")
            command += (
                [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
            )
        self.process = subprocess.Popen(
            command,
            stderr=log.open("wb"),
            env=os.environ
            | {"PYTHONPATH": f"{AUDIT}:{SOURCE}", "OMP_NUM_THREADS": "1", "ONEPASS_AUDIT": f"{log}.audit"}
            | environment,
        )
        self.port = 0
        self.key = ""

    def wait(self, seconds: float = PATIENT_S) -> Running:
        """Until it is ready."""
        self.until(lambda: self._serving(), seconds)
        self.until(self.is_ready, seconds)
        return self

    def _serving(self) -> bool:
        found = re.search(r"on http://\S+:(\d+)", self.log.read_text())
        assert self.process.poll() is None, self.log.read_text()
        self.port = int(found[1]) if found else 0
        return bool(found)

    def until(self, happens: Callable[[], Any], seconds: float = PATIENT_S) -> None:
        end = time.monotonic() + seconds
        while not happens():
            assert time.monotonic() < end, f"it did not happen: {self.log.read_text()[-2000:]}"
            time.sleep(0.02)

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENT_S)
        with contextlib.closing(connection):
            key = {"X-API-Key": self.key} if self.key else {}
            connection.request(method, path, body, key | (headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        status, body, found = self.request("GET", path, headers=headers)
        return status, json.loads(body) if "json" in found.get("content-type", "") else body.decode()

    def post(self, path: str, value: Any, **headers: str) -> tuple[int, Any]:
        head = {"Content-Type": "application/json"} | headers
        status, body, _ = self.request("POST", path, json.dumps(value).encode(), head)
        return status, json.loads(body)

    def predict(self, inputs: Any, tasks: list[str] | None = None, **headers: str) -> tuple[int, Any]:
        return self.post("/predict", {"inputs": inputs} | ({"tasks": tasks} if tasks else {}), **headers)

    def counter(self, name: str, **labels: str) -> float:
        inside = "{" + ",".join(f'{key}="{value}"' for key, value in sorted(labels.items())) + "}" if labels else ""
        found = re.search(rf"^{name}{re.escape(inside)} (\S+)$", str(self.get("/metrics")[1]), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def workers(self) -> list[psutil.Process]:
        return [child for child in psutil.Process(self.process.pid).children() if "worker" in " ".join(child.cmdline())]

    def audited(self, *events: str) -> list[list[Any]]:
        """What the server and its workers and changers opened (`open`) or called (`connect`, `lookup`), and which."""
        lines = Path(f"{self.log}.audit").read_text().splitlines()
        return [found for found in map(json.loads, lines) if found[0] in events]

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENT_S)
            assert not self.audited("connect", "lookup"), "nothing is fetched from a network"
            return code
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


ADMIN_KEY = "the admin's key"


@pytest.fixture(scope="session")
def live(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose tasks may be changed, with a folder of its own; tests may leave it with other tasks."""
    place = tmp_path_factory.mktemp("live")
    folder = Path(shutil.copytree(served, place / "model"))
    running = Running(folder, place / "log", {"spare": True, "change_nice": 0}, {"ONEPASS_ADMIN_KEY": ADMIN_KEY}).wait()
    running.key = ADMIN_KEY
    yield running
    assert running.stop() == 0


Start = Callable[..., Running]


@pytest.fixture(scope="session")
def served(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with its engine: workers start without torch."""
    from onepass.engine.export import export_model

    folder = Path(shutil.copytree(model, tmp_path_factory.mktemp("served") / "model"))
    export_model(folder)
    return folder


@pytest.fixture(scope="session")
def rows_model(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model with its engine, most of whose tasks need rows."""
    from onepass.encoder.loading import load_encoder
    from onepass.engine.export import export_model
    from onepass.methods import make_method
    from onepass.model import Model
    from onepass.tasks import MethodChoice, Task

    loaded, tokenizer = load_encoder(encoder, max_length=32)
    made = Model(make_method("readers", loaded, {}), tokenizer, MethodChoice(name="readers"), "test")
    yes_no = {"label": "label", "labels": ["no", "yes"]}
    for task in (
        Task(name="topic", text="text", **yes_no),
        Task(name="long", text="text", options={"windows": 4}, **yes_no),
        Task(name="same", text=["text", "other"], **yes_no),
        Task(name="tags", kind="tagging", text="said", label="label", labels=["O", "B-x"]),
        Task(name="pick", kind="choice", text="text", label="label", options={"choices": "names"}),
        Task(name="two", kind="choice", text="text", label="label", options={"choices": ["one", "other"]}),
        Task(name="fill", kind="choice", text="text", label="label", options={"choices": "names", "blank": "@x"}),
        Task(name="word", kind="words", text="text", options={"words": "word", "match": "form"}, **yes_no),
        Task(name="exact", kind="words", text="text", options={"words": "word"}, **yes_no),
    ):
        made.add(task)
    folder = tmp_path_factory.mktemp("rows") / "model"
    made.eval().save(folder)
    export_model(folder)
    return folder


@pytest.fixture
def start(model: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts servers that end with the test."""
    running: list[Running] = []

    def begin(folder: Path = model, environment: dict[str, str] | None = None, **options: Any) -> Running:
        running.append(Running(folder, tmp_path / f"server-{len(running)}.log", options, environment or {}))
        return running[-1]

    yield begin
    for server in running:
        server.stop()


@pytest.fixture(scope="session")
def server(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that many tests share; texts can break its worker on purpose."""
    log = tmp_path_factory.mktemp("server") / "log"
    options = {"silent_s": 1.0, "deadline_s": 20.0, "header_s": 1.0, "body_s": 1.0, "max_texts": 64}
    running = Running(served, log, options, {"ONEPASS_SERVER_FAULTS": "1"})
    yield running.wait()
    assert running.stop() == 0
