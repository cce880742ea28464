"""Bodies that are too large, from clients that wait, send on, or stand still."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from onepass.server import body
from onepass.server.body import read_body
from onepass.server.replies import Refused

LIMIT = 10


def read(*parts: bytes, more: bool = False, **headers: str) -> tuple[bytes | int, int]:
    """The body of a request that comes in these parts, or the status that refuses it; and how many were taken.

    With `more` the client promises another part and never sends it.
    """
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages[-1:] = [{**message, "more_body": more} for message in messages[-1:]]
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        if taken == len(messages):
            await asyncio.Event().wait()
        taken += 1
        return messages[taken - 1]

    async def answer() -> bytes | int:
        names = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        try:
            return await read_body(Request({"type": "http", "headers": names}, receive), LIMIT)
        except Refused as refused:
            return refused.status

    async def bounded() -> bytes | int:
        return await asyncio.wait_for(answer(), 60)

    return asyncio.run(bounded()), taken


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "PATIENCE_S", 0.01)


def test_a_client_that_asks_before_it_sends_too_much_is_not_told_to_send_it() -> None:
    assert read(b"x" * 11, content_length="11", expect="100-Continue") == (413, 0)
    assert read(b"x" * 10, content_length="10", expect="100-continue") == (b"x" * 10, 1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("parts", [(), (b"x",), (b"x" * 11,)], ids=["nothing", "little", "too much"])
def test_a_client_that_stands_still_before_too_much_is_sent_is_refused_all_the_same(parts: tuple[bytes, ...]) -> None:
    assert read(*parts, more=True, content_length="11") == (413, len(parts))


@pytest.mark.usefixtures("impatient")
def test_a_client_that_stands_still_after_it_sent_too_much_is_refused_all_the_same() -> None:
    assert read(b"x" * 10, b"x", more=True) == (413, 2)


def test_what_is_a_little_too_much_is_passed_over_and_not_more() -> None:
    assert read(b"x" * 9, b"x" * 9, b"x") == (413, 3)
    assert read(*[b"x" * 9] * 9) == (413, 3)
    assert read(b"x" * 5, b"x" * 5) == (b"x" * 10, 2)
