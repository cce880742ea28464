"""Engines with random tasks, to be timed: the encoder's own weights, and task weights of the right shapes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers

from onepass.encoder.config import EncoderConfig
from onepass.encoder.tokenizer import Tokenizer
from onepass.engine.core import Core
from onepass.engine.graph import EncoderGraph
from onepass.engine.pooling import Pooling
from onepass.engine.ranges import Bounds, joined
from onepass.engine.reading import Reading
from onepass.engine.weights import Weights
from onepass.inquiry import Pieces

LABELS, LONGEST = 2, 512


@dataclass(frozen=True)
class Form:
    """How readers are built; the defaults are those of the method."""

    depth: int = 2
    tokens: int = 2
    readout: str = "layer"
    pooler: str = "task"
    rank: int = 16


def form_for(num_tasks: int) -> Form:
    """What is advised for so many tasks."""
    if num_tasks < 53:  # as `depth: auto` decides
        return Form()
    return Form(1, 1) if num_tasks < 200 else Form(1, 1, "attention", "low_rank")


class EncoderParts:
    """An encoder's weights as arrays, and the ranges of what goes into its layers."""

    def __init__(self, source: str = "embedded"):
        from onepass.encoder.loading import load_encoder

        encoder, tokenizer = load_encoder(source)
        self.torch = encoder.eval()
        self.config: EncoderConfig = encoder.config
        with tempfile.TemporaryDirectory() as place:
            tokenizer.save(Path(place) / "tokenizer.json")
            self.tokenizer = Tokenizer.load(Path(place) / "tokenizer.json", min(LONGEST, self.config.capacity))
        self.weights: Weights = {name: value.numpy() for name, value in encoder.state_dict().items()}

    def raw_tokenizer(self) -> tokenizers.Tokenizer:
        """The tokenizer as its library has it."""
        with tempfile.TemporaryDirectory() as place:
            self.tokenizer.save(Path(place) / "tokenizer.json")
            return tokenizers.Tokenizer.from_file(str(Path(place) / "tokenizer.json"))

    def texts(self, lengths: Iterable[int], seed: int = 0) -> list[Pieces]:
        """Random word pieces of these lengths."""
        generator = np.random.default_rng(seed)
        most = min(self.config.vocab_size, 20_000)
        return [
            Pieces(generator.integers(most // 10, most, int(length)).tolist(), [0] * int(length)) for length in lengths
        ]

    def plain(self, threads: int | None, bounds: Bounds | None = None) -> Core:
        """A plain pass and one head on its first state: what one text classifier costs."""
        graph = EncoderGraph(self.config, self.weights, bounds or {})
        tasks = [self._head(np.random.default_rng(0))]
        return Core(Pooling(graph, {"readout": "cls"}, {}, tasks, threads))

    def shared(self, num_tasks: int, threads: int | None, bounds: Bounds | None = None) -> Core:
        """MT-DNN: a shared pooler, and a head for each task."""
        generator = np.random.default_rng(0)
        graph = EncoderGraph(self.config, self.weights, bounds or {})
        width = self.config.width
        pooler = {"pooler.weight": _random(generator, width, width), "pooler.bias": _random(generator, width)}
        return Core(Pooling(graph, {"readout": "cls"}, pooler, [self._head(generator)] * num_tasks, threads))

    def readers(self, num_tasks: int, form: Form, threads: int | None, bounds: Bounds | None = None) -> Core:
        """Readers with random tokens and poolers."""
        generator = np.random.default_rng(0)
        graph = EncoderGraph(self.config, self.weights, bounds or {})
        recipe = {"depth": form.depth, "readout": form.readout}
        # A thousand times the same weights would stay in the cache: every task has its own.
        tasks = [self._head(generator) | self._readers(generator, form) for _ in range(num_tasks)]
        return Core(Reading(graph, recipe, {}, tasks, threads))

    def bounds(self, core: Core) -> Bounds:
        """What goes into the layers of a core, seen on random texts."""
        return joined(core.watch(self.texts(np.linspace(8, min(128, self.config.capacity), 16))))

    def _head(self, generator: np.random.Generator) -> Weights:
        return {"head.weight": _random(generator, LABELS, self.config.width), "head.bias": _random(generator, LABELS)}

    def _readers(self, generator: np.random.Generator, form: Form) -> Weights:
        width = self.config.width
        found = {"method.tokens": _random(generator, form.tokens, width)}
        if form.pooler == "task":
            found |= {"method.pooler.weight": _random(generator, width, width)}
        elif form.pooler == "low_rank":
            found |= {
                "method.pooler.down": _random(generator, form.rank, width),
                "method.pooler.up": _random(generator, width, form.rank),
            }
        if form.pooler != "none":
            found |= {"method.pooler.bias": _random(generator, width)}
        return found


def _random(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return 0.05 * generator.standard_normal(shape, dtype=np.float32)
