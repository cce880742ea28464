"""Connections with absolute deadlines and limits, which uvicorn does not have.

uvicorn's keep-alive timer starts anew with every byte, so that a client who sends a byte a second holds a connection
for ever, and nothing in an application can end that. Here a request's head and its body each have a fixed time, and so
has a client who does not read the answer.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from onepass.server.metrics import Metrics
from onepass.server.settings import Settings

SMALL_CHUNKS = 64 * 1024
"""Bytes after which a body must be more than framing: each chunk costs time, and a flood of tiny ones costs much"""
LONGEST_HEAD = 16 * 1024
"""Bytes of a request's line and headers"""
MOST_WAITING = 16
"""Requests that a client may send ahead on one connection, before the first is answered"""
EARLIEST = 0.75
"""Of a deadline: connections that began together are ended one by one, since ended ones come back at once"""


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


class Unwished:
    """A parser that passes over a wish for another protocol, with which many clients begin.

    The parser of httptools takes a request for over where it reads such a wish, and its body for the other protocol. It
    is begun again without the wish.
    """

    def __init__(self, protocol: HttpToolsProtocol):
        self._protocol, self._parser = protocol, httptools.HttpRequestParser(protocol)

    def feed_data(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as wish:
            if self._parser.get_method() == b"CONNECT":
                raise
            given = self._protocol
            lines = [b"%s %s HTTP/%s" % (self.get_method(), given.url, self.get_http_version().encode())]
            lines += [b"%s: %s" % header for header in given.headers if header[0] != b"upgrade"]
            self._parser = httptools.HttpRequestParser(given)
            self.feed_data(b"\r\n".join(lines) + b"\r\n\r\n" + data[wish.args[0] :])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


class Refusal(Exception):
    """Raised into the parser, which then refuses what follows: the answer is 400."""


def guarded_protocol(settings: Settings, metrics: Metrics) -> type[HttpToolsProtocol]:
    """The protocol with these limits."""
    addresses: Counter[str] = Counter()

    class Guarded(HttpToolsProtocol):
        _deadline: asyncio.TimerHandle | None = None
        _phase = ""
        _between = True
        """Whether the next byte begins a request"""
        _deaf = False
        """Whether what comes is passed over: it is no request that we could answer"""
        _whole: RequestResponseCycle | None = None
        """The last request that came in whole"""
        _head = 0
        _received = 0
        _useful = 0
        _counted = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(Joined(transport, self.loop))  # type: ignore[arg-type]
            self.parser = Unwished(self)  # type: ignore[assignment]
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
            # Requests know their connection: left to the garbage, hundreds of them would hold everybody up at once.
            self.cycle = self._whole = None  # type: ignore[assignment]
            self.pipeline.clear()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing() or self._deaf:
                return
            if self._between and not data.strip(b"\r\n"):  # an empty line begins no request
                return
            if self._between:
                self._between, self._head = False, 0
                self._enter("head", settings.header_s)
            self._received += len(data)
            if self._phase == "head":
                self._head += len(data)
            super().data_received(data)
            if self._phase == "head" and self._head > LONGEST_HEAD:
                self._end("long_head", b"431 Request Header Fields Too Large")
            elif self._phase == "body" and self._received > SMALL_CHUNKS and self._useful * 2 < self._received:
                self._end("small_chunks", b"400 Bad Request")

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._phase != "head":  # sent ahead, behind another request
                self._between, self._head = False, 0
                self._enter("head", settings.header_s)

        @property
        def _wishes(self) -> bool:
            """Whether the request that comes in will begin again, without its wish for another protocol."""
            return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

        def on_headers_complete(self) -> None:
            if self._wishes:
                return
            if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > LONGEST_HEAD:
                raise Refusal
            super().on_headers_complete()
            if len(self.pipeline) > MOST_WAITING:
                raise Refusal
            if self.parser.should_upgrade():  # CONNECT: what follows is no request
                self._deaf, self.cycle.keep_alive = True, False
            self._received = self._useful = 0
            self._enter("body", settings.body_s)

        def on_body(self, body: bytes) -> None:
            self._useful += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            if self._wishes:
                return
            super().on_message_complete()
            self._between, self._whole = True, self.cycle
            self._enter("")

        def send_400_response(self, msg: str) -> None:
            if self._answers_first():
                return
            if self._answering():  # what is on its way cannot be taken back
                self.transport.close()
            else:
                super().send_400_response(msg)
            for cycle in [self.cycle, *(cycle for cycle, _ in self.pipeline)]:
                if cycle is not None:  # whoever handles the request learns that nobody hears the answer
                    cycle.disconnected = True
                    cycle.message_event.set()

        def _answering(self) -> bool:
            """Whether a part of an answer is on its way."""
            return self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete

        def _answers_first(self) -> bool:
            """Whether requests that came in whole wait for answers, after the last of which the connection ends.

            What is wrong is not with them but with what came after: it is dropped, and so is all that follows.
            """
            if self._whole is None or self._whole.response_complete:
                return False
            if self.cycle is not self._whole:  # begun, and the last in line
                self.cycle.disconnected = True
                self.pipeline.popleft()
            self.cycle, self._whole.keep_alive, self._deaf = self._whole, False, True
            self._enter("write" if self.flow.write_paused else "", settings.body_s)
            return True

        def _enter(self, phase: str, seconds: float = 0.0) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
            self._phase = phase
            share = random.uniform(EARLIEST, 1.0)
            self._deadline = self.loop.call_later(share * seconds, self._late) if phase else None

        def _late(self) -> None:
            phase, self._deadline = self._phase, None
            if phase == "write":
                metrics.closed.labels("slow_reader").inc()
                self.transport.abort()
            else:
                self._end(f"slow_{phase}", b"408 Request Timeout")

        def _end(self, reason: str, status: bytes) -> None:
            metrics.closed.labels(reason).inc()
            if self._answers_first():
                return
            if not self._answering():
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
