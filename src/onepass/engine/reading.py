"""The engine of method `readers`: the tasks' tokens read the text in the top layers.

What is computed is what is read: the text up to the keys and values of the last layer, or for few readers up to its
input, then the readers of the asked tasks, all together. In the first layer they read in, the readers' queries, keys
and values do not depend on the text and are computed once, when tasks are chosen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onepass.engine.graph import TextNodes
from onepass.engine.nodes import constant, integer, integers, length
from onepass.engine.products import IN_16
from onepass.engine.runner import Runner
from onepass.engine.runtime import Node, opset13, parameter

SITE = "/readers"
"""Ends the names of places where readers go through a linear layer of the encoder"""


class Reading(Runner):
    """R readers in all: n of each task, next to each other."""

    @property
    def num_tokens(self) -> int:
        return int(self.tasks[0]["method.tokens"].shape[0])

    @property
    def entry(self) -> int:
        """The layer in which readers begin."""
        return self.encoder.config.depth - int(self.recipe["depth"])

    @property
    def few(self) -> bool:
        """Whether the last layer costs less with readers that read the text's states than with keys and values.

        Both are the same sums in another order. In 8 bits keys and values cost little, and turned keys are not linear
        in the states.
        """
        config, last = self.encoder.config, self.encoder.config.depth - 1
        turned = config.local_theta if last in config.local_layers else config.global_theta
        rows = len(self.tasks) * self.num_tokens * config.heads
        small = not self.encoder.ranges.get(f"layers.{last}.qkv", IN_16).in_16
        return 2 * rows <= config.width and not turned and not small

    @property
    def whole(self) -> bool:
        return f"layers.{self.encoder.config.depth - 1}.attention_output" in self.encoder.ranges

    @property
    def form(self) -> tuple[int, bool]:
        return self.num_tokens, self.few

    def build(self, text: TextNodes, tokens: bool) -> tuple[list[Node], Node, Node | None]:
        encoder, config = self.encoder, self.encoder.config
        x = self.states(text, self.entry)
        heads, size, n = config.heads, config.head_dim, self.num_tokens
        readers = parameter("readers", (1, -1, config.width))
        query, own_value = (parameter(name, (1, heads, -1, size)) for name in ("query", "own_value"))
        own_scores = parameter("own_scores", (1, heads, -1, n))
        inputs, states, scores, last = [readers, query, own_scores, own_value], readers, own_scores, config.depth - 1
        for number in range(self.entry, config.depth):
            if number < last or tokens:
                text_query, key, value = encoder.project(number, x, text)
                x = encoder.merge(number, x, encoder.attend(number, text_query, key, value, text), text)
                x = encoder.feed_forward(number, x)
            elif not self.few:
                key, value = encoder.keys_values(number, x, text)
            if number > self.entry:
                query, own_key, own_value = encoder.project(number, states, None, SITE)
                query = encoder.scaled(query)
                scores = _own_scores(query, own_key, n)
            if number == last and self.few and not tokens:
                attended = self._read_states(query, x, text, scores, own_value)
            else:
                attended = _read(query, key, value, text.mask, scores, own_value, n)
            states = encoder.merge(number, states, attended, None, SITE)
            if number < last or self.recipe["readout"] == "layer":
                states = encoder.feed_forward(number, states, SITE)
        states = encoder.finish(states)
        if n > 1:
            by_task = opset13.reshape(states, integers(0, -1, n, config.width), special_zero=True)
            states = opset13.reduce_mean(by_task, integers(2), False)
        return inputs, opset13.transpose(states, integers(1, 0, 2)), encoder.finish(x) if tokens else None

    def _read_states(self, query: Node, x: Node, text: TextNodes, own_scores: Node, own_value: Node) -> Node:
        """What `_read` gives in the last layer, from what goes into it (1, T, H) instead of its keys and values.

        A query on a key W x + b is the query W on x, and b adds the same to all scores of a reader: it is taken from
        the own ones instead. The sum of values V x + c is V times the sum of x, and c, since all shares add up to 1.
        """
        config, name = self.encoder.config, f"layers.{self.encoder.config.depth - 1}."
        heads, size, width = config.heads, config.head_dim, config.width
        x = self.encoder.norm(x, name + "attention_norm") if config.pre_norm else x
        self.encoder.watched[name + "qkv"] = x
        x = opset13.squeeze(text.side_by_side(x, width), integer(0))  # (G, M, H)
        weights = self.encoder.weights
        _, to_keys, to_values = weights[name + "qkv.weight"].reshape(3, 1, heads, size, width)
        biases = weights.get(name + "qkv.bias", np.zeros(3 * width, np.float32))
        _, key_bias, value_bias = biases.reshape(3, 1, heads, 1, size)
        tokens = length(x, 1)

        def shaped(states: Node, *shape: int | Node) -> Node:
            sizes = [part if isinstance(part, Node) else integers(part) for part in shape]
            return opset13.reshape(states, opset13.concat(sizes, 0), special_zero=True)

        def values(shares: Node) -> Node:
            sums = opset13.matmul(shaped(shares, 0, -1, tokens), x, False, False)  # (G, heads * R, H)
            return opset13.matmul(shaped(sums, 0, heads, -1, width), constant(to_values), False, True)

        queries = shaped(opset13.matmul(query, constant(to_keys), False, False), 0, -1, width)  # (., heads * R, H)
        scores = opset13.add(shaped(opset13.matmul(queries, x, False, True), 0, heads, -1, tokens), text.mask)
        own_scores = opset13.subtract(own_scores, opset13.matmul(query, constant(key_bias), False, True))
        own_value = opset13.subtract(own_value, constant(value_bias))
        found = _mixed(scores, values, own_scores, own_value, self.num_tokens)
        return opset13.add(found, constant(value_bias))

    def choose(self, asked: tuple[int, ...]) -> dict[str, np.ndarray]:
        config, name = self.encoder.config, f"layers.{self.entry}."
        weights, n = self.encoder.weights, self.num_tokens
        if self.encoder.ranges and len(asked) * n == 1:
            # The runtime sums a product of one row in another way than of two or more. In 8 bits that last digit can
            # turn a number into the next step (as in `plan.LANES`), so that an answer would depend on what else is
            # asked: a reader never reads by itself.
            asked = asked * 2
        found = self.poolers.choose(asked)
        # A product for each task, since a product of more rows may sum each of them in another way, too.
        tokens = np.stack([self.tasks[task]["method.tokens"] for task in asked])  # (K, n, H)
        x = tokens
        if config.pre_norm and f"{name}attention_norm.weight" in weights:
            norm = f"{name}attention_norm"
            x = _normed(x, weights[f"{norm}.weight"], weights.get(f"{norm}.bias"), config.norm_eps)
        states = x @ weights[f"{name}qkv.weight"].T + weights.get(f"{name}qkv.bias", np.float32(0))
        query, key, value = states.reshape(-1, 3, config.heads, config.head_dim).transpose(1, 2, 0, 3)  # (heads, R, d)
        query = query * np.float32(config.head_dim**-0.5)
        by_task = (config.heads, len(asked), n, config.head_dim)
        scores = query.reshape(by_task) @ key.reshape(by_task).swapaxes(-1, -2)  # (heads, K, n, n)
        inputs = {
            "readers": tokens.reshape(1, -1, config.width),
            "query": query[None],
            "own_scores": scores.reshape(1, config.heads, -1, n),
            "own_value": value[None],
        }
        return found | {key: np.ascontiguousarray(array) for key, array in inputs.items()}


def _read(query: Node, key: Node, value: Node, mask: Node, own_scores: Node, own_value: Node, n: int) -> Node:
    """What readers (., heads, R, d) get from the text (G, heads, M, d) and from their own task's n readers."""
    scores = opset13.add(opset13.matmul(query, key, False, True), mask)  # (G, heads, R, M)
    return _mixed(scores, lambda shares: opset13.matmul(shares, value, False, False), own_scores, own_value, n)


def _mixed(scores: Node, values: Callable[[Node], Node], own_scores: Node, own_value: Node, n: int) -> Node:
    """The mean of what is read on the text and of the own values; `values` makes (G, heads, R, d) of the text's shares.

    One softmax over both, written out: putting the scores into one tensor and cutting them apart again would copy them
    twice.
    """
    last = integers(3)
    own_highest = own_scores if n == 1 else opset13.reduce_max(own_scores, last, keep_dims=True)
    highest = opset13.maximum(opset13.reduce_max(scores, last, keep_dims=True), own_highest)
    on_text, on_own = (opset13.exp(opset13.subtract(part, highest)) for part in (scores, own_scores))
    own_total = on_own if n == 1 else opset13.reduce_sum(on_own, last, keep_dims=True)
    total = opset13.add(opset13.reduce_sum(on_text, last, keep_dims=True), own_total)
    from_text = values(on_text)
    if n == 1:
        from_own = opset13.multiply(on_own, own_value)
    else:
        from_own = _flat(opset13.matmul(_by_task(on_own, n), _by_task(own_value, n), False, False))
    return opset13.divide(opset13.add(from_text, from_own), total)


def _own_scores(query: Node, key: Node, n: int) -> Node:
    """(G, heads, R, n): each reader on the readers of its own task."""
    if n == 1:
        return opset13.reduce_sum(opset13.multiply(query, key), integers(3), keep_dims=True)
    return _flat(opset13.matmul(_by_task(query, n), _by_task(key, n), False, True))


def _by_task(x: Node, n: int) -> Node:
    """(G, heads, K * n, s) to (G, heads, K, n, s)."""
    size = opset13.gather(opset13.shape_of(x), integers(3), integer(0))
    return opset13.reshape(x, opset13.concat([integers(0, 0, -1, n), size], 0), special_zero=True)


def _flat(x: Node) -> Node:
    """(G, heads, K, n, s) to (G, heads, K * n, s)."""
    size = opset13.gather(opset13.shape_of(x), integers(4), integer(0))
    return opset13.reshape(x, opset13.concat([integers(0, 0, -1), size], 0), special_zero=True)


def _normed(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, eps: float) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight
    return scaled if bias is None else scaled + bias
