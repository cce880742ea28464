"""The engine of methods that give all tasks the same state of the text: `mtdnn` and `frozen`."""

from __future__ import annotations

import numpy as np

from onepass.engine.graph import TextNodes
from onepass.engine.nodes import constant, integer, integers
from onepass.engine.runner import Runner, linear
from onepass.engine.runtime import Node, opset13


class Pooling(Runner):
    """The first token's state, or the mean of all, through a pooler if there is one."""

    def build(self, text: TextNodes, tokens: bool) -> tuple[list[Node], Node, Node | None]:
        x = self.encoder.finish(self.states(text, self.encoder.config.depth))
        width = self.encoder.config.width
        if self.recipe["readout"] == "mean":
            real = opset13.convert(opset13.greater_equal(text.mask, constant(np.float32(0))), "f32")  # (G, 1, 1, M)
            real = opset13.squeeze(real, integers(1))  # (G, 1, M)
            states = opset13.squeeze(text.side_by_side(x, width), integer(0))  # (G, M, H)
            sums = opset13.matmul(real, states, False, False)  # (G, 1, H)
            vectors = opset13.squeeze(opset13.divide(sums, opset13.reduce_sum(real, integers(2), True)), integers(1))
        else:
            firsts = opset13.gather(text.spread, integer(0), integer(1))  # (G,)
            vectors = opset13.gather(opset13.squeeze(x, integer(0)), firsts, integer(0))  # (G, H)
        if "pooler.weight" in self.shared:
            vectors = opset13.tanh(linear(vectors, self.shared, "pooler"))
        return [], opset13.unsqueeze(vectors, integer(0)), x if tokens else None

    def choose(self, asked: tuple[int, ...]) -> dict[str, np.ndarray]:
        return self.poolers.choose(asked)
