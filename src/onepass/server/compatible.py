"""Routes in the shapes of other servers, so that their clients work: vLLM, OpenAI, KServe's inference protocol 2."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from onepass import __version__
from onepass.errors import unknown
from onepass.server.body import SHOWN, tasks_of, texts_of
from onepass.server.keys import Key
from onepass.server.replies import Refused, invalid, reply
from onepass.server.schemas import (
    CLASSIFIED,
    CLASSIFY,
    ERRORS,
    INFER,
    INFERRED,
    KSERVE_ERRORS,
    MODELS,
    MODERATE,
    MODERATED,
    body_schema,
)  # fmt: skip
from onepass.server.service import Answered, Service

NOTHING: dict[int | str, dict[str, Any]] = {200: {"description": "As the protocol says"}, **KSERVE_ERRORS}


def add_compatible_routes(app: FastAPI, service: Service) -> None:
    """Give the application these routes."""

    async def ask(
        request: Request, key: Key, texts: list[Any], tasks: Sequence[str] | None
    ) -> tuple[Answered, list[dict[str, Any]]]:
        """Each text's answers by task; these protocols have no place for a fault of one text."""
        answered = await service.ask(request, key, texts, tasks)
        for place in range(len(texts)):
            if fault := answered.fault(place):
                raise fault
        return answered, [json.loads(result)["tasks"] for result in answered.ask.results]

    @app.post(
        "/classify", responses={200: CLASSIFIED, **ERRORS}, openapi_extra=body_schema(CLASSIFY), tags=["compatible"]
    )
    async def classify(request: Request) -> Response:
        """Probabilities of one task's labels, as vLLM answers. `task`, or `model` as TASK or MODEL/TASK, names it."""
        key, body = await service.read(request)
        _check_strings(body, "model", "task")
        texts = texts_of(body.get("input"), service.settings, "input")
        name = _task_named(service, body)
        tasks_of([name], service.generation().tasks, texts)
        answered, results = await ask(request, key, texts, [name])
        data = [
            {
                "index": place,
                "label": _as_text(result[name]["label"]),
                "probs": list(result[name]["scores"].values()),
                "num_classes": len(result[name]["scores"]),
            }
            for place, result in enumerate(results)
        ]
        usage = {"prompt_tokens": answered.tokens, "total_tokens": answered.tokens, "completion_tokens": 0}
        head = {"id": f"classify-{time.time_ns():x}", "object": "list", "created": int(time.time())}
        return reply({**head, "model": f"{service.name}/{name}", "data": data, "usage": usage})

    @app.get("/v1/models", responses={200: MODELS, **ERRORS}, tags=["compatible"])
    async def models(request: Request) -> Response:
        """The one model here, as OpenAI's and vLLM's clients list them."""
        service.key(request.headers)
        service.generation()
        one = {"id": service.name, "object": "model", "created": int(service.started), "owned_by": "onepass"}
        return reply({"object": "list", "data": [one]})

    @app.post(
        "/v1/moderations",
        responses={200: MODERATED, **ERRORS},
        openapi_extra=body_schema(MODERATE),
        tags=["compatible"],
    )
    async def moderations(request: Request) -> Response:
        """What is flagged, as OpenAI answers: tasks of two labels, and each label of a multilabel task."""
        key, body = await service.read(request)
        _check_strings(body, "model")  # which is ours, whatever it says
        texts = texts_of(_joined_parts(body.get("input")), service.settings, "input")
        flagging = flagged_labels(service)
        if not flagging:
            raise Refused(404, "no_categories", "No task can flag a text. Name some: --moderation TASK=LABEL.")
        tasks_of(list(flagging), service.generation().tasks, texts)
        _, results = await ask(request, key, texts, list(flagging))
        found = [_moderated(result, flagging) for result in results]
        return reply({"id": f"modr-{time.time_ns():x}", "model": service.name, "results": found})

    @app.get("/v2", responses=NOTHING, tags=["compatible"])
    async def server_metadata() -> Response:
        """KServe: what this server is."""
        return reply({"name": "onepass", "version": __version__, "extensions": []})

    @app.get("/v2/health/live", responses=NOTHING, tags=["compatible"])
    async def server_live() -> Response:
        """KServe: as /livez."""
        return reply({"live": True})

    @app.get("/v2/health/ready", responses=NOTHING, tags=["compatible"])
    async def server_ready() -> Response:
        """KServe: as /readyz."""
        return reply({"ready": service.pool.ready}, 200 if service.pool.ready else 503)

    @app.get("/v2/models/{model}/ready", responses=NOTHING, tags=["compatible"])
    async def model_ready(request: Request, model: str) -> Response:
        """KServe: as /readyz, for the model of this name."""
        if model != service.name:  # no key is needed here, so that no name is told
            raise Refused(404, "unknown_model", "There is no model of this name.")
        return reply({"ready": service.pool.ready}, 200 if service.pool.ready else 503)

    @app.get("/v2/models/{model}", responses=NOTHING, tags=["compatible"])
    async def model_metadata(request: Request, model: str) -> Response:
        """KServe: the model's inputs and outputs."""
        service.key(request.headers)
        _check_model(service, model)
        generation = service.generation()
        outputs = [
            {"name": output, "datatype": kind, "shape": [-1]}
            for name, task in generation.tasks.items()
            for output, kind in ((name, "BYTES"), (f"{name}.score", "FP32"))[: 1 + task["has_score"]]
        ]
        inputs = [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
        head = {"name": service.name, "versions": [generation.revision], "platform": "onepass"}
        return reply({**head, "inputs": inputs, "outputs": outputs})

    @app.post(
        "/v2/models/{model}/infer",
        responses={200: INFERRED, **KSERVE_ERRORS},
        openapi_extra=body_schema(INFER),
        tags=["compatible"],
    )
    async def infer(request: Request, model: str) -> Response:
        """KServe: labels and probabilities as tensors. A second input of the same shape makes pairs."""
        if "inference-header-content-length" in request.headers:
            words = "Binary tensors are not taken. Send data as JSON; with Triton's client: binary_data=False."
            raise Refused(415, "binary", words)
        key, body = await service.read(request)
        _check_model(service, model)
        _check_strings(body, "id")
        texts = texts_of(_tensors(body.get("inputs")), service.settings, "inputs[0].data")
        known = service.generation().tasks
        wanted = _wanted(body.get("outputs"))
        names = None if wanted is None else [n if n in known else n.removesuffix(".score") for n in wanted]
        tasks = tasks_of(names, known, texts)
        for output, name in zip(wanted or (), names or (), strict=True):
            if output != name and not known[name]["has_score"]:
                raise invalid(f"There is no output {output!r}: the answers of {name!r} have no probability.")
        answered, results = await ask(request, key, texts, tasks)
        outputs = []
        for name in results[0]:
            values = [result[name] for result in results]
            labels = [_as_text(value["label"]) for value in values]
            scores = [value["score"] for value in values]
            for output, kind, data in ((name, "BYTES", labels), (f"{name}.score", "FP32", scores)):
                if (wanted is None or output in wanted) and None not in data:
                    outputs.append({"name": output, "datatype": kind, "shape": [len(texts)], "data": data})
        head = {"model_name": service.name, "model_version": answered.generation.revision}
        number = {"id": body["id"]} if body.get("id") is not None else {}
        return reply({**head, **number, "outputs": outputs})


def flagged_labels(service: Service) -> dict[str, list[str]]:
    """By task, the labels that flag a text: those named in the settings, else the second of two, or all of many."""
    known = service.generation().tasks
    single = {name: task for name, task in known.items() if task["texts"] == 1 and task["scored"]}
    if not service.settings.moderation:
        several = {name: task["labels"] for name, task in single.items() if task.get("several")}
        return {name: task["labels"][1:] for name, task in single.items() if len(task["labels"]) == 2} | several
    chosen: dict[str, list[str]] = {}
    for part in filter(str.strip, service.settings.moderation.split(",")):
        name, _, label = (piece.strip() for piece in part.partition("="))
        if name not in single or label not in single[name]["labels"]:
            # Without it, what should be flagged would pass.
            raise Refused(404, "no_categories", f"There is no {name}={label} any more, which --moderation names.")
        chosen.setdefault(name, []).append(label)
    return chosen


def _joined_parts(given: Any) -> Any:
    """The text that parts of one input make, where that is what is given; of images nothing is known here."""
    parts = given if isinstance(given, list) else []
    texts = [part["text"] for part in parts if isinstance(part, dict) and _is_text(part)]
    return "\n".join(texts) if texts and len(texts) == len(parts) else given


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type") == "text" and isinstance(part.get("text"), str)


def _moderated(result: dict[str, Any], flagging: dict[str, list[str]]) -> dict[str, Any]:
    categories, scores = {}, {}
    for name, labels in flagging.items():
        answer = result[name]
        given = answer["label"] if isinstance(answer["label"], list) else [answer["label"]]
        for label in labels:
            category = name if len(labels) == 1 else f"{name}/{label}"
            categories[category] = label in given and not answer["abstained"]
            scores[category] = answer["scores"][label]
    return {"flagged": any(categories.values()), "categories": categories, "category_scores": scores}


def _task_named(service: Service, body: dict[str, Any]) -> str:
    known = service.generation().tasks
    labelled = [name for name, task in known.items() if task["labels"]]
    given = body.get("task") or body.get("model")
    if given is None and len(labelled) == 1:
        return labelled[0]
    if not isinstance(given, str):
        raise invalid(f"Which task? Name it as task. Known: {', '.join(labelled)}.")
    name = given if given in known else given.rpartition("/")[2]
    if name not in labelled:
        raise invalid(unknown("task with labels", name[:SHOWN], labelled))
    return name


def _as_text(label: Any) -> str:
    if label is None or isinstance(label, str):
        return label or ""
    return ",".join(label) if isinstance(label, list) and all(isinstance(x, str) for x in label) else json.dumps(label)


def _check_strings(body: dict[str, Any], *keys: str) -> None:
    if wrong := [key for key in keys if not isinstance(body.get(key), str | None)]:
        raise invalid(f"{wrong[0]} is no text.")


def _check_model(service: Service, model: str) -> None:
    if model != service.name:
        raise Refused(404, "unknown_model", unknown("model", model[:SHOWN], [service.name]))


def _tensors(inputs: Any) -> list[Any]:
    """The texts of one input tensor, or the pairs of two."""
    if not isinstance(inputs, list) or not 0 < len(inputs) < 3 or not all(isinstance(item, dict) for item in inputs):
        raise invalid("inputs is no list of one tensor, or of two for pairs.")
    columns = []
    for place, item in enumerate(inputs):
        data, shape = item.get("data"), item.get("shape")
        if item.get("datatype") != "BYTES" or not isinstance(data, list) or not isinstance(item.get("name"), str):
            raise invalid(f"inputs[{place}]: needed: a name, datatype BYTES, and data as a list of texts.")
        if shape not in ([len(data)], [len(data), 1]):
            raise invalid(f"inputs[{place}]: shape does not fit its {len(data)} values; needed: [{len(data)}].")
        columns.append(data)
    if len({len(column) for column in columns}) > 1:
        raise invalid("The two inputs have different lengths.")
    return columns[0] if len(columns) == 1 else [list(pair) for pair in zip(*columns, strict=True)]


def _wanted(outputs: Any) -> list[str] | None:
    if outputs is None or outputs == []:
        return None
    if isinstance(outputs, list) and all(isinstance(o, dict) and isinstance(o.get("name"), str) for o in outputs):
        return [item["name"] for item in outputs]
    raise invalid("outputs is no list of objects with a name.")
