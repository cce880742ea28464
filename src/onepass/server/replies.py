"""How the server answers: an error has a status, a code and a sentence, and never a piece of a text."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import Response

KSERVE = "/v2"
"""How the paths of KServe's protocol begin"""


class Refused(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: int, code: str, message: str, *, retry_s: float | None = None, **facts: Any):
        super().__init__(message)
        self.status, self.code, self.message, self.retry_s, self.facts = status, code, message, retry_s, facts

    def body(self) -> bytes:
        return json.dumps({"error": {"code": self.code, "message": self.message, **self.facts}}).encode()

    def reply(self, path: str) -> Response:
        """The answer to a request for a path, in the shape that its protocol has for errors."""
        told = {"error": self.message} if path.startswith(KSERVE) else self.body()
        return reply(told, self.status, self.headers())

    def headers(self) -> dict[str, str]:
        """Retry-After where waiting helps; Connection: close where a body may be left unread, or wrong keys follow."""
        headers = {}
        if self.retry_s is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_s)))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.status in (401, 408, 413):
            headers["connection"] = "close"
        return headers


def invalid(message: str, **facts: Any) -> Refused:
    """A request that is understood but wrong."""
    return Refused(422, "invalid", message, **facts)


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    body = value if isinstance(value, bytes) else json.dumps(value, allow_nan=False).encode()
    return Response(body, status, headers, media_type="application/json")
