"""Reading what a request asks: bounded, strict, and without repeating any of it in an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request

from onepass.errors import unknown
from onepass.server.forms import Form, fits, form_of
from onepass.server.replies import Refused, invalid
from onepass.server.settings import Settings

PATIENCE_S = 0.5  # for the rest of a body that is too large
MAX_NAMES = 10_000
MOST_COLUMNS = 64
SHOWN = 64  # characters of a name in an error; names are not texts, but could be


class Left(Exception):
    """The client is gone."""


async def read_body(request: Request, limit: int) -> bytes:
    """A request's body, refused as soon as it is known to be too large."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "encoded", "Content-Encoding is not supported. Send the body as it is.")
    length = request.headers.get("content-length", "")
    keep = not (length.isdigit() and int(length) > limit)
    if not keep and request.headers.get("expect", "").lower() == "100-continue":
        raise _too_large(limit)  # the client waits to be told, and reading would tell it to send
    body, received = bytearray(), 0
    try:
        async with asyncio.timeout(None if keep else PATIENCE_S) as patience:
            async for part in request.stream():
                received += len(part)
                if keep and received > limit:
                    keep = False
                    patience.reschedule(asyncio.get_running_loop().time() + PATIENCE_S)
                if keep:
                    body += part
                # A client that is still sending would not read the answer: what is a little too much is passed over.
                elif received > 2 * limit:
                    break
    except ClientDisconnect:
        raise Left from None
    except TimeoutError:  # only what is too large has a time here
        raise _too_large(limit) from None
    if not keep:
        raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> Refused:
    return Refused(413, "too_large", f"The body has more than {limit:,} bytes.")


async def read_json(request: Request, limit: int, allowed: Collection[str] | None = None) -> dict[str, Any]:
    """The JSON object that a request holds, with no other keys than `allowed`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Some clients name no kind. Of a browser that could be a page of another site, which may not ask this machine.
    if kind != "application/json" and (kind or "origin" in request.headers):
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


def texts_of(value: Any, settings: Settings, key: str = "inputs", rows: bool = False) -> list[Any]:
    """What is asked about: a text, or a list of texts and of pairs of texts; with `rows` also objects with columns."""
    texts = [value] if isinstance(value, str) or (rows and isinstance(value, dict)) else value
    needed = "a text, or a pair [text, text]" + (", or a row {column: value}" if rows else "")
    if not isinstance(texts, list) or not texts:
        raise invalid(f"{key} is {_kind(value)}; needed: {needed}, or a list of these.")
    if len(texts) > settings.max_texts:
        raise Refused(413, "too_many", f"{key} holds {len(texts):,} texts; at most {settings.max_texts:,} are taken.")
    for place, text in enumerate(texts):
        if not (_is_row(text) if rows and isinstance(text, dict) else _is_text(text)):
            raise invalid(f"{key}[{place}] is {_kind(text)}; needed: {needed}.", place=place)
        if sum(map(len, strings(text))) > settings.max_characters:
            raise Refused(
                413, "too_long", f"{key}[{place}] has more than {settings.max_characters:,} characters.", place=place
            )
    return [text[0] if isinstance(text, list) and len(text) == 1 else text for text in texts]


def strings(text: Any) -> list[str]:
    """The texts in an input."""
    if isinstance(text, str):
        return [text]
    found = []
    for value in text.values() if isinstance(text, dict) else text:
        found += value if isinstance(value, list) else [value]
    return [value for value in found if isinstance(value, str)]


def _is_text(text: Any) -> bool:
    parts = [text] if isinstance(text, str) else text
    return isinstance(parts, list) and 0 < len(parts) < 3 and all(isinstance(part, str) for part in parts)


def _is_row(row: dict[str, Any]) -> bool:
    """Whether an object has columns with plain values, or lists of them."""
    values = [item for value in row.values() for item in (value if isinstance(value, list) else [value])]
    return 0 < len(row) <= MOST_COLUMNS and all(
        value is None or isinstance(value, (str, int, float)) for value in values
    )


def tasks_of(value: Any, known: Mapping[str, Mapping[str, Any]], texts: Sequence[Any]) -> list[str] | None:
    """The tasks asked, each once; None for all that fit."""
    forms = {form_of(text) for text in texts}
    if value is None:
        for form in forms:
            if not any(fits(form, task) for task in known.values()):
                raise invalid(f"No task reads {_form(form)}. GET /tasks tells what they read.")
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise invalid(f"tasks is {_kind(value)}; needed: a list of names, or nothing for all tasks.")
    if not value or len(value) > MAX_NAMES:
        raise invalid(f"tasks holds {len(value)} names; possible: 1 to {MAX_NAMES}, or nothing for all tasks.")
    names = list(dict.fromkeys(value))
    if missing := [name for name in names if name not in known]:
        raise invalid(unknown("task", missing[0][:SHOWN], known), task=missing[0][:SHOWN])
    for form in forms:
        if unfit := [name for name in names if not fits(form, known[name])]:
            reads = " and ".join(known[unfit[0]]["reads"])
            raise invalid(f"Task {unfit[0]!r} reads {reads}, not {_form(form)}.", task=unfit[0])
    return names


def _form(form: Form) -> str:
    texts, _ = form  # names of columns are not repeated: they came with the request
    return ("a row with these columns", "a single text", "a pair of texts")[texts]


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
    name = names.get(type(value), "a number")
    return f"an empty {name.partition(' ')[2]}" if value in ([], {}, "") else name
