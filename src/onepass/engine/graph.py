"""The encoder as a graph of the runtime, in the same parts as `encoder.Encoder`, for methods to put together.

The graph is built from the model folder's weights when an engine is loaded: there is no second copy of them on the
disk that could be out of date, and building takes less time than reading one would.

Letters: T tokens of all texts of a batch, packed one behind the other, G texts side by side, M their tokens with
padding, R readers, H width. Only attention sees padding. A mask is 0 for a token and `FAR` for padding, and is added
to scores: the exponential of it is exactly 0, so padding changes no digit of any sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onepass.encoder.config import EncoderConfig
from onepass.engine.nodes import constant, integer, integers, places
from onepass.engine.products import BY_ROW, IN_16, MOST_OUTLIERS, OUTLIER, Range, eight_bit_product, product_by_row
from onepass.engine.runtime import Node, opset13, parameter
from onepass.engine.weights import Weights

FAR = np.float32(-1e9)
FARTHEST = 128
"""Relative distances from here on share a bucket, as in `encoder.RelativeBias`"""

ALL, NONE = slice(None), np.empty(0, np.int64)


class TextNodes:
    """The texts of a batch as inputs of a graph, packed, and where each token is when they lie side by side."""

    def __init__(self) -> None:
        kinds = (("ids", 1), ("types", 1), ("positions", 1), ("spread", -1), ("back", 1))
        named = {name: parameter(name, (rows, -1), np.int32) for name, rows in kinds}
        self.ids, self.types, self.positions, self.spread, self.back = named.values()
        """(1, T) each, but `spread`, (G, M): which packed token is at a place; `back`: at which place a token is"""
        self.mask = parameter("mask", (-1, 1, 1, -1))
        """(G, 1, 1, M)"""
        self.inputs = [*named.values(), self.mask]
        self._by_parts: dict[int, Node] = {}

    def side_by_side(self, x: Node, width: int, parts: int = 1) -> Node:
        """Packed states (1, T, parts * H) as (parts, G, M, H); what is at the places of padding is masked later."""
        if parts not in self._by_parts:
            number = opset13.constant(np.arange(parts, dtype=np.int32).reshape(parts, 1, 1))
            first = opset13.multiply(self.spread, opset13.constant(np.int32(parts)))
            self._by_parts[parts] = opset13.add(first, number)
        return opset13.gather(opset13.reshape(x, integers(-1, width), False), self._by_parts[parts], integer(0))

    def packed(self, x: Node, width: int) -> Node:
        """States (G, M, H) as (1, T, H)."""
        return opset13.gather(opset13.reshape(x, integers(-1, width), False), self.back, integer(0))


@dataclass
class EncoderGraph:
    """The parts of an encoder's graph."""

    config: EncoderConfig
    weights: Weights
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """The linear layers to compute in 8 bits, or in 16, by place, with what goes into them"""
    watched: dict[str, Node] = field(default_factory=dict)
    """What goes into each linear layer, by place; filled while the graph is built"""

    # --- the text -----------------------------------------------------------------------------------------------

    def embed(self, text: TextNodes) -> Node:
        """The input of the first layer, (1, T, H)."""
        config = self.config
        x = self._rows("word_table", text.ids)
        if config.position_table:
            table = constant(self.weights["position_table.weight"][config.position_offset :])
            x = opset13.add(x, opset13.gather(table, text.positions, integer(0)))
        if config.type_vocab == 1:
            x = opset13.add(x, constant(self.weights["type_table.weight"][0]))
        elif config.type_vocab > 1:
            x = opset13.add(x, self._rows("type_table", text.types))
        x = self.norm(x, "embedding_norm")
        if config.embedding_width != config.width:
            x = self.linear(x, "projection", "projection")
        return x

    def finish(self, x: Node) -> Node:
        return self.norm(x, "final_norm") if self.config.pre_norm else x

    def layer(self, number: int, x: Node, text: TextNodes) -> Node:
        """A plain layer, (1, T, H) in and out."""
        query, key, value = self.project(number, x, text)
        attended = self.attend(number, query, key, value, text)
        return self.feed_forward(number, self.merge(number, x, attended, text))

    def project(self, number: int, x: Node, text: TextNodes | None, site: str = "") -> list[Node]:
        """Queries, keys and values, each (G, heads, M, d); of packed states (1, T, H) if there is a text.

        Without one, of states (G, R, H) that have no positions, so that nothing is rotated.
        """
        return self._project(number, x, text, 3, site)

    def keys_values(self, number: int, x: Node, text: TextNodes) -> list[Node]:
        """The keys and values that `project` gives, without the work for the queries."""
        return self._project(number, x, text, 2, "")

    def attend(self, number: int, query: Node, key: Node, value: Node, text: TextNodes) -> Node:
        """Every token reads its own text: (G, heads, M, d) in and out."""
        config, mask = self.config, text.mask
        if number in config.local_layers:
            mask = opset13.add(mask, self._window(key))
        if config.relative_buckets:
            mask = opset13.add(mask, self._relative(key))
        return read(self.scaled(query), key, value, mask)

    def merge(self, number: int, x: Node, attended: Node, text: TextNodes | None, site: str = "") -> Node:
        """Adds what was read (G, heads, M, d) to the states, (1, T, H) of a text or else (G, M, H)."""
        config, name = self.config, f"layers.{number}."
        joined = opset13.transpose(attended, integers(0, 2, 1, 3))
        if text is None:
            joined = opset13.reshape(joined, integers(0, 0, config.width), special_zero=True)
        else:
            joined = text.packed(joined, config.width)
        x = opset13.add(x, self.linear(joined, name + "attention_output", name + "attention_output" + site))
        return x if config.pre_norm else self.norm(x, name + "attention_norm")

    def feed_forward(self, number: int, x: Node, site: str = "") -> Node:
        """The second half of a layer, (G, M, H) in and out."""
        config, name = self.config, f"layers.{number}."
        given = self.norm(x, name + "mlp_norm") if config.pre_norm else x
        inner = self.linear(given, name + "up", name + "up" + site)
        if config.gated:
            inner, gate = opset13.split(inner, integer(2), 2).outputs()
            inner, large = opset13.multiply(self._activated(inner), gate), NONE
        else:
            inner, large = self._activated(inner), self._outliers(name + "down" + site)
        out = self.linear(inner, name + "down", name + "down" + site, left_out=large)
        if len(large):
            # Computed once more, by themselves: taken from all inner states, they would keep these in 32 bits.
            few = self._activated(self._plain(given, name + "up", rows=large))
            x = opset13.add(x, self._plain(few, name + "down", columns=large, bias=False))
        x = opset13.add(x, out)
        return x if config.pre_norm else self.norm(x, name + "mlp_norm")

    def scaled(self, query: Node) -> Node:
        return opset13.multiply(query, constant(np.float32(self.config.head_dim**-0.5)))

    # --- pieces -------------------------------------------------------------------------------------------------

    def norm(self, x: Node, name: str) -> Node:
        if f"{name}.weight" not in self.weights:
            return x  # ModernBERT's first layer does without
        x = opset13.mvn(x, integers(-1), True, self.config.norm_eps, "inside_sqrt")
        x = opset13.multiply(x, constant(self.weights[f"{name}.weight"]))
        return opset13.add(x, constant(self.weights[f"{name}.bias"])) if f"{name}.bias" in self.weights else x

    def linear(self, x: Node, name: str, place: str, rows: slice = slice(None), left_out: np.ndarray = NONE) -> Node:
        """W x + b with the named weights, or some rows of them; in 8 bits where the place has a range.

        There the columns `left_out` of x are not multiplied.
        """
        self.watched[place] = x
        seen = self.ranges.get(place, IN_16)
        if seen.in_16:
            return self._plain(x, name, rows)
        weight = self.weights[f"{name}.weight"][rows]
        if seen.by_row:
            x = product_by_row(x, weight)
        else:
            weight = weight.copy()
            weight[:, left_out] = 0
            usual = np.setdiff1d(np.arange(weight.shape[1]), left_out)
            x = eight_bit_product(x, weight, seen, usual)
        return opset13.add(x, constant(self.weights[f"{name}.bias"][rows])) if f"{name}.bias" in self.weights else x

    def _plain(self, x: Node, name: str, rows: Any = ALL, columns: Any = ALL, bias: bool = True) -> Node:
        """W x + b in 32 bits, with some rows or some columns of W."""
        x = opset13.matmul(x, constant(self.weights[f"{name}.weight"][rows][:, columns]), False, True)
        if not bias or f"{name}.bias" not in self.weights:
            return x
        return opset13.add(x, constant(self.weights[f"{name}.bias"][rows]))

    def _outliers(self, place: str) -> np.ndarray:
        """The columns of what goes into a layer in 8 bits that were seen far above the middle one; few."""
        seen = self.ranges.get(place, BY_ROW)
        if seen.by_row or seen.in_16:
            return NONE
        largest = seen.largest
        order = np.argsort(-largest)[:MOST_OUTLIERS]
        return np.sort(order[largest[order] > OUTLIER * np.median(largest)])

    def _rows(self, table: str, numbers: Node) -> Node:
        return opset13.gather(constant(self.weights[f"{table}.weight"]), numbers, integer(0))

    def _project(self, number: int, x: Node, text: TextNodes | None, parts: int, site: str) -> list[Node]:
        config, name = self.config, f"layers.{number}."
        x = self.norm(x, name + "attention_norm") if config.pre_norm else x
        rows = slice((3 - parts) * config.width, None)  # queries come first
        x = self.linear(x, name + "qkv", name + "qkv" + site, rows)
        if text is None:
            split = opset13.split(x, integer(2), parts).outputs()
        else:
            # Parted along the first axis, where it takes no copy.
            split = opset13.split(text.side_by_side(x, config.width, parts), integer(0), parts).outputs()
            split = [opset13.squeeze(part, integer(0)) for part in split]
        heads = [
            opset13.transpose(
                opset13.reshape(part, integers(0, 0, config.heads, config.head_dim), special_zero=True),
                integers(0, 2, 1, 3),
            )
            for part in split
        ]
        theta = config.local_theta if number in config.local_layers else config.global_theta
        if not theta or text is None:
            return heads
        return [*(self._rotated(part, theta) for part in heads[:-1]), heads[-1]]

    def _rotated(self, states: Node, theta: float) -> Node:
        """Queries or keys (G, heads, M, d) turned by the angles of their positions."""
        config, positions = self.config, places(states)
        steps = np.arange(0, config.head_dim, 2, dtype=np.float32) / config.head_dim
        angles = np.arange(config.max_positions, dtype=np.float32)[:, None] * (1.0 / theta**steps).astype(np.float32)
        cos, sin = (
            opset13.gather(constant(table.astype(np.float32)), positions, integer(0))
            for table in (np.cos(angles), np.sin(angles))
        )
        first, second = opset13.split(states, integer(3), 2).outputs()
        turned = (
            opset13.subtract(opset13.multiply(first, cos), opset13.multiply(second, sin)),
            opset13.add(opset13.multiply(second, cos), opset13.multiply(first, sin)),
        )
        return opset13.concat(list(turned), 3)

    def _window(self, key: Node) -> Node:
        """(M, M): 0 for tokens at most half a window apart, `FAR` for others."""
        distance = opset13.abs(_distances(key))
        near = opset13.less_equal(distance, integer(self.config.local_window // 2))
        return opset13.select(near, constant(np.float32(0)), constant(FAR))

    def _relative(self, key: Node) -> Node:
        """(1, heads, M, M): the learned bias of MPNet's layers."""
        most = self.config.capacity
        by_distance = self.weights["relative.table.weight"][_buckets(np.arange(1 - most, most), self.config)]
        rows = opset13.gather(
            constant(by_distance), opset13.add(_distances(key), integer(most - 1)), integer(0)
        )  # (M, M, heads)
        return opset13.unsqueeze(opset13.transpose(rows, integers(2, 0, 1)), integer(0))

    def _activated(self, x: Node) -> Node:
        name = self.config.activation
        if name == "relu":
            return opset13.relu(x)
        if name in ("silu", "swish"):
            return opset13.swish(x)
        return opset13.gelu(x, "erf" if name == "gelu" else "tanh")


def read(query: Node, key: Node, value: Node, bias: Node) -> Node:
    """softmax(query key^T + bias) value; the query is scaled already."""
    scores = opset13.add(opset13.matmul(query, key, False, True), bias)
    return opset13.matmul(opset13.softmax(scores, 3), value, False, False)


def _distances(key: Node) -> Node:
    """(M, M): from the token that reads to the token that is read."""
    tokens = places(key)
    return opset13.subtract(opset13.unsqueeze(tokens, integer(0)), opset13.unsqueeze(tokens, integer(1)))


def _buckets(distance: np.ndarray, config: EncoderConfig) -> np.ndarray:
    half = config.relative_buckets // 2
    exact = half // 2
    far = np.abs(distance)
    spread = np.log(np.maximum(far, 1).astype(np.float32) / exact) / math.log(FARTHEST / exact) * (half - exact)
    logarithmic = np.minimum(exact + spread.astype(np.int64), half - 1)
    return np.asarray(np.where(far < exact, far, logarithmic) + half * (distance > 0))
