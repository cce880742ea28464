"""Messages between the server and a worker: a JSON head and bytes, each with its length before it."""

from __future__ import annotations

import json
import socket
import struct
from asyncio import StreamReader
from typing import Any

_LENGTHS = struct.Struct("!II")
MAX_BYTES = 512 * 2**20


def frame(head: dict[str, Any], body: bytes = b"") -> bytes:
    """A message as bytes; half of a surrogate pair survives as an escape."""
    text = json.dumps(head, separators=(",", ":")).encode("ascii")
    return _LENGTHS.pack(len(text), len(body)) + text + body


async def read_frame(reader: StreamReader) -> tuple[dict[str, Any], bytes]:
    """The next message; IncompleteReadError at the end."""
    head, body = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
    return json.loads(await reader.readexactly(head)), await reader.readexactly(body) if body else b""


def receive(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    """The next message, for a process that may wait; EOFError at the end."""
    head, body = _LENGTHS.unpack(_exactly(connection, _LENGTHS.size))
    return json.loads(_exactly(connection, head)), _exactly(connection, body)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
