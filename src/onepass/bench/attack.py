"""Those who wish a server ill: slow sockets, and floods with a wrong key. They have a process of their own.

    python -m onepass.bench.attack < SPEC

Nothing of what they do is done by the client that takes the time of good requests. The spec is a line of JSON; the
attack goes on until stdin is closed, and then tells what it did.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

CONNECTIONS = 200
"""Of a flood"""
SOCKETS = 625
"""Of those who are slow"""


class Attack:
    """A process that attacks a server until it is stopped."""

    def __init__(self, kind: str, port: int, **facts: Any):
        self.process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"kind": kind, "port": port, **facts}).encode() + b"\n")
        self.process.stdin.flush()
        self.process.stdout.readline()  # that it has begun

    def stop(self) -> dict[str, Any]:
        """End it; returns what it did."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        told = json.loads(self.process.stdout.readline())
        self.process.stdout.close()
        self.process.wait()
        return dict(told)


@contextlib.contextmanager
def attack(kind: str, port: int, **facts: Any) -> Iterator[dict[str, Any]]:
    """Within the block a server is attacked; afterwards the dictionary tells how."""
    found: dict[str, Any] = {}
    running = Attack(kind, port, **facts)
    try:
        yield found
    finally:
        found.update(running.stop())


def slow(port: int, starts: Sequence[str], going_on: Callable[[float], bool]) -> dict[str, Any]:
    """Sockets that send a byte a second; those with the last of the starts read one instead."""
    begun = [start.encode("latin-1") for start in starts]
    sockets = [_dawdler(port, begun[place % len(begun)]) for place in range(SOCKETS)]
    opened = len(sockets)
    _say({"begun": True})
    time.sleep(2)
    while going_on(1.0):
        for place, connection in enumerate(sockets):
            kind = place % len(begun)
            try:
                if kind < len(begun) - 1:
                    connection.send(b"x")
                elif not connection.recv(1):
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError:  # the server has ended it
                connection.close()
                sockets[place] = _dawdler(port, begun[kind])
                opened += 1
    return {"opened": opened}


def _dawdler(port: int, start: bytes) -> socket.socket:
    """A connection that has begun a request, and hardly reads."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    connection.sendall(start)
    connection.setblocking(False)
    return connection


def flood(port: int, requests: Sequence[str], per_second: float, going_on: Callable[[float], bool]) -> dict[str, Any]:
    """Requests at a fixed rate over connections in turn, whether those before are answered or not.

    What no longer fits into a connection, since the server reads no more of it, is held back.
    """
    prepared = [request.encode("latin-1") for request in requests]
    connections, places, ready = [_connected(port) for _ in range(CONNECTIONS)], dict[int, int](), select.epoll()
    for place, connection in enumerate(connections):
        places[connection.fileno()] = place
        ready.register(connection, select.EPOLLIN)
    asked = held_back = answered = 0
    _say({"begun": True})
    start = time.monotonic()
    while going_on(0.0):
        for _ in range(int((time.monotonic() - start) * per_second) - asked):
            with contextlib.suppress(ConnectionError):  # seen when it is read
                try:
                    connections[asked % CONNECTIONS].send(prepared[asked % len(prepared)])
                except BlockingIOError:
                    held_back += 1
            asked += 1
        for number, _ in ready.poll(1 / per_second):
            place = places[number]
            if _answered(connections[place]):
                answered += 1
                continue
            del places[number]
            connections[place].close()  # which takes it out of what is polled
            connections[place] = new = _connected(port)
            places[new.fileno()] = place
            ready.register(new, select.EPOLLIN)
    return {"asked": asked, "held_back": held_back, "answered": answered}


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setblocking(False)
    return connection


def _answered(connection: socket.socket) -> bool:
    """Whether an answer was read; those to wrong keys are short, and come at once."""
    try:
        return b"\r\nconnection: close" not in (found := connection.recv(65536)) and bool(found)
    except OSError:
        return False


def _say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    spec = json.loads(sys.stdin.buffer.readline())
    attacks: dict[str, Callable[..., dict[str, Any]]] = {"slow": slow, "flood": flood}
    begin, cpu = attacks[spec.pop("kind")], time.process_time()

    def going_on(seconds: float) -> bool:
        """Wait; whether nobody has closed stdin."""
        return not select.select([sys.stdin], [], [], seconds)[0]

    start = time.monotonic()
    found = begin(**spec, going_on=going_on)
    _say(found | {"cores": round((time.process_time() - cpu) / (time.monotonic() - start), 3)})


if __name__ == "__main__":
    main()
