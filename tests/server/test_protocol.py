"""Clients that are slow, leave, or speak no HTTP."""

import asyncio
import gc
import json
import re
import socket
import struct
import time
import weakref
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from onepass.server.metrics import Metrics
from onepass.server.protocol import guarded_protocol
from onepass.server.settings import Settings

HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def request(text: str) -> bytes:
    body = json.dumps({"inputs": text}).encode()
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def read_all(connection: socket.socket) -> bytes:
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


@pytest.mark.parametrize("start", [b"GET /liv", HEAD + b"Content-Length: 1000\r\n\r\n{"], ids=["head", "body"])
def test_a_slow_sender_is_ended_though_bytes_keep_coming(server: Any, start: bytes) -> None:
    with server.raw() as connection:
        connection.sendall(start)
        begin = time.monotonic()
        connection.settimeout(0.1)
        answer = b""
        while time.monotonic() < begin + 20 and not answer:
            connection.sendall(b"x")
            try:
                answer = connection.recv(1000)
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 408")


def test_slow_sockets_do_not_disturb_others(server: Any) -> None:
    slow = [server.raw() for _ in range(100)]
    for number, connection in enumerate(slow):
        connection.sendall([b"GET / HTTP/1.1\r\nX: ", HEAD + b"Content-Length: 9\r\n\r\n"][number % 2])
    assert all(server.predict("goal")[0] == 200 for _ in range(5))
    assert all(read_all(connection).startswith(b"HTTP/1.1 408") for connection in slow)
    for connection in slow:
        connection.close()


async def unanswered(scope: Any, receive: Any, send: Any) -> None:
    await receive()


async def connections(count: int, sent: bytes) -> tuple[list[weakref.ref[Any]], list[float]]:
    """Connections to a server without a model, now closed; and the deadlines that they were given."""
    loop, made, deadlines = asyncio.get_running_loop(), [], []
    config, state = uvicorn.Config(unanswered, log_config=None), ServerState()
    config.load()
    guarded, later = guarded_protocol(Settings(header_s=60, body_s=60), Metrics()), loop.call_later

    def call_later(seconds: float, call: Any, *given: Any) -> asyncio.TimerHandle:
        if getattr(call, "__name__", "") == "_late":
            deadlines.append(seconds)
        return later(seconds, call, *given)

    def make() -> asyncio.Protocol:
        made.append(weakref.ref(connection := guarded(config, state, {})))
        return connection

    loop.call_later = call_later  # type: ignore[method-assign]
    listening = await loop.create_server(make, "127.0.0.1", 0)
    for _ in range(count):
        _, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(sent)
        await asyncio.sleep(0.05)
        writer.close()
    listening.close()
    await asyncio.sleep(0.05)
    return made, deadlines


def test_connections_that_began_together_are_not_ended_together_and_none_too_late() -> None:
    _, deadlines = asyncio.run(connections(5, b"GET /liv"))
    assert len(set(deadlines)) == len(deadlines) >= 5
    assert all(45 <= seconds <= 60 for seconds in deadlines)


@pytest.mark.parametrize("ahead", [1, 4])
def test_a_connection_that_is_lost_leaves_nothing_to_the_garbage_collector(ahead: int) -> None:
    gc.collect()
    gc.disable()
    try:
        (lost,), _ = asyncio.run(connections(1, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" * ahead))
        assert lost() is None
    finally:
        gc.enable()


WHOLE = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"


async def answered(*parts: bytes, then: bytes = b"") -> tuple[bytes, int]:
    """What a client reads that sends these parts, and when there is an answer to the first, `then`; and how many asked.

    There is an answer only after all parts are there, and after the time for a head is over, if one is begun.
    """
    asked, free, metrics = 0, asyncio.Event(), Metrics()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        nonlocal asked
        asked += 1
        await free.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    config, state = uvicorn.Config(slow, log_config=None), ServerState()
    config.load()
    guarded = guarded_protocol(Settings(header_s=0.1, body_s=0.1, keep_alive_s=0.2), metrics)
    listening = await asyncio.get_running_loop().create_server(lambda: guarded(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.3)
    free.set()
    found = await reader.readexactly(1) + await reader.read(1000) if then else b""
    writer.write(then)
    found += await reader.read()
    writer.close()
    listening.close()
    return found, asked


AFTER = {
    "a head that is not finished": b"GET /livez HTTP/1.1\r\nHost: loc",
    "a body that is not finished": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n{",
    "noise": b"GARBAGE\r\n\r\n",
    "a broken body": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    "a head without end": b"GET / HTTP/1.1\r\nX: " + b"x" * 20_000,
}


@pytest.mark.parametrize("after", AFTER.values(), ids=AFTER.keys())
def test_a_whole_request_is_answered_whatever_comes_after_it(after: bytes) -> None:
    for ahead, parts in ((1, (WHOLE, after)), (1, (WHOLE + after,)), (3, (3 * WHOLE + after,))):
        found, asked = asyncio.run(answered(*parts))
        assert asked == ahead == found.count(b"HTTP/1.1 ") == found.count(b"HTTP/1.1 200")
        assert found.endswith(b"\r\n\r\nok") and b"connection: close" in found  # and then the connection ends


def test_an_empty_line_between_requests_begins_none() -> None:
    found, asked = asyncio.run(answered(WHOLE, b"\r\n", then=b"\r\n" + WHOLE))
    assert asked == found.count(b"HTTP/1.1 200") == found.count(b"HTTP/1.1 ") == 2
    found, asked = asyncio.run(answered(b"\r\n", b"\r\n"))
    assert asked == 0 and found.startswith(b"HTTP/1.1 408")  # nor does it give time


def test_a_client_that_asks_first_whether_it_may_send_too_much_is_refused(server: Any) -> None:
    with server.raw() as connection:
        connection.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 2000001\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 413")


def test_a_flood_of_tiny_chunks_is_ended(server: Any) -> None:
    with server.raw() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(100):
                connection.sendall(b"1\r\n \r\n" * 1000)
            answer = read_all(connection)
        except ConnectionError:
            return  # ended before we had sent it all
    assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "noise", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"A" * 100_000, b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"]
)
def test_what_is_no_http_is_ended(server: Any, noise: bytes) -> None:
    with server.raw() as connection:
        try:
            connection.sendall(noise + b"\r\n\r\n")
            assert read_all(connection).startswith((b"HTTP/1.1 400", b"HTTP/1.1 408"))
        except ConnectionError:
            pass
    assert server.get("/livez")[0] == 200


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["unfinished", "finished"])
def test_a_head_without_end_is_ended(server: Any, end: bytes) -> None:
    with server.raw() as connection:
        try:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"x" * 200_000 + end)
            assert read_all(connection).startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
        except ConnectionError:
            pass  # ended before we had sent it all
    assert server.get("/livez")[0] == 200


def test_requests_sent_ahead_are_answered_in_turn_but_not_any_number(server: Any) -> None:
    ask = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = ask.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with server.raw() as connection:
        connection.sendall(ask * 4 + last)
        assert read_all(connection).count(b"HTTP/1.1 200") == 5
    with server.raw() as connection:
        try:
            connection.sendall(ask * 5000)
            assert read_all(connection).count(b"HTTP/1.1 200") < 100
        except ConnectionError:
            pass
    assert server.get("/livez")[0] == 200


def test_a_wish_for_another_protocol_is_passed_over(server: Any) -> None:
    with server.raw() as connection:
        connection.sendall(
            b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            + b"\x81\x05hello"
        )
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 200") and answer.count(b"HTTP/1.1") == 1


WISH = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"


@pytest.mark.parametrize("cut", [None, 40, -3, -30])
def test_a_request_with_a_body_and_a_wish_is_answered(server: Any, cut: int | None) -> None:
    """As clients of Java send them, in one packet and in two."""
    asked = request("goal").replace(b"Content-Length", WISH + b"Content-Length")
    last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with server.raw() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in [asked * 2 + last] if cut is None else [asked[:cut], asked[cut:] + asked + last]:
            connection.sendall(part)
            time.sleep(0.2)
        answer = read_all(connection)
    assert answer.count(b"HTTP/1.1 200") == 3 and answer.count(b'"topic"') >= 2


def test_wishes_sent_ahead_are_no_more_than_other_requests(server: Any) -> None:
    with server.raw() as connection:
        try:
            connection.sendall((b"GET /livez HTTP/1.1\r\nHost: localhost\r\n" + WISH + b"\r\n") * 5000)
            assert read_all(connection).count(b"HTTP/1.1 200") < 100
        except ConnectionError:
            pass
    assert server.get("/livez")[0] == 200
    assert "a fault:" not in server.log.read_text() and "RecursionError" not in server.log.read_text()


def test_a_tunnel_is_not_opened(server: Any) -> None:
    with server.raw() as connection:
        connection.sendall(b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n" + request("goal"))
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 4") and answer.count(b"HTTP/1.1") == 1


def test_a_body_that_breaks_off_is_told_once_and_is_no_fault_of_ours(server: Any) -> None:
    with server.raw() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\nnonsense\r\n")
        assert read_all(connection).count(b"HTTP/1.1 400") == 1
    assert server.get("/livez")[0] == 200
    assert "a fault:" not in server.log.read_text()


def test_a_compressed_body_is_refused(server: Any) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert server.request("POST", "/predict", b"\x1f\x8b" + b"0" * 100, headers)[0] == 415


def test_requests_one_after_the_other_on_one_connection(server: Any) -> None:
    with server.raw() as connection:
        connection.sendall(
            request("goal") + request("vote") + b"GET /livez HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\n\r\n"
        )
        assert read_all(connection).count(b"HTTP/1.1 200") == 3


def test_what_nobody_waits_for_is_not_computed(server: Any) -> None:
    before = {name: server.counter("onepass_asks_total", outcome=name) for name in ("received", "left")}
    computed = server.counter("onepass_texts_computed_total")
    first = server.raw()
    first.sendall(request("fault:slow"))
    server.until(lambda: server.counter("onepass_asks_total", outcome="received") == before["received"] + 1)
    for _ in range(30):
        connection = server.raw()
        connection.sendall(request("goal"))
        # Sends a reset, as a killed client does.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    first.recv(1000)
    first.close()
    server.until(lambda: server.counter("onepass_queue_texts") == 0)
    assert server.predict("goal")[0] == 200
    assert server.counter("onepass_texts_computed_total") - computed <= 2 + 10


def test_no_text_is_ever_in_a_log_an_error_or_a_counter(server: Any) -> None:
    canary = "canary7f3a"
    for text in (canary, f"fault:raise {canary}", f"fault:nan {canary}", f"{canary} " * 3000):
        assert canary.encode() not in server.request("POST", "/predict", request(text).partition(b"\r\n\r\n")[2])[1]
        assert canary not in json.dumps(server.predict(text)[1])
        assert canary not in json.dumps(server.predict([text, 1])[1])
        assert canary not in json.dumps(server.post("/predict", {"inputs": {"a": text}})[1])
        assert canary not in json.dumps(server.post("/v1/moderations", {"input": text})[1])
    for start in range(0, 1024, 64):
        texts = [f"{canary} number {number}" for number in range(start, start + 64)]
        assert canary not in json.dumps(server.predict(texts)[1])
    for path in (f"/{canary}", f"/predict?{canary}", f"/v2/models/{canary}/ready"):
        server.get(path)
    server.request("POST", "/predict", f'{{"inputs": "{canary}'.encode(), {"Content-Type": "application/json"})
    assert canary not in server.get("/metrics")[1]
    assert canary not in server.log.read_text()
    assert re.search(r"worker: RuntimeError at .*faults\.py:\d+\n", server.log.read_text())  # but where it came from is
