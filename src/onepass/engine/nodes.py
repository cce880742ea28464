"""Small parts of a graph of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from onepass.engine.runtime import Node, opset13


def constant(array: Any) -> Node:
    # Shared with the array, which the graph keeps: a copy of all weights takes longer than to compile them.
    return opset13.constant(np.asarray(array, order="C"), shared_memory=True)


def integer(value: int) -> Node:
    return opset13.constant(np.array(value, np.int64))


def integers(*values: int) -> Node:
    return opset13.constant(np.array(values, np.int64))


def length(x: Node, axis: int) -> Node:
    """The size of an axis, as a vector of one number."""
    return opset13.gather(opset13.shape_of(x), integers(axis), integer(0))


def places(x: Node) -> Node:
    """0, 1, 2, ... for each token of (G, heads, M, d)."""
    return opset13.range(integer(0), opset13.squeeze(length(x, 2), integer(0)), integer(1), "i64")
