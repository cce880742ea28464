"""The shapes of requests and answers, as /openapi.json tells them."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def _object(properties: Schema, required: list[str] | None = None, **more: Any) -> Schema:
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, **more}


def _json(schema: Schema, description: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def body_schema(schema: Schema) -> Schema:
    """What FastAPI adds to a route for its body."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


STRING, NUMBER, INTEGER, BOOLEAN = ({"type": name} for name in ("string", "number", "integer", "boolean"))
MAYBE: Schema = {"type": ["string", "null"]}
TEXT: Schema = {"anyOf": [STRING, {"type": "array", "items": STRING, "minItems": 1, "maxItems": 2}]}
ROW: Schema = {"type": "object", "minProperties": 1, "description": "Columns that tasks read, as in the training data."}
TEXTS: Schema = {"anyOf": [STRING, {"type": "array", "items": TEXT, "minItems": 1}]}
INPUTS: Schema = {"anyOf": [STRING, ROW, {"type": "array", "items": {"anyOf": [*TEXT["anyOf"], ROW]}, "minItems": 1}]}
PREDICT = _object(
    {
        "inputs": INPUTS | {"description": "A text or a row, or a list of texts, of pairs of texts and of rows."},
        "tasks": {
            "anyOf": [{"type": "array", "items": STRING, "minItems": 1}, {"type": "null"}],
            "description": "The tasks to ask; all that fit when left out.",
        },
    },
    ["inputs"],
    additionalProperties=False,
    example={"inputs": ["Senate passes the budget"]},
)
ERROR = _object({"error": _object({"code": STRING, "message": STRING}, ["code", "message"])}, ["error"])
_STATUSES = {
    400: "No JSON",
    401: "No valid key",
    403: "Another machine's name, or no right",
    404: "Unknown",
    408: "Too slow",
    409: "Refused",
    413: "Too large",
    415: "Not JSON",
    422: "Wrong",
    429: "Overloaded, or over budget; Retry-After says when to try again",
    500: "The model failed on a text",
    503: "The model is being loaded, or the server is about to end",
    504: "Too late",
    507: "No room for what was sent",
}
ERRORS: dict[int | str, Schema] = {status: _json(ERROR, text) for status, text in _STATUSES.items()}
_PLAIN_ERROR = _object({"error": STRING}, ["error"])
KSERVE_ERRORS: dict[int | str, Schema] = {status: _json(_PLAIN_ERROR, text) for status, text in _STATUSES.items()}
ANSWER = _object(
    {
        "label": {"description": "A label, a list of labels, a number, or null for an abstention."},
        "score": {"type": ["number", "null"], "description": "How probable the answer is."},
        "scores": {"type": "object", "additionalProperties": NUMBER, "description": "Of every label."},
        "threshold": {"description": "What a label must reach, where the task has such."},
        "abstained": BOOLEAN,
        "reason": {"type": ["string", "null"], "description": "Why the answer is withheld."},
        "version": INTEGER | {"description": "The task's version."},
    },
    ["label", "abstained", "version"],
)
RESULT = _object(
    {
        "tasks": {"type": "object", "additionalProperties": ANSWER},
        "truncated": BOOLEAN | {"description": "Whether a part of the text was not read."},
        "tokens": INTEGER,
    }
)
PREDICTED = _json(
    _object(
        {
            "model": STRING,
            "revision": STRING | {"description": "The version of the model that gave all these answers."},
            "times": _object({"queue_ms": NUMBER, "run_ms": NUMBER}),
            "results": {"type": "array", "items": {"anyOf": [RESULT, ERROR]}},
        },
        ["model", "revision", "results"],
    ),
    "An answer for each text, in order",
)
TASK = _object(
    {
        "name": STRING, "kind": STRING, "labels": {"type": "array", "items": STRING},
        "reads": {"type": "array", "items": STRING, "description": "The columns of a row."},
        "texts": INTEGER | {"description": "How many plain texts it reads; 0: it needs a row."}, "version": INTEGER,
    },
    ["name", "kind", "labels", "version"],
)  # fmt: skip
TASKS = _json(
    _object({"revision": STRING, "tasks": {"type": "array", "items": TASK}}, ["revision", "tasks"]), "The tasks"
)
INFO = _json(_object({"name": STRING, "revision": STRING, "tasks": INTEGER}, ["name", "revision"]), "The model")
CLASSIFY = _object(
    {"input": TEXTS, "model": MAYBE | {"description": "A task's name, or MODEL/TASK."}, "task": MAYBE},
    ["input"],
    example={"input": "Senate passes the budget", "task": "topic"},
)
CLASSIFIED = _json(
    _object(
        {
            "object": STRING,
            "model": STRING,
            "data": {
                "type": "array",
                "items": _object(
                    {
                        "index": INTEGER,
                        "label": STRING,
                        "probs": {"type": "array", "items": NUMBER},
                        "num_classes": INTEGER,
                    }
                ),
            },
        },
        ["object", "data"],
    ),
    "The probabilities of one task's labels, for each text",
)
MODELS = _json(
    _object(
        {
            "object": {"const": "list"},
            "data": {
                "type": "array",
                "items": _object(
                    {"id": STRING, "object": {"const": "model"}, "created": INTEGER, "owned_by": STRING},
                    ["id", "object", "created", "owned_by"],
                ),
            },
        },
        ["object", "data"],
    ),
    "The model",
)
_PARTS: Schema = {
    "type": "array",
    "items": _object({"type": {"const": "text"}, "text": STRING}, ["type", "text"]),
    "minItems": 1,
    "description": "Parts of one text",
}
MODERATE = _object(
    {"input": {"anyOf": [*TEXTS["anyOf"], _PARTS]}, "model": MAYBE},
    ["input"],
    example={"input": "You are an idiot"},
)
MODERATED = _json(
    _object(
        {
            "id": STRING,
            "model": STRING,
            "results": {
                "type": "array",
                "items": _object(
                    {
                        "flagged": BOOLEAN,
                        "categories": {"type": "object", "additionalProperties": BOOLEAN},
                        "category_scores": {"type": "object", "additionalProperties": NUMBER},
                    },
                    ["flagged", "categories", "category_scores"],
                ),
            },
        },
        ["results"],
    ),
    "What is flagged",
)
_TENSOR = _object(
    {
        "name": STRING,
        "shape": {"type": "array", "items": INTEGER},
        "datatype": STRING,
        "data": {"type": "array", "items": {}},
    },
    ["name", "shape", "datatype", "data"],
)
INFER = _object(
    {
        "id": MAYBE,
        "inputs": {"type": "array", "items": _TENSOR, "minItems": 1, "maxItems": 2},
        "outputs": {"type": ["array", "null"], "items": _object({"name": STRING}, ["name"])},
    },
    ["inputs"],
    example={"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["Senate passes the budget"]}]},
)
INFERRED = _json(
    _object({"model_name": STRING, "outputs": {"type": "array", "items": _TENSOR}}, ["model_name", "outputs"]),
    "Labels of each task as BYTES, and their probabilities as FP32 under the name TASK.score",
)
_ROW = _object({"text": TEXT, "label": {}}, ["text", "label"])
LEARN: Schema = {
    "application/json": {
        "schema": _object(
            {
                "rows": {"type": "array", "items": _ROW, "minItems": 1},
                "kind": STRING,
                "labels": {"type": "array", "items": STRING},
                "metric": STRING,
                "options": {"type": "object"},
            },
            ["rows"],
            additionalProperties=False,
            example={"rows": [{"text": "What a lovely day", "label": "good"}, {"text": "Awful", "label": "bad"}]},
        )
    },
    "text/csv": {"schema": STRING},
    "application/zip": {"schema": {"type": "string", "format": "binary"}},
}
LEARN_OPTIONS = [
    {"name": name, "in": "query", "required": False, "schema": schema, "description": text}
    for name, schema, text in (
        ("text", STRING, "The csv's column of texts, if not text."),
        ("label", STRING, "The csv's column of labels, if not label."),
        ("wait", {"enum": ["0", "1"]}, "1: answer when the change is over."),
    )
]
ROLLBACK = _object(
    {"revision": {"type": ["string", "null"], "description": "One of GET /versions; by default the one before."}},
    [],
    additionalProperties=False,
    example={},
)
JOB = _json(
    _object(
        {
            "number": INTEGER,
            "change": STRING,
            "state": {"enum": ["waiting", "running", "loading", "done", "failed"]},
            "progress": NUMBER,
            "message": STRING,
            "revision": {"type": ["string", "null"]},
        },
        ["number", "state", "progress"],
    ),
    "A change, and how far it is",
)
VERSIONS = _json(_object({"serving": STRING, "kept": {"type": "array", "items": STRING}}), "Revisions")
