"""Reading what a request asks: bounded, strict, and without repeating any of it in an error."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request

from onepass.errors import unknown
from onepass.server.replies import Refused, invalid
from onepass.server.settings import Settings

MAX_NAMES = 10_000
SHOWN = 64  # characters of a name in an error; names are not texts, but could be


class Left(Exception):
    """The client is gone."""


async def read_body(request: Request, limit: int) -> bytes:
    """A request's body, refused as soon as it is known to be too large."""
    too_large = Refused(413, "too_large", f"The body has more than {limit:,} bytes.")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "encoded", "Content-Encoding is not supported. Send the body as it is.")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise too_large
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > limit:
                raise too_large
    except ClientDisconnect:
        raise Left from None
    return bytes(body)


async def read_json(request: Request, limit: int, allowed: Collection[str] | None = None) -> dict[str, Any]:
    """The JSON object that a request holds, with no other keys than `allowed`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # also keeps other sites' forms from asking a server on this machine
        raise Refused(415, "not_json", "Send JSON, with Content-Type: application/json.")
    body = parse_json(await read_body(request, limit))
    if not isinstance(body, dict):
        raise invalid(f"The body is {_kind(body)}; needed: an object.")
    if allowed is not None and (others := [key for key in body if key not in allowed]):
        raise invalid(unknown("key", others[0][:SHOWN], allowed))
    return body


def parse_json(body: bytes) -> Any:
    """A value from UTF-8 JSON."""
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise Refused(400, "too_deep", "The JSON is nested too deeply.") from None
    except UnicodeDecodeError as error:
        raise Refused(400, "bad_json", f"The body is not UTF-8: byte {error.start}.") from None
    except json.JSONDecodeError as error:
        raise Refused(400, "bad_json", f"The body is no JSON: line {error.lineno}, column {error.colno}.") from None
    except ValueError:  # a number of a million digits, or NaN
        raise Refused(400, "bad_json", "The body holds a number that is none.") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def texts_of(value: Any, settings: Settings, key: str = "inputs") -> list[Any]:
    """The texts asked about: a string, or a list of strings and of pairs of strings."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise invalid(f"{key} is {_kind(value)}; needed: a text, or a list of texts and of pairs [text, text].")
    if len(texts) > settings.max_texts:
        raise Refused(413, "too_many", f"{key} holds {len(texts):,} texts; at most {settings.max_texts:,} are taken.")
    for place, text in enumerate(texts):
        parts = [text] if isinstance(text, str) else text
        if not isinstance(parts, list) or not 0 < len(parts) < 3 or not all(isinstance(part, str) for part in parts):
            raise invalid(f"{key}[{place}] is {_kind(text)}; needed: a text, or a pair [text, text].")
        if sum(map(len, parts)) > settings.max_characters:
            raise Refused(
                413, "too_long", f"{key}[{place}] has more than {settings.max_characters:,} characters.", place=place
            )
    return [text if isinstance(text, str) else text[0] if len(text) == 1 else text for text in texts]


def tasks_of(value: Any, known: Mapping[str, Mapping[str, Any]], texts: Sequence[Any]) -> list[str] | None:
    """The tasks asked, each once; None for all that fit."""
    widths = {1 if isinstance(text, str) else len(text) for text in texts}
    if value is None:
        names = list(known)
        for width in widths:
            if not any(len(known[name]["text"]) == width for name in names):
                raise invalid(f"No task reads {'a single text' if width == 1 else 'a pair of texts'}. See GET /tasks.")
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise invalid(f"tasks is {_kind(value)}; needed: a list of names, or nothing for all tasks.")
    if not value or len(value) > MAX_NAMES:
        raise invalid(f"tasks holds {len(value)} names; possible: 1 to {MAX_NAMES}, or nothing for all tasks.")
    names = list(dict.fromkeys(value))
    if missing := [name for name in names if name not in known]:
        raise invalid(unknown("task", missing[0][:SHOWN], known), task=missing[0][:SHOWN])
    for width in widths:
        if unfit := [name for name in names if len(known[name]["text"]) != width]:
            given = "a single text" if width == 1 else "a pair of texts"
            raise invalid(f"Task {unfit[0]!r} reads {len(known[unfit[0]]['text'])} texts, not {given}.", task=unfit[0])
    return names


def deadline_of(headers: Mapping[str, str], most: float) -> float:
    """Seconds a request may take."""
    given = headers.get("x-deadline-ms")
    if given is None:
        return most
    if not given.isascii() or not given.isdigit() or not int(given[:12]) > 0 or len(given) > 12:
        raise invalid("X-Deadline-Ms is no whole number of milliseconds from 1.")
    return min(most, int(given) / 1000)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "missing or null"}
    return ("an empty " + names[type(value)][2:]) if value in ([], {}, "") else names.get(type(value), "a number")
