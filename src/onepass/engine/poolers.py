"""The poolers of all asked tasks, as one product.

A graph apart from the encoder's, because it reads the weights of K poolers: once for all texts of a call, instead of
once for each batch of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from onepass.engine.runtime import Program, opset13, parameter
from onepass.engine.weights import Weights

Arrays = Mapping[str, np.ndarray]


class NoPoolers:
    """Tasks without a pooler of their own."""

    def __init__(self, tasks: Sequence[Weights], width: int, threads: int | None):
        self.tasks, self.width, self.threads = tasks, width, threads

    def choose(self, asked: Sequence[int]) -> dict[str, np.ndarray]:
        """The weights of these tasks, as `__call__` wants them."""
        return {}

    def __call__(self, vectors: np.ndarray, chosen: Arrays) -> np.ndarray:
        """Vectors (K, B, H), or (1, B, H) where all tasks have the same, to (K, B, H)."""
        return vectors

    def _turned(self, name: str, asked: Sequence[int]) -> np.ndarray:
        """The weights (K, in, out): a product with weights as they are stored, (out, in), takes twice as long."""
        first = self.tasks[asked[0]][name]
        weight = np.empty((len(asked), *first.shape[::-1]), np.float32)
        for place, task in enumerate(asked):
            weight[place] = self.tasks[task][name].T
        return weight

    def _biases(self, asked: Sequence[int]) -> np.ndarray:
        return np.stack([self.tasks[task]["method.pooler.bias"][None] for task in asked])


class Poolers(NoPoolers):
    """tanh(W x + b), with W (H, H)."""

    def __init__(self, tasks: Sequence[Weights], width: int, threads: int | None):
        super().__init__(tasks, width, threads)
        vectors = parameter("vectors", (-1, -1, width))
        weight, bias = parameter("pooler_weight", (-1, width, width)), parameter("pooler_bias", (-1, 1, width))
        product = opset13.matmul(vectors, weight, False, False)
        self.program = Program([vectors, weight, bias], [opset13.tanh(opset13.add(product, bias))], threads)

    def choose(self, asked: Sequence[int]) -> dict[str, np.ndarray]:
        return {"pooler_weight": self._turned("method.pooler.weight", asked), "pooler_bias": self._biases(asked)}

    def __call__(self, vectors: np.ndarray, chosen: Arrays) -> np.ndarray:
        (found,) = self.program({"vectors": vectors, **chosen})
        return found


class LowRankPoolers(Poolers):
    """tanh(x + U V x + b), with V (R, H) and U (H, R)."""

    def __init__(self, tasks: Sequence[Weights], width: int, threads: int | None):
        NoPoolers.__init__(self, tasks, width, threads)
        vectors = parameter("vectors", (-1, -1, width))
        down, up = parameter("pooler_down", (-1, width, -1)), parameter("pooler_up", (-1, -1, width))
        bias = parameter("pooler_bias", (-1, 1, width))
        product = opset13.matmul(opset13.matmul(vectors, down, False, False), up, False, False)
        total = opset13.add(opset13.add(vectors, product), bias)
        self.program = Program([vectors, down, up, bias], [opset13.tanh(total)], threads)

    def choose(self, asked: Sequence[int]) -> dict[str, np.ndarray]:
        return {
            "pooler_down": self._turned("method.pooler.down", asked),
            "pooler_up": self._turned("method.pooler.up", asked),
            "pooler_bias": self._biases(asked),
        }


def poolers_of(tasks: Sequence[Weights], width: int, threads: int | None, before: NoPoolers | None = None) -> NoPoolers:
    """The poolers that the tasks' weights are of; they share their graph with those `before`."""
    found = tasks[0]
    form = Poolers if "method.pooler.weight" in found else LowRankPoolers if "method.pooler.up" in found else NoPoolers
    if type(before) is not form:
        return form(tasks, width, threads)
    other = copy(before)
    other.tasks = tasks
    return other
