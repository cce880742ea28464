"""Keys, budgets, and who may listen where."""

import asyncio
import re
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onepass.errors import ConfigError
from onepass.server.keys import Guesses, Key, Keyring, hash_of, make_key
from onepass.server.replies import Refused
from onepass.server.settings import Settings


def test_a_key_is_found_by_its_hash_in_either_header(tmp_path: Path) -> None:
    key, line = make_key("ann")
    path = tmp_path / "keys"
    path.write_text(f"# who may ask\n{line} 500\n\nbob {hash_of('b').hex()}\n")
    ring = Keyring.read(path)
    assert key not in path.read_text()
    assert ring.find({"authorization": f"bearer {key}"}) is not None  # its spelling does not matter in HTTP
    found = ring.find({"authorization": f"Bearer {key}"})
    assert found is not None and (found.name, found.tokens_per_s) == ("ann", 500)
    assert ring.find({"x-api-key": "b"}) is ring.keys[1]
    assert all(ring.find(headers) is None for headers in ({}, {"x-api-key": key + "x"}, {"authorization": "Bearer "}))


def test_a_line_end_behind_a_plain_key_is_no_part_of_it() -> None:
    assert Keyring.read(None, "a key\n").find({"x-api-key": "a key"}) is not None
    assert not Keyring.read(None, "\n")


@pytest.mark.parametrize("key", ["schl\u00fcssel", "two\nlines", "\U0001f511", "tab\tbed"])
def test_a_key_that_no_client_could_send_is_refused_at_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match=r"ONEPASS_ADMIN_KEY holds other characters than .* openssl rand") as told:
        Keyring.read(None, key, "ONEPASS_ADMIN_KEY")
    assert key not in str(told.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ann plain-key-by-mistake", "line 1: not NAME SHA256"),
        (f"ann {'0' * 64} 0", "nothing"),
        (f"ann {'0' * 64}\nann {'1' * 64}", "there twice"),
        ("", "holds no key"),
    ],
)
def test_a_file_of_keys_says_what_is_wrong_without_showing_it(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as raised:
        Keyring.read(path)
    assert "plain-key" not in str(raised.value)


def test_a_budget_is_kept_within_five_percent() -> None:
    now = 0.0
    key = Key("ann", b"", tokens_per_s=1000, clock=lambda: now)
    used, waits = 0, []
    for step in range(60_000):  # a minute, asked ten times too often
        now = step / 1000
        try:
            key.charge(10)
            used += 10
        except Refused as error:
            waits.append(error.retry_s)
    assert used == pytest.approx(60_000, rel=0.05)
    assert waits and all(wait is not None and 0 <= wait < 1 for wait in waits)


def test_answers_to_wrong_keys_wait_the_longer_the_more_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def flood() -> int:
        over, guesses = asyncio.Event(), Guesses()

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await over.wait()

        monkeypatch.setattr("onepass.server.keys.asyncio.sleep", sleep)
        held = [asyncio.ensure_future(guesses.hold()) for _ in range(500)]
        while len(waits) < 500:
            await asyncio.wait(held, timeout=0.01)
        held[0].cancel()  # a client that leaves
        over.set()
        await asyncio.wait(held)
        return guesses.waiting

    assert asyncio.run(flood()) == 0
    assert 0.25 < waits[0] < 1 and waits[-1] == max(waits) == 15.0


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::"])
def test_other_machines_are_let_in_only_with_a_key(host: str) -> None:
    with pytest.raises(ConfigError, match="there is no key"):
        Settings(host=host).check(authenticated=False)
    Settings(host=host).check(authenticated=True)


def test_settings_out_of_bounds_are_named_together() -> None:
    with pytest.raises(ConfigError, match=r"(?s)--workers is 0.*--port is 70000"):
        Settings(workers=0, port=70000).check(authenticated=True)


def test_a_public_address_without_a_key_is_refused(start: Callable[..., Any]) -> None:
    server = start(host="0.0.0.0")
    assert server.process.wait(60) == 2
    assert "there is no key" in server.log.read_text()


def test_a_server_with_keys_and_its_end(start: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"ann {hash_of('a key').hex()}\npoor {hash_of('few').hex()} 3\n")
    server = start(keys=tmp_path / "keys", environment={"ONEPASS_SERVER_FAULTS": "1"})
    server.wait()
    assert server.predict("goal")[0] == server.get("/tasks")[0] == server.get("/metrics")[0] == 401
    assert server.get("/livez")[0] == server.get("/readyz")[0] == 200
    status, body = server.get("/v2/models/another/ready")
    assert status == 404 and body["error"] == "There is no model of this name."  # nor which there is
    assert server.get(f"/v2/models/{server.folder.name}/ready")[0] == 200
    with server.raw() as connection:  # what comes behind a wrong key is nobody's business
        connection.sendall(3 * b"GET /tasks HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"".join(iter(lambda: connection.recv(10_000), b"")).count(b"HTTP/1.1 401") == 1
    server.key = "few"
    assert server.predict("late goal wins")[0] == 200
    status, body, headers = server.request("POST", "/predict", b'{"inputs": "a"}', {"Content-Type": "application/json"})
    assert status == 429 and b"over_budget" in body and int(headers["retry-after"]) >= 1
    with server.raw() as connection:  # refused before the body is there, and then good for another request
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: a\r\nX-API-Key: few\r\nContent-Type: application/json\r\n"
            b"Content-Length: 15\r\n\r\n"
        )
        assert connection.recv(10_000).startswith(b"HTTP/1.1 429")
        connection.sendall(b'{"inputs": "a"}' + b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
        assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
    server.key = "a key"
    assert server.get("/tasks", Host="any.example")[0] == 200  # with keys, names do not matter

    with ThreadPoolExecutor(40) as threads:
        answers = [threads.submit(server.predict, "fault:slow") for _ in range(40)]
        server.until(lambda: server.counter("onepass_asks_total", outcome="received") >= 41)
        server.process.send_signal(signal.SIGTERM)
        assert [answer.result()[0] for answer in answers] == [200] * 40  # none of those accepted is lost
    assert server.process.wait(30) == 0
    assert not re.search("a key|few", server.log.read_text())


def test_requests_whose_bodies_still_come_are_under_way(start: Callable[..., Any], served: Path) -> None:
    server = start(served, environment={"ONEPASS_API_KEY": "a key"}, max_requests_per_key=2).wait()
    server.key = "a key"
    head = b"POST /predict HTTP/1.1\r\nHost: a\r\nX-API-Key: a key\r\nContent-Type: application/json\r\n"
    with server.raw() as first, server.raw() as second:
        for connection in (first, second):
            connection.sendall(head + b'Content-Length: 18\r\n\r\n{"inputs"')
        server.until(lambda: server.predict("goal")[0] == 429)
        for connection in (first, second):
            connection.sendall(b': "goal"}')
            assert connection.recv(10_000).startswith(b"HTTP/1.1 200")
    assert server.predict("goal")[0] == 200


def test_a_terminal_that_is_closed_ends_the_server_as_sigterm_does(start: Callable[..., Any], served: Path) -> None:
    server = start(served, environment={"ONEPASS_SERVER_FAULTS": "1"}).wait()
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(server.predict, "fault:slow")
        server.until(lambda: server.counter("onepass_asks_total", outcome="received") >= 1)
        for _ in range(2):  # a shell sends one as well as the system
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.05)
        assert asked.result()[0] == 200
    assert server.process.wait(30) == 0


@pytest.mark.slow
def test_a_second_signal_ends_at_once(start: Callable[..., Any]) -> None:
    server = start(environment={"ONEPASS_SERVER_FAULTS": "1"}).wait()
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(server.predict, "fault:hang")
        server.until(lambda: server.counter("onepass_asks_total", outcome="received") >= 1)
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: "Stopping" in server.log.read_text())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(1) == 143
        with pytest.raises(OSError):
            asked.result()


@pytest.mark.parametrize("name", ["", "ann b", "a" * 65, "a/b"])
def test_a_key_that_could_not_be_read_back_is_not_made(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a key"):
        make_key(name)
