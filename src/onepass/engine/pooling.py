"""The engine of methods that give all tasks the same state of the text: `mtdnn` and `frozen`."""

from __future__ import annotations

import numpy as np

from onepass.engine.graph import constant, integer, integers
from onepass.engine.runner import Runner, linear
from onepass.engine.runtime import Node, opset13


class Pooling(Runner):
    """The first token's state, or the mean of all, through a pooler if there is one."""

    def build(self, ids: Node, types: Node, mask: Node, tokens: bool) -> tuple[list[Node], Node, Node | None]:
        x, _ = self.text(ids, types, mask, self.encoder.config.depth)
        x = self.encoder.finish(x)
        if self.recipe["readout"] == "mean":
            real = opset13.convert(opset13.greater_equal(mask, constant(np.float32(0))), "f32")  # (G, 1, 1, M)
            real = opset13.squeeze(real, integers(1))  # (G, 1, M)
            sums = opset13.matmul(real, x, False, False)  # (G, 1, H)
            text = opset13.squeeze(opset13.divide(sums, opset13.reduce_sum(real, integers(2), True)), integers(1))
        else:
            text = opset13.gather(x, integer(0), integer(1))  # (G, H)
        if "pooler.weight" in self.shared:
            text = opset13.tanh(linear(text, self.shared, "pooler"))
        return [], opset13.unsqueeze(text, integer(0)), x if tokens else None

    def choose(self, asked: tuple[int, ...]) -> dict[str, np.ndarray]:
        return self.poolers.choose(asked)
