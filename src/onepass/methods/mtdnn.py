"""MT-DNN: one encoder for all tasks, a head per task.

Liu et al. 2019, arXiv:1901.11504. MTOP's comparison shares the pooler between the tasks (`pooler: shared`, the
default here); the released MT-DNN code gives each task its own (`pooler: task`).
"""

from typing import Any, Literal

from torch import Tensor, nn

from onepass.encoder.batch import Batch, Layout
from onepass.encoder.encoder import Encoder
from onepass.methods.asked import Asked
from onepass.methods.base import READOUTS, Method, PooledTask, Pooler, States, pool_by_task, shared_tokens


class MTDNN(Method):
    """The text's own state for every task; only the heads differ."""

    caches = "texts"
    gives_tokens = True

    def __init__(
        self,
        encoder: Encoder,
        *,
        pooler: Literal["shared", "task", "none"] = "shared",
        readout: Literal["cls", "mean"] = "cls",
    ):
        super().__init__(encoder)
        self.readout = READOUTS[readout]
        self.readout_name = readout
        self.pooler_of = pooler
        self.pooler = Pooler(encoder.width) if pooler == "shared" else None
        if pooler == "shared":
            self.cannot_add = "the pooler that all its tasks share would have to learn too (with pooler: task it can)"

    def new_task(self) -> nn.Module:
        return PooledTask(self.encoder.width) if self.pooler_of == "task" else nn.Module()

    def engine_recipe(self) -> dict[str, Any]:
        return {"runner": "pooling", "readout": self.readout_name}

    def forward(self, batch: Batch, asked: Tensor) -> States:
        return self.from_cache(self.cache(batch, bool(self.reading_tokens(asked))), batch.layout, asked)

    def cache(self, batch: Batch, tokens: bool = False) -> Tensor:
        """The texts' states (T, H) if tokens are read; else what the heads or the tasks' poolers are given, (B, H)."""
        states = self.encoder(batch)
        return states if tokens else self.text_vectors(states, batch.layout)

    def text_vectors(self, states: Tensor, layout: Layout) -> Tensor:
        text = self.readout(states, layout)
        return text if self.pooler is None else self.pooler(text)

    def from_cache(self, cached: Tensor, layout: Layout, asked: Tensor) -> States:
        tokens, reading = None, bool(self.reading_tokens(asked))
        # A cache of texts may be asked tasks that read tokens, for their vectors alone, and one of tokens other tasks.
        of_tokens = len(cached) > len(layout) or (reading and len(layout.rows) == len(layout))
        if of_tokens:
            tokens = shared_tokens(cached, layout, asked.shape[1]) if reading else None
            cached = self.text_vectors(cached, layout)
        vectors = cached.unsqueeze(1).expand(-1, asked.shape[1], -1)  # (B, K, H)
        if self.pooler_of == "task":
            vectors = pool_by_task(vectors, self.tasks, Asked(asked, vectors.device))
        return States(vectors, tokens)
