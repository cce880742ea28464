"""Connections with absolute deadlines and limits, which uvicorn does not have.

uvicorn's keep-alive timer starts anew with every byte, so that a client who sends a byte a second holds a connection
for ever, and nothing in an application can end that. Here a request's head and its body each have a fixed time, and so
has a client who does not read the answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from onepass.server.metrics import Metrics
from onepass.server.settings import Settings

SMALL_CHUNKS = 64 * 1024
"""Bytes after which a body must be more than framing: each chunk costs time, and a flood of tiny ones costs much"""


class Joined:
    """A transport that sends what is written within one turn of the loop at once: a head and its body in one go."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop):
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if data:
            if not self._parts:
                self._loop.call_soon(self._flush)
            self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def guarded_protocol(settings: Settings, metrics: Metrics) -> type[H11Protocol]:
    """The protocol with these limits."""
    addresses: Counter[str] = Counter()

    class Guarded(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None
        _phase = ""
        _received = 0
        _useful = 0
        _counted = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(Joined(transport, self.loop))  # type: ignore[arg-type]
            address = self.client[0] if self.client else ""
            addresses[address] += 1
            self._counted = True
            if len(self.connections) > settings.max_connections:
                self._end("too_many", b"503 Service Unavailable")
            elif addresses[address] > settings.max_connections_per_address:
                self._end("too_many_of_one", b"429 Too Many Requests")
            else:
                self._enter("head", settings.header_s)

        def connection_lost(self, exc: Exception | None) -> None:
            self._enter("")
            if self._counted:
                address = self.client[0] if self.client else ""
                addresses[address] -= 1
                if not addresses[address]:
                    del addresses[address]
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            if not self._phase and self.conn.their_state is h11.IDLE:
                self._enter("head", settings.header_s)
            self._received += len(data)
            super().data_received(data)
            self._follow()
            if self._phase == "body" and self._received > SMALL_CHUNKS and self._useful * 2 < self._received:
                self._end("small_chunks", b"400 Bad Request")

        def handle_events(self) -> None:
            before = len(self.cycle.body) if self.cycle else 0
            super().handle_events()
            self._useful += max(0, len(self.cycle.body) - before) if self.cycle else 0
            self._follow()

        def send_400_response(self, msg: str) -> None:
            try:
                super().send_400_response(msg)
            except h11.LocalProtocolError:  # an answer is on its way already, and cannot be taken back
                self.transport.close()
            if self.cycle is not None:  # whoever handles the request learns that nobody hears the answer
                self.cycle.disconnected = True
                self.cycle.message_event.set()

        def _follow(self) -> None:
            """Start and stop the clock as the request moves on."""
            state = self.conn.their_state
            if state is h11.SEND_BODY and self._phase != "body":
                self._received = self._useful = 0
                self._enter("body", settings.body_s)
            elif state is not h11.SEND_BODY and (state is not h11.IDLE or self._phase == "body"):
                self._enter("")

        def _enter(self, phase: str, seconds: float = 0.0) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
            self._phase = phase
            self._deadline = self.loop.call_later(seconds, self._late) if phase else None

        def _late(self) -> None:
            phase, self._deadline = self._phase, None
            if phase == "write":
                metrics.closed.labels("slow_reader").inc()
                self.transport.abort()
            else:
                self._end(f"slow_{phase}", b"408 Request Timeout")

        def _end(self, reason: str, status: bytes) -> None:
            metrics.closed.labels(reason).inc()
            if not (self.cycle and self.cycle.response_started and not self.cycle.response_complete):
                self.transport.write(
                    b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n"
                )
            self.transport.close()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._enter("write", settings.body_s)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._phase == "write":
                self._enter("")

    return Guarded
