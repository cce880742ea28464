"""Loaded by Python before anything else in a server under test: notes every file it opens and every address it calls.

Modules that ONEPASS_WITHOUT names, with spaces between them, are as if they were not installed.

One JSON list a line, in the file that ONEPASS_AUDIT names: what ("open", "connect" or "lookup"),
the path or address, and the process.
"""

import json
import os
import sys
from typing import Any

OURS = ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::")


def _noted(event: str, facts: tuple[Any, ...]) -> list[str] | None:
    if event == "open" and isinstance(facts[0], (str, bytes)):
        return ["open", os.path.realpath(os.fsdecode(facts[0]))]
    if event == "socket.connect" and isinstance(facts[1], tuple) and facts[1][0] not in OURS:
        return ["connect", str(facts[1])]
    if event == "socket.getaddrinfo" and facts[0] not in (None, *OURS, *(name.encode() for name in OURS)):
        return ["lookup", str(facts[0])]
    return None


def _hook(event: str, facts: tuple[Any, ...]) -> None:
    if noted := _noted(event, facts):
        os.write(_LOG, json.dumps([*noted, os.getpid()]).encode() + b"\n")


for _name in os.environ.get("ONEPASS_WITHOUT", "").split():
    sys.modules[_name] = None  # type: ignore[assignment]

if "ONEPASS_AUDIT" in os.environ:
    _LOG = os.open(os.environ["ONEPASS_AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    sys.addaudithook(_hook)
