"""What the engine does for a method: word pieces to one vector for each asked task and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from onepass.engine.graph import EncoderGraph, TextNodes
from onepass.engine.kept import Kept
from onepass.engine.nodes import constant, integers
from onepass.engine.plan import filled
from onepass.engine.poolers import poolers_of
from onepass.engine.products import Range
from onepass.engine.runtime import Node, Program, opset13
from onepass.engine.weights import Weights

Text = dict[str, np.ndarray]
"""Texts of a batch, by the names of `TextNodes`' inputs"""
KEPT = 8
"""Choices of tasks whose weights are kept side by side in memory"""
MOST_COPIES = 2
"""All choices that are kept take at most so many times the memory of all tasks"""


class Runner:
    """One method, for the tasks of one model.

    K tasks asked, G texts of a batch, T tokens of them, B texts of a call, H width.
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
        self.chosen = Kept(self._choose, KEPT, most_bytes(tasks, of_heads=False))
        self.poolers = poolers_of(tasks, encoder.config.width, threads)
        self._programs: dict[tuple[Any, bool], Program] = {}
        """By the form of the tasks, and whether states of tokens are wanted"""
        self._program(tokens=False)

    @property
    def form(self) -> Any:
        """What of the tasks the graph depends on besides their inputs."""
        return None

    @property
    def whole(self) -> bool:
        """Whether ranges were found with all layers of the text computed, which not every choice of tasks needs."""
        return False

    def with_tasks(self, tasks: Sequence[Weights]) -> Runner:
        """The same for other tasks; both share the graphs that are compiled, and are asked in turn."""
        other = copy(self)
        other.tasks = tasks
        other.chosen = Kept(other._choose, KEPT, most_bytes(tasks, of_heads=False))
        other.poolers = poolers_of(tasks, self.encoder.config.width, self.threads, self.poolers)
        other._program(tokens=False)
        return other

    def build(self, text: TextNodes, tokens: bool) -> tuple[list[Node], Node, Node | None]:
        """The graph from word pieces to vectors (K, G, H), and with `tokens` to the texts' last states (1, T, H).

        What it takes besides the text, and its outputs. K may be 1 where all tasks are given the same vector.
        """
        raise NotImplementedError

    def choose(self, asked: tuple[int, ...]) -> dict[str, np.ndarray]:
        """The inputs of the graphs for these tasks."""
        raise NotImplementedError

    def _choose(self, asked: tuple[int, ...]) -> dict[str, np.ndarray]:
        return self.choose(filled(asked, len(self.tasks)))

    def run(self, text: Text, asked: tuple[int, ...], tokens: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """Vectors (K or more, G, H), for `pooled`, and, with `tokens`, the texts' last states (T, H)."""
        found = self._program(tokens)(text | self.chosen(asked))
        return found[0], found[1][0] if tokens else None

    def _graph(self, tokens: bool) -> tuple[list[Node], list[Node]]:
        """All inputs and outputs of a new graph."""
        text = TextNodes()
        inputs, vectors, states = self.build(text, tokens)
        return [*text.inputs, *inputs], [vectors] if states is None else [vectors, states]

    def _program(self, tokens: bool) -> Program:
        """The compiled graph."""
        key = self.form, tokens
        if key not in self._programs:
            ranges = self.encoder.ranges.values()
            by_row, in_16 = any(seen.by_row for seen in ranges), bool(ranges)
            self._programs[key] = Program(*self._graph(tokens), self.threads, by_row=by_row, in_16=in_16)
        return self._programs[key]

    def watch(self, tokens: bool) -> Callable[[Text, tuple[int, ...]], dict[str, Range]]:
        """A function that takes what `run` takes and finds the range of what goes into each linear layer."""
        self.encoder.watched.clear()
        inputs, _ = self._graph(tokens)
        watched = dict(self.encoder.watched)
        axes = integers(0, 1)
        ends = [
            reduce(node, axes, False)
            for node in watched.values()
            for reduce in (opset13.reduce_min, opset13.reduce_max)
        ]
        program = Program(inputs, ends, self.threads)

        def ranges(text: Text, asked: tuple[int, ...]) -> dict[str, Range]:
            found = program(text | self.chosen(asked))
            pairs = zip(found[::2], found[1::2], strict=True)
            return {place: Range(low.copy(), high.copy()) for place, (low, high) in zip(watched, pairs, strict=True)}

        return ranges

    def pooled(self, vectors: np.ndarray, asked: tuple[int, ...]) -> np.ndarray:
        """Vectors (K or more, B, H), or (1, B, H), through the asked tasks' own poolers: (K, B, H)."""
        return self.poolers(vectors, self.chosen(asked))[: len(asked)]

    def states(self, text: TextNodes, layers: int) -> Node:
        """The states of the texts (1, T, H) after so many plain layers."""
        x = self.encoder.embed(text)
        for number in range(layers):
            x = self.encoder.layer(number, x, text)
        return x


def most_bytes(tasks: Sequence[Weights], of_heads: bool) -> int:
    """What all choices of tasks that are kept may take: of their heads, or of all else that is laid side by side."""
    own = (array for task in tasks for name, array in task.items() if name.startswith("head.") == of_heads)
    return MOST_COPIES * sum(array.nbytes for array in own)


def linear(x: Node, weights: Weights, name: str) -> Node:
    """W x + b with weights that are no task's own."""
    return opset13.add(
        opset13.matmul(x, constant(weights[f"{name}.weight"]), False, True), constant(weights[f"{name}.bias"])
    )
