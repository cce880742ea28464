"""The process that holds the model: reads batches from its socket, answers them, and says that it is alive.

It knows nothing of HTTP. Answers are encoded and sent by a second thread while the next batch runs, if there is one.
Told to load once more, it reads the folder as it is now; if that is refused it keeps what it has. Told to load with a
change, it changes the folder, after it has answered from what the folder will be. The messages are

    to the worker      load {gently, change, niceness}; batch {id, items: [{text, tasks}]}
    from the worker    beat; ready {what it holds, proof}; refused {message, elsewhere};
                       done {id, sizes, errors, counts, run_ms, padding} and the answers
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import select
import signal
import socket
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from onepass.errors import OnepassError
from onepass.extras import explained_imports
from onepass.loading import engine_answers
from onepass.server.exchange import Elsewhere
from onepass.server.folder import Unstable
from onepass.server.frames import frame, receive
from onepass.server.loading import Loading
from onepass.server.priority import LOADING, gently
from onepass.server.served import Served

BEAT_S = 0.2


def main(descriptor: int, folder: Path, options: dict[str, Any], gentle: bool) -> None:
    connection = socket.socket(fileno=descriptor)
    _settle()
    sending = threading.Lock()

    def send(data: bytes) -> None:
        try:
            with sending:
                connection.sendall(data)
        except OSError:
            os._exit(0)  # the server is gone

    def beat() -> None:
        while True:
            send(frame({"op": "beat"}))
            time.sleep(BEAT_S)

    threading.Thread(target=beat, daemon=True).start()
    device = options["device"]
    with contextlib.suppress(OnepassError, ImportError):  # loading will say so
        gently(partial(_import, folder, device)) if gentle else _import(folder, device)
    answers: queue.Queue[Any] = queue.Queue()

    def load_again(head: dict[str, Any], before: Served | None) -> Served | None:
        """The folder as it is now, or after a change; what was there before if it is refused."""
        try:
            with explained_imports("onepass serve"):
                if before is None and engine_answers(folder, device):
                    from onepass.engine.runtime import start_threads

                    # By this thread: they take its priority, and would keep that of a gentle one.
                    start_threads(options["threads"])
                loading = Loading(folder, options, before, head["gently"], head.get("niceness", LOADING))
                served, proof = loading.run(head.get("change"))
        except (OnepassError, Unstable, ImportError) as error:
            send(frame({"op": "refused", "message": str(error), "elsewhere": isinstance(error, Elsewhere)}))
            return before
        facts = {"revision": served.revision, "times": served.times, "probe": served.probe(), "reopens": served.reopens}
        send(frame({"op": "ready", "proof": proof, **facts, **served.described}))
        return served

    def finish(served: Served, number: int, results: Sequence[dict[str, Any] | str], ran: dict[str, Any]) -> None:
        parts, errors = _encoded(results)
        head = {"op": "done", "id": number, "sizes": [len(part) for part in parts], "errors": errors}
        send(frame(head | ran | {"counts": served.count(results)}, b"".join(parts)))

    def finish_beside() -> None:
        while True:
            finish(*answers.get())
            answers.task_done()

    threading.Thread(target=finish_beside, daemon=True).start()
    served: Served | None = None
    unread = select.poll()  # select.select knows no numbers from 1024 on, which a server of many connections gives
    unread.register(connection, select.POLLIN)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            head, _ = receive(connection)
            if head["op"] == "load":
                served = load_again(head, served)
                if served is None:
                    return
                continue
            assert served is not None
            start, padding = time.perf_counter(), served.padding
            results = served.answer(head["items"])
            ran = {"run_ms": 1000 * (time.perf_counter() - start), "padding": served.padding - padding}
            if answers.unfinished_tasks or unread.poll(0):
                # Behind those before it: answers leave in the order of batches.
                answers.put((served, head["id"], results, ran))
            else:  # nothing to run meanwhile, and waking a thread takes longer than it does
                finish(served, head["id"], results, ran)


def _encoded(results: Sequence[dict[str, Any] | str]) -> tuple[list[bytes], dict[int, str]]:
    """The answers as JSON, and by place the codes of those that there are none of."""
    parts, errors = [b""] * len(results), {}
    for place, result in enumerate(results):
        if isinstance(result, str):
            errors[place] = result
            continue
        try:
            parts[place] = json.dumps(result, allow_nan=False).encode()
        except ValueError:
            errors[place] = "not_finite"
    return parts, errors


def _import(folder: Path, device: str) -> None:
    """Import what loading will need, which takes longer than loading."""
    if engine_answers(folder, device):
        import onepass.engine.engine
    else:
        import onepass.folder  # noqa: F401


def _settle() -> None:
    """No dump of memory with texts in it, and signals of a terminal are the server's to handle."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
