"""The poolers of all asked tasks, as one product.

A graph apart from the encoder's, because it reads the weights of K poolers: once for all texts of a call, instead of
once for each batch of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from onepass.engine.nodes import integers
from onepass.engine.runtime import Node, Program, opset13, parameter
from onepass.engine.weights import Weights

Arrays = Mapping[str, np.ndarray]
BLOCKS = (48, 64, 32)
"""Outputs whose weights lie together in memory, the first that divides the width: a product then reads 74 kB in one go
and not 192 bytes here and there. With the few texts of a batch it is reading weights that takes the time"""

MOST_SHAPES = 16
"""Numbers of texts for which the product stays prepared. What is kept for each is as large as what it reads and makes,
so that with 41 tasks it was 345 MB after calls of 1 to 64 texts; to prepare it anew takes half a millisecond"""


class NoPoolers:
    """Tasks without a pooler of their own."""

    def __init__(self, tasks: Sequence[Weights], width: int, threads: int | None):
        self.tasks, self.width, self.threads = tasks, width, threads

    def nodes(self, vectors: Node) -> tuple[list[Node], Node]:
        """The graph from vectors (K, B, H) to those behind the poolers: what it takes besides, and its output."""
        return [], vectors

    def choose(self, asked: Sequence[int]) -> dict[str, np.ndarray]:
        """The weights of these tasks, as `__call__` wants them."""
        return {}

    def __call__(self, vectors: np.ndarray, chosen: Arrays) -> np.ndarray:
        """Vectors (K, B, H), or (1, B, H) where all tasks have the same, to (K, B, H)."""
        return vectors

    def _turned(self, name: str, asked: Sequence[int], block: int = 0) -> np.ndarray:
        """The weights (K, N, in, block), by default all outputs in one; as they are stored, (out, in), a product takes
        twice as long.
        """
        outputs, inputs = self.tasks[asked[0]][name].shape
        block = block or outputs
        weight = np.empty((len(asked), outputs // block, inputs, block), np.float32)
        for place, task in enumerate(asked):
            weight[place] = self.tasks[task][name].reshape(-1, block, inputs).swapaxes(1, 2)
        return weight

    def _biases(self, asked: Sequence[int]) -> np.ndarray:
        return np.stack([self.tasks[task]["method.pooler.bias"][None] for task in asked])


class Poolers(NoPoolers):
    """tanh(W x + b), with W (H, H)."""

    def __init__(self, tasks: Sequence[Weights], width: int, threads: int | None):
        super().__init__(tasks, width, threads)
        vectors = parameter("vectors", (-1, -1, width))
        inputs, found = self.nodes(vectors)
        self.program = Program([vectors, *inputs], [found], threads, most_shapes=MOST_SHAPES)

    def nodes(self, vectors: Node) -> tuple[list[Node], Node]:
        width = self.width
        weight, bias = parameter("pooler_weight", (-1, -1, width, self.block)), parameter("pooler_bias", (-1, 1, width))
        by_block = opset13.matmul(opset13.unsqueeze(vectors, integers(1)), weight, False, False)  # (K, N, B, H / N)
        product = opset13.reshape(opset13.transpose(by_block, integers(0, 2, 1, 3)), integers(0, 0, width), True)
        return [weight, bias], opset13.tanh(opset13.add(product, bias))

    @property
    def block(self) -> int:
        return next((block for block in BLOCKS if self.width % block == 0), self.width)

    def choose(self, asked: Sequence[int]) -> dict[str, np.ndarray]:
        weight = self._turned("method.pooler.weight", asked, self.block)
        return {"pooler_weight": weight, "pooler_bias": self._biases(asked)}

    def __call__(self, vectors: np.ndarray, chosen: Arrays) -> np.ndarray:
        (found,) = self.program({"vectors": vectors, **chosen})
        return found


class LowRankPoolers(Poolers):
    """tanh(x + U V x + b), with V (R, H) and U (H, R)."""

    def nodes(self, vectors: Node) -> tuple[list[Node], Node]:
        width = self.width
        down, up = parameter("pooler_down", (-1, width, -1)), parameter("pooler_up", (-1, -1, width))
        bias = parameter("pooler_bias", (-1, 1, width))
        product = opset13.matmul(opset13.matmul(vectors, down, False, False), up, False, False)
        total = opset13.add(opset13.add(vectors, product), bias)
        return [down, up, bias], opset13.tanh(total)

    def choose(self, asked: Sequence[int]) -> dict[str, np.ndarray]:
        return {
            "pooler_down": self._turned("method.pooler.down", asked)[:, 0],
            "pooler_up": self._turned("method.pooler.up", asked)[:, 0],
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
