"""The routes of the server."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onepass import __version__
from onepass.server.admin import add_admin_routes
from onepass.server.body import Left, tasks_of, texts_of
from onepass.server.compatible import add_compatible_routes
from onepass.server.keys import Guesses
from onepass.server.replies import Refused, reply
from onepass.server.schemas import ERRORS, INFO, PREDICT, PREDICTED, TASKS, body_schema
from onepass.server.service import Answered, Service
from onepass.server.settings import is_loopback

log = logging.getLogger("onepass.server.access")
Endpoint = Callable[[Request], Awaitable[Response]]
LEFT = 499  # the status of requests whose client did not wait
PAGE = Path(__file__).parent / "page"
FILES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    ),
]


def create_app(service: Service) -> ASGIApp:
    """The application around a service."""
    app = FastAPI(
        title="onepass", version=__version__, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False,
        description="Labels texts for many tasks in one forward pass.",
    )  # fmt: skip

    @app.post("/predict", responses={200: PREDICTED, **ERRORS}, openapi_extra=body_schema(PREDICT), tags=["labels"])
    async def predict(request: Request) -> Response:
        """Label a text, a row, or a list of texts, pairs of texts and rows, for all tasks or for those named."""
        key, body = await service.read(request, ("inputs", "tasks"))
        texts = texts_of(body.get("inputs"), service.settings, rows=True)
        tasks = tasks_of(body.get("tasks"), service.generation().tasks, texts)
        answered = await service.ask(request, key, texts, tasks)
        if len(texts) == 1 and (fault := answered.fault(0)):
            raise fault
        return reply(predicted(service, answered))

    @app.get("/tasks", responses={200: TASKS, **ERRORS}, tags=["model"])
    async def tasks(request: Request) -> Response:
        """The tasks that are served, with their labels and versions."""
        service.key(request.headers)
        generation = service.generation()
        return reply({"revision": generation.revision, "tasks": list(generation.tasks.values())})

    @app.get("/info", responses={200: INFO, **ERRORS}, tags=["model"])
    async def info(request: Request) -> Response:
        """What is served, by which version, and how long a pass takes."""
        service.key(request.headers)
        generation, settings = service.generation(), service.settings
        facts = generation.facts
        return reply(
            {
                "name": service.name,
                "version": __version__,
                "revision": generation.revision,
                "refused": service.pool.refused,
                "tasks": len(generation.tasks),
                "encoder": facts["encoder"],
                "method": facts["method"],
                "max_tokens": facts["max_length"],
                "pass_ms": facts["times"]["pass_ms"],
                "one_task_ms": facts["times"]["one_task_ms"],
                "limits": {
                    key: getattr(settings, key)
                    for key in ("max_texts", "max_body_bytes", "max_characters", "deadline_s", "max_wait_s")
                },
                "admin": bool(service.admin_keys),
                "workers": [worker.number for worker in generation.workers],
                "uptime_s": round(time.time() - service.started, 1),
            }
        )

    @app.get("/livez", tags=["health"], responses={200: {"description": "The server runs."}})
    async def livez() -> Response:
        """Whether the server itself runs; says nothing of the model."""
        return reply({"alive": True})

    @app.get("/readyz", tags=["health"], responses={200: {"description": "Ready"}, 503: {"description": "Not ready"}})
    async def readyz() -> Response:
        """Whether texts are answered: a real pass ended within seconds, and a worker is alive now."""
        why = service.pool.why_not_ready()
        return reply({"ready": why is None, "reason": why}, 200 if why is None else 503)

    @app.get("/metrics", tags=["health"], responses={200: {"content": {"text/plain": {}}, "description": "Counters"}})
    async def metrics(request: Request) -> Response:
        """Counters in Prometheus' format."""
        service.key(request.headers)
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    add_compatible_routes(app, service)
    if service.admin_keys:
        add_admin_routes(app, service, service.changes)
    for path, name in [
        ("/", "index.html"),
        ("/docs", "docs.html"),
        *((f"/page/{f.name}", f.name) for f in PAGE.iterdir()),
    ]:
        app.get(path, include_in_schema=False)(_fixed((PAGE / name).read_bytes(), FILES[Path(name).suffix]))
    app.get("/openapi.json", include_in_schema=False)(_fixed(json.dumps(app.openapi()).encode(), "application/json"))
    return Guard(app, service, {"/predict": predict})


def predicted(service: Service, answered: Answered) -> bytes:
    """The body of an answer: the workers' JSON as it is, with what holds for the whole request around it."""
    ask = answered.ask
    parts = []
    for place, result in enumerate(ask.results):
        if fault := answered.fault(place):
            parts.append(fault.body())
        else:
            parts.append(result[:-1] + b', "tokens": %d}' % ask.sizes[place])
    head = {"model": service.name, "revision": answered.generation.revision}
    times = {"queue_ms": round(ask.queue_ms, 3), "run_ms": round(ask.run_ms, 3)}
    start = json.dumps(head)[:-1].encode()
    return start + b', "times": ' + json.dumps(times).encode() + b', "results": [' + b", ".join(parts) + b"]}"


def _fixed(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    """A route that always answers the same; made once, since those who need no key may ask for it often."""

    async def send() -> Response:
        return Response(content, media_type=kind)

    return send


class Guard:
    """Around everything: who may talk to us, what the answers' headers are, one line a request without any text."""

    def __init__(self, app: FastAPI, service: Service, direct: Mapping[str, Endpoint]):
        """`direct` are routes for POST that are asked so often that finding them through the framework would cost."""
        self.app, self.service, self.direct = app, service, direct
        self.guesses = Guesses()
        app.add_exception_handler(HTTPException, _plain)
        app.add_exception_handler(Refused, self._refused)
        app.add_exception_handler(Left, _left)
        app.add_exception_handler(Exception, _fault)
        host = service.settings.host
        self.hosts = (
            {"localhost", "127.0.0.1", "[::1]", host, f"[{host}]"} if not service.keys and is_loopback(host) else None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status = time.perf_counter(), 0
        method = scope["method"] if re.fullmatch("[A-Z]{3,7}", scope["method"]) else "?"
        if method == "HEAD":  # uvicorn leaves the body out
            scope = {**scope, "method": "GET"}
        direct = self.direct.get(scope["path"]) if scope["method"] == "POST" else None

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            if not self._knows_host(scope):
                words = "Without keys a server answers to names of its own machine only, such as Host: localhost."
                refused = Refused(403, "host", f"{words} Give it keys (--keys), or let the proxy send such a name.")
                await refused.reply(scope["path"])(scope, receive, sending)
            elif direct:
                request = Request(scope, receive)
                await (await self._answer(direct, request))(scope, receive, sending)
            else:
                await self.app(scope, receive, sending)
        except asyncio.CancelledError:  # the server ends, and its time to answer is over
            if status:
                raise
            answer = Refused(503, "stopping", "The server ended before there was an answer.").reply(scope["path"])
            answer.headers["connection"] = "close"
            await answer(scope, receive, sending)
        except Exception:  # noqa: BLE001  told and answered by _fault, and raised again by the framework
            pass
        finally:
            # The route as it is declared: a path that somebody made up could be a text.
            route = scope["path"] if direct else getattr(scope.get("route"), "path", "(none)")
            seconds = time.perf_counter() - start
            self.service.metrics.count_request(route, status, seconds)
            if not self.service.settings.quiet:
                log.info("%s %s %d %.1f ms", method, route, status, 1000 * seconds)

    async def _answer(self, endpoint: Endpoint, request: Request) -> Response:
        """What the framework would answer."""
        try:
            return await endpoint(request)
        except Refused as error:
            return await self._refused(request, error)
        except Left as error:
            return await _left(request, error)
        except Exception as error:  # noqa: BLE001  told and answered
            return await _fault(request, error)

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        if error.status == 401:
            await self.guesses.hold()
        return error.reply(request.url.path)

    def _knows_host(self, scope: Scope) -> bool:
        """Without keys, only names of this machine: another site's name could be made to lead here."""
        if self.hosts is None:
            return True
        given = next((value for name, value in scope["headers"] if name == b"host"), b"localhost").decode("latin-1")
        return re.sub(r":\d+$", "", given) in self.hosts


async def _plain(request: Request, error: Exception) -> Response:
    """Starlette's own errors, 404 and 405, in our shape."""
    assert isinstance(error, HTTPException)
    answer = Refused(error.status_code, "http", str(error.detail)).reply(request.url.path)
    answer.headers.update(error.headers or {})
    return answer


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=LEFT)  # nobody reads it; it is for the log


async def _fault(request: Request, error: Exception) -> Response:
    """Our own mistake: no traceback with a text in it, neither for the client nor in the log."""
    where = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-4:]]
    logging.getLogger("onepass.server").error("a fault: %s at %s", type(error).__name__, ", ".join(where))
    return Refused(500, "fault", "A fault in the server. Its log says where.").reply(request.url.path)
