"""onepass on a Ray cluster: replicas of the model behind one address.

    pip install 'ray[serve]'
    ONEPASS_MODEL=/models/news serve run deploy.ray_serve:app

`POST /predict` as with `onepass serve`. Ray restarts replicas and spreads requests; keys, budgets and live tasks are
those of `onepass serve` only.
"""

import asyncio
import os
from typing import Any

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from onepass.errors import OnepassError
from onepass.loading import load_fastest


@serve.deployment(
    max_ongoing_requests=256,
    max_queued_requests=1024,
    autoscaling_config={"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": 32},
    health_check_period_s=5,
    health_check_timeout_s=5,
    graceful_shutdown_timeout_s=25,
)
class Labels:
    """One replica: the model, and batches of whatever waited while the last one ran."""

    def __init__(self, folder: str):
        self.model = load_fastest(folder)
        self.check_health()

    def check_health(self) -> None:
        """A real pass: a replica that only listens is not healthy."""
        task = next(task for task in self.model.tasks if len(task.text) < 3)
        self.model.label(["probe" if len(task.text) == 1 else ("probe", "probe")], [task.name])

    @serve.batch(max_batch_size=128, batch_wait_timeout_s=0)
    async def label(self, asked: list[tuple[Any, Any]]) -> list[Any]:
        """Each text with its tasks; those that ask the same tasks run together."""
        groups: dict[Any, list[int]] = {}
        for place, (text, tasks) in enumerate(asked):
            groups.setdefault((tuple(tasks) if tasks else None, not isinstance(text, str)), []).append(place)
        found: list[Any] = [None] * len(asked)
        for (tasks, _), places in groups.items():
            try:
                answers = await asyncio.to_thread(self.model.label, [asked[place][0] for place in places], tasks)
                for place, answer in zip(places, answers, strict=True):
                    found[place] = {key: value for key, value in answer.to_dict().items() if key != "text"}
            except OnepassError as error:
                for place in places:
                    found[place] = error
        return found

    async def __call__(self, request: Request) -> Response:
        try:
            body = await request.json()
            inputs = body["inputs"] if isinstance(body["inputs"], list) else [body["inputs"]]
            texts = [tuple(text) if isinstance(text, list) else text for text in inputs]
            tasks = body.get("tasks")
        except (ValueError, KeyError, TypeError):
            return _error("The body is no JSON object with inputs.")
        results = await asyncio.gather(*(self.label((text, tasks)) for text in texts))
        if faults := [str(result) for result in results if isinstance(result, OnepassError)]:
            return _error(faults[0])
        return JSONResponse({"results": results})


def _error(message: str) -> Response:
    return JSONResponse({"error": {"code": "invalid", "message": message}}, status_code=422)


app = Labels.bind(os.environ.get("ONEPASS_MODEL", "runs/news"))
