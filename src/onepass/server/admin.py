"""The routes that change tasks. They exist only where there is an admin key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from onepass.data.files import column_names, read_chunks
from onepass.errors import ConfigError, DataError, OnepassError
from onepass.server.archive import KINDS, pack, unpack
from onepass.server.body import parse_json, read_body, read_json
from onepass.server.changes import Changes, Job, scratch
from onepass.server.replies import Refused, invalid, reply
from onepass.server.schemas import ERRORS, JOB, LEARN, LEARN_OPTIONS, ROLLBACK, VERSIONS, body_schema
from onepass.server.service import Service
from onepass.server.versions import kept
from onepass.tasks import NAME

RESPONSES: dict[int | str, dict[str, Any]] = {200: JOB, 202: JOB, **ERRORS}
ARCHIVE = {"content": {"application/zip": {}}, "description": "The task"}
ROWS = ("application/json", "text/csv")
LEARNED_KEYS = ("rows", "kind", "labels", "metric", "options")


def add_admin_routes(app: FastAPI, service: Service, changes: Changes) -> None:
    """Give the application these routes."""
    settings = service.settings

    def check(request: Request, name: str | None = None) -> None:
        if service.admin_keys.find(request.headers) is None:
            service.metrics.refused_keys.inc()
            raise Refused(401, "unauthorised", "Send an admin key: Authorization: Bearer KEY, or X-API-Key: KEY.")
        if name is not None and not NAME.fullmatch(name):
            raise invalid("This is no task name. Possible: a-z, 0-9, '.', '_', '-', the first a letter or a digit.")
        if request.query_params.get("wait", "0") not in ("0", "1"):
            raise invalid("wait is neither 0 nor 1.")

    async def told(request: Request, job: Job, wait: bool) -> Response:
        if request.query_params.get("wait", "1" if wait else "0") == "1":
            await job.over.wait()
        if job.state == "failed":
            raise Refused(409, "refused", job.message, job=job.told())
        return reply(job.told(), 200 if job.over.is_set() else 202)

    @app.put(
        "/tasks/{name}",
        responses=RESPONSES,
        tags=["tasks"],
        openapi_extra={"requestBody": {"required": True, "content": LEARN}, "parameters": LEARN_OPTIONS},
    )
    async def put_task(request: Request, name: str) -> Response:
        """Teach a task from labelled rows (JSON or csv), or install one from an archive; follow it at /jobs/NUMBER."""
        check(request, name)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await read_body(request, settings.max_upload_bytes)
        if kind in KINDS:
            with scratch() as place:
                try:
                    await asyncio.to_thread(unpack, body, place / "archived", settings.max_upload_bytes)
                except OnepassError as error:
                    raise Refused(422, "bad_archive", str(error)) from None
                job = changes.begin("install", name, place, archived=str(place / "archived"))
            return await told(request, job, wait=True)
        if kind not in ROWS:
            raise Refused(415, "kind", f"Send {', '.join(ROWS)} or an archive: {', '.join(KINDS)}.")
        with scratch() as place:
            # In a thread: many rows take seconds to read, and other requests go on meanwhile.
            facts = await asyncio.to_thread(_learned, body, kind, request.query_params, place)
            job = changes.begin("learn", name, place, **facts)
        return await told(request, job, wait=False)

    @app.delete("/tasks/{name}", responses=RESPONSES, tags=["tasks"])
    async def delete_task(request: Request, name: str) -> Response:
        """Remove a task."""
        check(request, name)
        if name not in service.generation().tasks:
            raise Refused(404, "unknown_task", "There is no task of this name.")
        return await told(request, changes.begin("remove", name), wait=True)

    @app.get("/tasks/{name}/archive", responses={200: ARCHIVE, **ERRORS}, tags=["tasks"])
    async def archive(request: Request, name: str) -> Response:
        """A task as a file, to be put into another model with the same encoder."""
        check(request, name)
        try:
            data = await asyncio.to_thread(pack, service.folder, name)
        except ConfigError as error:
            raise Refused(404, "unknown_task", str(error)) from None
        except OnepassError as error:
            raise Refused(409, "refused", str(error)) from None
        return Response(
            data, media_type="application/zip", headers={"content-disposition": f'attachment; filename="{name}.zip"'}
        )

    @app.post("/reload", responses=RESPONSES, tags=["tasks"])
    async def reload(request: Request) -> Response:
        """Take over the model folder as it is now."""
        check(request)
        return await told(request, changes.begin("reload"), wait=True)

    @app.post("/rollback", responses=RESPONSES, tags=["tasks"], openapi_extra=body_schema(ROLLBACK))
    async def rollback(request: Request) -> Response:
        """Take back an earlier version of the model: the one before, or {"revision": ...}."""
        check(request)
        body = await read_json(request, settings.max_body_bytes, ("revision",))
        revision = body.get("revision")
        known = await asyncio.to_thread(kept, service.folder)
        if revision is not None and revision not in known:
            raise Refused(404, "unknown_revision", "There is no such version. GET /versions lists them.")
        if revision is None and not set(known) - {service.generation().revision}:
            raise Refused(409, "refused", "There is no other version to take back.")
        return await told(request, changes.begin("rollback", revision=revision), wait=True)

    @app.get("/versions", responses={200: VERSIONS, **ERRORS}, tags=["tasks"])
    async def versions(request: Request) -> Response:
        """The versions that can be taken back, the latest last."""
        check(request)
        return reply({"serving": service.generation().revision, "kept": await asyncio.to_thread(kept, service.folder)})

    @app.get("/jobs/{number}", responses=RESPONSES, tags=["tasks"])
    async def job(request: Request, number: str) -> Response:
        """How far a change is."""
        check(request)
        found = changes.jobs.get(int(number)) if number.isascii() and number.isdigit() and len(number) < 10 else None
        if found is None:
            raise Refused(404, "unknown_job", "There is no such job.")
        return reply(found.told())


def rows_of(spec: Any) -> list[dict[str, Any]]:
    """The rows of a JSON body: {"rows": [{"text": ..., "label": ...}, ...]}."""
    rows = spec.get("rows") if isinstance(spec, dict) else None
    if not isinstance(rows, list) or not rows:
        raise invalid('rows is missing. Send {"rows": [{"text": ..., "label": ...}, ...]}.')
    found = []
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or "text" not in row or "label" not in row:
            raise invalid(f"rows[{place}] is no object with text and label.", place=place)
        parts = row["text"] if isinstance(row["text"], list) else [row["text"]]
        if not 0 < len(parts) < 3 or not all(isinstance(part, str) for part in parts):
            raise invalid(f"rows[{place}]: text is no text and no pair of texts.", place=place)
        pair = {"second": parts[1]} if len(parts) == 2 else {}
        found.append({"text": parts[0], **pair, "label": row["label"]})
    if len({len(row) for row in found}) > 1:
        raise invalid("Some rows have a text and some a pair of texts. Give all the same.")
    return found


def csv_rows(path: Path, options: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of a csv file, read as by the commands; ?text=A&label=B name other columns than text and label."""
    text, label = options.get("text", "text"), options.get("label", "label")
    try:
        names = column_names(path)
        # Without the names that are there: of a csv without a header they are texts.
        if missing := [name for name in (text, label) if name not in names]:
            advice = "Name the columns with ?text=COLUMN&label=COLUMN."
            raise invalid(f"The csv has no column {missing[0][:64]!r}. {advice}")
        rows = [row for chunk in read_chunks(path, [text, label]) for _, row in chunk.rows()]
    except DataError as error:
        raise invalid(f"The csv cannot be read: {error}".replace(f"{path.parent}/", "")) from None
    if not rows:
        raise invalid("The csv has no rows.")
    return [{"text": row[text] or "", "label": row[label]} for row in rows]


def _learned(body: bytes, kind: str, options: Mapping[str, str], place: Path) -> dict[str, Any]:
    """What the changer needs to learn: the rows as a file, the keys of a task file, options of the training."""
    spec = parse_json(body) if kind == "application/json" else {}
    if kind == "application/json":
        rows = rows_of(spec)
    else:
        given = place / "rows.csv"
        given.write_bytes(body)
        rows = csv_rows(given, options)
        given.unlink()
    if others := [key for key in spec if key not in LEARNED_KEYS]:
        raise invalid(f"{others[0][:64]!r} is no key. Possible: {', '.join(LEARNED_KEYS)}.")
    path = place / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    columns = ["text", "second"] if "second" in rows[0] else "text"
    keys = {key: spec[key] for key in ("kind", "labels", "metric") if spec.get(key) is not None}
    training = spec.get("options") or {}
    if not isinstance(training, dict):
        raise invalid('options is no object of training options, for example {"epochs": 20}.')
    return {"keys": {"train": str(path), "text": columns, "label": "label", **keys}, "options": training}
