"""onepass on a Ray cluster: replicas of the model behind one address.

    pip install 'ray[serve]'
    ONEPASS_MODEL=/models/news serve run deploy.ray_serve:app

`POST /predict` asks and answers as with `onepass serve`, but for `times` and `tokens`. Ray restarts replicas and
spreads requests; keys, budgets and live tasks are those of `onepass serve` only.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from onepass.server.batcher import MESSAGES
from onepass.server.body import read_json, tasks_of, texts_of
from onepass.server.replies import Refused, reply
from onepass.server.settings import Settings
from onepass.server.sizes import Reader
from onepass.server.worker import Served

SETTINGS = Settings()


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
        self.name = Path(folder).resolve().name
        self.served = Served(Path(folder), threads=os.cpu_count() or 1)
        self.reader = Reader(self.served.loaded.tokenizer, self.served.described["definitions"])
        self.check_health()

    def check_health(self) -> None:
        """A real pass: a replica that only listens is not healthy."""
        self.served.warm_up()

    @serve.batch(max_batch_size=128, batch_wait_timeout_s=0)
    async def label(self, items: list[dict[str, Any]]) -> list[Any]:
        """Texts of many requests, whichever tasks they ask; one that the model fails on does not fail the others."""
        return await asyncio.to_thread(self.served.answer, items)

    async def __call__(self, request: Request) -> Response:
        try:
            body = await read_json(request, SETTINGS.max_body_bytes, ("inputs", "tasks"))
            texts = texts_of(body.get("inputs"), SETTINGS, rows=True)
            tasks = tasks_of(body.get("tasks"), self.served.tasks, texts)
            await asyncio.to_thread(self.reader.measured, texts, tasks, SETTINGS.max_texts)  # or refused
        except Refused as refused:
            return reply(refused.body(), refused.status, refused.headers())
        found = await asyncio.gather(*(self.label({"text": text, "tasks": tasks}) for text in texts))
        if len(found) == 1 and isinstance(found[0], str):
            refused = _refused(found[0])
            return reply(refused.body(), refused.status, refused.headers())
        results = [json.loads(_refused(one).body()) if isinstance(one, str) else one for one in found]
        return reply({"model": self.name, "revision": self.served.revision, "results": results})


def _refused(code: str) -> Refused:
    status, message = MESSAGES[code]
    return Refused(status, code, message)


app = Labels.bind(os.environ.get("ONEPASS_MODEL", "runs/news"))
