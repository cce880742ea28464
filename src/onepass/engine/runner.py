"""What the engine does for a method: word pieces to one vector for each asked task and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from openvino import Node, opset13

from onepass.engine.graph import EncoderGraph, Range, constant, integers, places
from onepass.engine.poolers import poolers_of
from onepass.engine.runtime import Program, parameter
from onepass.engine.weights import Weights

KEPT = 8
"""Choices of tasks whose weights are kept side by side in memory"""


class Runner:
    """One method, for the tasks of one model.

    K tasks asked, G texts side by side, M tokens with padding, B texts of a call, H width.
    A task's own weights are inputs of the graph and not a part of it: the same graph serves any choice of tasks.
    """

    def __init__(
        self,
        encoder: EncoderGraph,
        recipe: Mapping[str, Any],
        shared: Weights,
        tasks: Sequence[Weights],
        threads: int | None = None,
    ):
        self.encoder = encoder
        self.recipe = recipe
        self.shared = shared
        self.tasks = tasks
        self.threads = threads
        self.chosen = lru_cache(KEPT)(self.choose)
        ids, types = (parameter(name, (-1, -1), np.int32) for name in ("ids", "types"))
        mask = parameter("mask", (-1, 1, 1, -1))
        inputs, output = self.build(ids, types, mask)
        self._inputs = [ids, types, mask, *inputs]
        self.program = Program(self._inputs, [output], threads)
        self.poolers = poolers_of(tasks, encoder.config.width, threads)

    def build(self, ids: Node, types: Node, mask: Node) -> tuple[list[Node], Node]:
        """The graph from word pieces to vectors (K, G, H): what it takes besides the text, and its output.

        K may be 1 where all tasks are given the same vector.
        """
        raise NotImplementedError

    def choose(self, asked: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The inputs of the graphs for these tasks."""
        raise NotImplementedError

    def vectors(self, ids: np.ndarray, types: np.ndarray, mask: np.ndarray, asked: tuple[int, ...]) -> np.ndarray:
        (found,) = self.program({"ids": ids, "types": types, "mask": mask, **self.chosen(asked)})
        return found

    def watch(self) -> Callable[[np.ndarray, np.ndarray, np.ndarray, tuple[int, ...]], dict[str, Range]]:
        """A function that takes what `vectors` takes and finds the range of what goes into each linear layer."""
        watched = self.encoder.watched
        axes = integers(0, 1)
        ends = [
            reduce(node, axes, False)
            for node in watched.values()
            for reduce in (opset13.reduce_min, opset13.reduce_max)
        ]
        program = Program(self._inputs, ends, self.threads)

        def ranges(ids: np.ndarray, types: np.ndarray, mask: np.ndarray, asked: tuple[int, ...]) -> dict[str, Range]:
            found = program({"ids": ids, "types": types, "mask": mask, **self.chosen(asked)})
            pairs = zip(found[::2], found[1::2], strict=True)
            return {place: Range(low.copy(), high.copy()) for place, (low, high) in zip(watched, pairs, strict=True)}

        return ranges

    def pooled(self, vectors: np.ndarray, asked: tuple[int, ...]) -> np.ndarray:
        """Vectors (K, B, H), or (1, B, H), through the asked tasks' own poolers."""
        return self.poolers(vectors, self.chosen(asked))

    def text(self, ids: Node, types: Node, mask: Node, layers: int) -> tuple[Node, Node]:
        """The states of the text (G, M, H) after so many plain layers, and the positions (M,)."""
        x, positions = self.encoder.embed(ids, types), places(ids)
        for number in range(layers):
            x = self.encoder.layer(number, x, mask, positions)
        return x, positions


def linear(x: Node, weights: Weights, name: str) -> Node:
    """W x + b with weights that are no task's own."""
    return opset13.add(
        opset13.matmul(x, constant(weights[f"{name}.weight"]), False, True), constant(weights[f"{name}.bias"])
    )
