"""Requests made at random: whatever comes in, the server answers in its own shape and never with a fault of its own.

The long form is `make fuzz`: 10,000 cases of schemathesis for each endpoint, and 10,000 requests of broken bytes.
"""

import contextlib
import json
import os
import random
import re
import socket
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=40)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
TEXTS = st.text(st.characters(), max_size=60)
TENSOR = st.fixed_dictionaries(
    {},
    optional={
        "name": TEXTS,
        "shape": st.lists(st.integers(0, 3), max_size=3) | VALUES,
        "datatype": st.sampled_from(["BYTES", "FP32"]) | VALUES,
        "data": st.lists(TEXTS, max_size=3) | VALUES,
    },
)
BODIES = {
    "/predict": st.fixed_dictionaries(
        {},
        optional={
            "inputs": TEXTS | st.lists(TEXTS | st.lists(TEXTS, max_size=3), max_size=4) | VALUES,
            "tasks": st.lists(st.sampled_from(["topic", "tone", "same", "nothing"]), max_size=3) | VALUES,
        },
    ),
    "/classify": st.fixed_dictionaries(
        {},
        optional={
            "input": TEXTS | VALUES,
            "task": st.sampled_from(["topic", "tone", "same"]) | VALUES,
            "model": VALUES,
        },
    ),
    "/v1/moderations": st.fixed_dictionaries({}, optional={"input": TEXTS | st.lists(TEXTS, max_size=3) | VALUES}),
    "/v2/models/model/infer": st.fixed_dictionaries(
        {}, optional={"id": VALUES, "inputs": st.lists(TENSOR, max_size=3) | VALUES, "outputs": VALUES}
    ),
}


def check(server: Any, path: str, body: bytes, headers: dict[str, str]) -> None:
    status, answer, found = server.request("POST", path, body, headers)
    assert status < 500, answer
    assert found["content-type"] == "application/json"
    told = json.loads(answer)
    assert (status == 200) != ("error" in told)
    if status != 200 and path.startswith("/v2"):
        assert isinstance(told["error"], str)
    elif status != 200:
        assert isinstance(told["error"]["code"], str) and isinstance(told["error"]["message"], str)


def cases(number: int) -> Any:
    return settings(max_examples=number, deadline=None, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.parametrize("path", BODIES)
def test_json_of_about_the_right_shape(server: Any, path: str, request: pytest.FixtureRequest) -> None:
    @cases(60)
    @given(BODIES[path] | VALUES)
    def ask(value: Any) -> None:
        check(server, path, json.dumps(value).encode(), {"Content-Type": "application/json"})

    ask()


@cases(100)
@given(
    body=st.binary(max_size=200) | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    kind=st.sampled_from(["application/json", "application/json; charset=latin-1", "text/plain", ""]),
    deadline=st.none() | st.from_regex(r"[ -~]{0,14}", fullmatch=True),
)
def test_bytes_and_headers_of_any_shape(server: Any, body: bytes, kind: str, deadline: str | None) -> None:
    check(server, "/predict", body, {"Content-Type": kind} | ({} if deadline is None else {"X-Deadline-Ms": deadline}))


REQUESTS = [
    b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /tasks/topic/archive?x=1 HTTP/1.1\r\nHost: localhost\r\nX-API-Key: a\r\n\r\n",
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n"
    b'{"inputs": "goal"}',
    b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b'a\r\n{"inputs":\r\n8\r\n "goal"}\r\n0\r\n\r\n',
    b"PUT /tasks/x HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Type: text/csv\r\n"
    b"Content-Length: 10\r\n\r\ntext,label",
]
PIECES = [
    *(b"\r\n", b"\n", b"\0", b" ", b":", b"\xff", b"HTTP/1.1", b"HTTP/9.9", b"%00", b"/../", b"Content-Length: -1\r\n"),
    *(b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Connection: upgrade\r\n"),
    *(
        b"Upgrade: h2c\r\n",
        b"Host: a\r\n",
        b"X: " + b"y" * 70_000 + b"\r\n",
        b"ffffffffffff\r\n",
        b"Expect: 200-ok\r\n",
    ),
    *(
        b"Content-Type: multipart/form-data; boundary=a\r\n",
        b"Range: bytes=0-0,-1,5-\r\n",
        b"Cookie: " + b"a=b;" * 999 + b"\r\n",
    ),
]


def mutated(drawn: random.Random) -> bytes:
    """A request or two with bytes changed, left out, repeated and put in."""
    data = bytearray(b"".join(drawn.choices(REQUESTS, k=drawn.choice((1, 1, 2)))))
    for _ in range(drawn.randrange(1, 6)):
        place = drawn.randrange(len(data) + 1)
        end = min(len(data), place + drawn.randrange(1, 20))
        change = drawn.randrange(5)
        if change == 0:
            data[place:end] = b""
        elif change == 1:
            data[place:place] = drawn.choice(PIECES)
        elif change == 2:
            data[place:place] = data[place:end] * drawn.randrange(1, 5)
        elif change == 3:
            data[place:end] = drawn.randbytes(end - place)
        else:
            lines = bytes(data).split(b"\r\n")
            lines.insert(drawn.randrange(1, len(lines) + 1), drawn.choice(PIECES).strip())
            data = bytearray(b"\r\n".join(lines))
    return bytes(data)


def exchange(server: Any, data: bytes) -> bytes:
    """What the server says to these bytes until it or we close."""
    said = b""
    with contextlib.suppress(OSError), server.raw() as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            said += part
    return said


def fuzz_bytes(server: Any, number: int, seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(number):
        data = mutated(drawn)
        said = exchange(server, data)
        statuses = [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]
        assert all(status < 500 for status in statuses), (data, said[:200])
    assert server.predict("goal")[0] == 200
    assert "a fault:" not in server.log.read_text()  # of our own


def test_requests_with_broken_bytes(server: Any) -> None:
    fuzz_bytes(server, 150, seed=0)


# --- the long form: make fuzz ---------------------------------------------------------------------------------------

CASES = int(os.environ.get("ONEPASS_FUZZ_CASES", "10000"))
ENDPOINTS = [
    *("POST /predict", "GET /tasks", "GET /info", "GET /livez", "GET /readyz", "GET /metrics", "POST /classify"),
    *("GET /v1/models", "POST /v1/moderations"),
    *("GET /v2", "GET /v2/health/live", "GET /v2/health/ready", "GET /v2/models/{model}/ready"),
    *(
        "GET /v2/models/{model}",
        "POST /v2/models/{model}/infer",
        "POST /rollback",
        "GET /versions",
        "GET /jobs/{number}",
    ),
    *("POST /reload", "GET /tasks/{name}/archive", "DELETE /tasks/{name}", "PUT /tasks/{name}"),
]


def test_every_endpoint_is_fuzzed(live: Any) -> None:
    paths = live.get("/openapi.json")[1]["paths"]
    assert {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods} == set(ENDPOINTS)


def known(case: Any) -> Any:
    """The case with names that exist, which no schema knows: most others are told so before anything else happens."""
    names = {"model": "model", "name": "topic", "number": "1"}
    case.path_parameters = {key: names[key] for key in case.path_parameters or {}}
    if case.path == "/classify" and isinstance(case.body, dict):
        case.body["task"] = "topic"
    if case.path == "/predict" and isinstance(case.body, dict):
        case.body["tasks"] = ["topic", "tone"]
    return case


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_bytes_at_length(server: Any) -> None:
    fuzz_bytes(server, CASES, seed=random.SystemRandom().randrange(2**32))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_schemathesis(live: Any, endpoint: str) -> None:
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed; `make fuzz` does that")
    requests = pytest.importorskip("requests")
    # A schema cannot say which tasks there are, and which of them read pairs.
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    url = f"http://127.0.0.1:{live.port}"
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers={"X-API-Key": live.key})
    method, _, path = endpoint.partition(" ")
    operation, session, statuses = schema[path][method], requests.Session(), Counter()
    right, wrong = (operation.as_strategy(mode) for mode in schemathesis.GenerationMode)
    takes_anything = operation.body or operation.path_parameters or operation.query

    @cases(CASES)
    @given(case=right | right.map(known) | wrong if takes_anything else right)
    def ask(case: Any) -> None:
        answer = case.call(session=session, headers={"X-API-Key": live.key}, timeout=600)
        statuses[answer.status_code] += 1
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])
        assert answer.status_code < 500

    ask()
    sys.stderr.write(f"\n{endpoint}: {statuses.total()} cases {dict(sorted(statuses.items()))}\n")
    assert live.get("/livez")[0] == 200
    assert "a fault:" not in live.log.read_text()
