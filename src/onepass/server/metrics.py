"""What is counted, for Prometheus. Labels of tasks are counted, texts never appear."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from onepass.server.batcher import Batch, Batcher
    from onepass.server.pool import Pool

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TOKENS = (16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "onepass_requests", "Requests by route and status.", ["route", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "onepass_request_seconds", "From the head of a request to its answer.", ["route"], buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.asks = Counter(
            "onepass_asks",
            "Requests for labels by how they ended: received is the sum of answered, failed, rejected, expired, left.",
            ["outcome"],
            registry=registry,
        )
        # Finding a counter by its labels costs more than counting.
        outcomes = ("received", "answered", "failed", "rejected", "expired", "left")
        self._asks = {outcome: self.asks.labels(outcome) for outcome in outcomes}
        self._requests: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self.queue_seconds = Histogram(
            "onepass_queue_seconds", "Wait until the first text of a request was on a worker.", buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.run_seconds = Histogram("onepass_run_seconds", "Runs of a batch.", buckets=SECONDS, registry=registry)
        self.batch_tokens = Histogram("onepass_batch_tokens", "Tokens of a batch.", buckets=TOKENS, registry=registry)
        self.texts = Counter("onepass_texts_computed", "Texts that were run.", registry=registry)
        self.errors = Counter(
            "onepass_text_errors", "Texts that were given an error for an answer, by its code.", ["code"],
            registry=registry,
        )  # fmt: skip
        self.tokens = Counter("onepass_tokens_computed", "Tokens that were run.", registry=registry)
        self.padding = Counter(
            "onepass_padding_tokens",
            "Tokens of no text that linear layers were run on; engines tell, torch does not.",
            registry=registry,
        )
        self.labels = Counter("onepass_labels", "Answers by task and label.", ["task", "label"], registry=registry)
        self.refused_keys = Counter("onepass_unauthorised", "Requests without a valid key.", registry=registry)
        self.closed = Counter("onepass_connections_closed", "Connections we closed.", ["reason"], registry=registry)

    def watch(self, batcher: Batcher, pool: Pool) -> None:
        """Read these when they are asked for."""

        def gauge(name: str, text: str, value: Any) -> None:
            Gauge(name, text, registry=self.registry).set_function(value)

        gauge("onepass_queue_texts", "Texts that wait.", lambda: len(batcher.queue))
        gauge("onepass_queue_tokens", "Tokens that wait.", lambda: batcher.waiting)
        gauge("onepass_tokens_per_second", "Speed of one worker lately.", lambda: batcher.rate)
        gauge("onepass_ready", "1 if /readyz says so.", lambda: pool.ready)
        gauge("onepass_coroutines", "What the server has under way.", lambda: len(asyncio.all_tasks()))
        gauge("onepass_worker_restarts", "Workers that were replaced.", lambda: pool.restarts)
        gauge(
            "onepass_workers",
            "Workers that hold a model.",
            lambda: sum(worker.ready for generation in batcher.generations for worker in generation.workers),
        )

    def count_ask(self, outcome: str) -> None:
        self._asks[outcome].inc()

    def count_errors(self, codes: Iterable[str]) -> None:
        for code in codes:
            self.errors.labels(code).inc()

    def count_request(self, route: str, status: int, seconds: float) -> None:
        found = self._requests.get((route, status))
        if found is None:
            found = self.requests.labels(route, status), self.request_seconds.labels(route)
            self._requests[route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def batch(self, batch: Batch, head: dict[str, Any]) -> None:
        """What a worker says of a batch."""
        sizes = [item.size for item in batch.items]
        self.run_seconds.observe(head["run_ms"] / 1000)
        self.batch_tokens.observe(batch.tokens)
        self.texts.inc(len(sizes))
        self.tokens.inc(batch.tokens)
        self.padding.inc(head["padding"])
        for task, counts in head["counts"].items():
            for label, count in counts.items():
                self.labels.labels(task, label).inc(count)

    def text(self) -> bytes:
        return generate_latest(self.registry)
