"""Attacks on a server that only listens."""

import socket
import threading
from collections.abc import Iterator

import pytest

from onepass.bench.attack import CONNECTIONS, SOCKETS, attack


class Listener:
    """Accepts all connections, and answers every one as often as it is asked."""

    def __init__(self, answer: bytes):
        self.answer, self.received, self.accepted = answer, [], 0
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = self.listening.getsockname()[1]
        self.open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection = self.listening.accept()[0]
            except OSError:
                return
            self.accepted += 1
            self.open.append(connection)
            if self.answer:
                threading.Thread(target=self._reply, args=(connection,), daemon=True).start()

    def _reply(self, connection: socket.socket) -> None:
        try:
            while found := connection.recv(1000):
                self.received.append(found)
                connection.sendall(self.answer)
        except OSError:
            pass


@pytest.fixture
def listeners() -> Iterator[list[Listener]]:
    found: list[Listener] = []
    yield found
    for listener in found:
        listener.listening.close()
        for connection in listener.open:
            connection.close()


def test_slow_sockets_begin_and_go_on(listeners: list[Listener]) -> None:
    listeners.append(Listener(b""))
    with attack("slow", listeners[0].port, starts=["GET / HTTP/1.1\r\nX: ", "unread"]) as found:
        first, second = listeners[0].open[:2]
        for connection in (first, second):
            connection.settimeout(20)
        assert first.recv(100).startswith(b"GET / HTTP/1.1") and first.recv(1) == b"x"
        assert second.recv(100) == b"unread"
    assert found["opened"] == SOCKETS == listeners[0].accepted


@pytest.mark.parametrize("close", [False, True])
def test_a_flood_asks_at_its_rate_whether_connections_are_kept_or_not(listeners: list[Listener], close: bool) -> None:
    head = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n"
    listeners.append(Listener(head + (b"connection: close\r\n\r\n" if close else b"\r\n")))
    with attack("flood", listeners[0].port, requests=["GET /a HTTP/1.1\r\n\r\n"], per_second=500) as found:
        threading.Event().wait(1.0)
    assert found["asked"] >= 400 and found["held_back"] == 0
    assert listeners[0].received[0] == b"GET /a HTTP/1.1\r\n\r\n"
    assert (found["answered"] == 0) == close
    assert (listeners[0].accepted == CONNECTIONS) == (not close)


def test_a_flood_goes_on_where_nobody_answers(listeners: list[Listener]) -> None:
    listeners.append(Listener(b""))  # reads nothing
    request = f"GET /{'a' * 2000} HTTP/1.1\r\n\r\n"
    with attack("flood", listeners[0].port, requests=[request], per_second=2000) as found:
        threading.Event().wait(1.0)
    assert found["asked"] >= 1600 and found["answered"] == 0
    assert len(listeners[0].open[0].recv(10 * len(request))) > len(request)  # the next one came before an answer
