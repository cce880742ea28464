"""Products with a weight in 8 bits, and the ranges of numbers that they need to have seen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onepass.engine.nodes import constant, integers
from onepass.engine.runtime import Node, opset13

WEIGHT_GROUP = 64
"""Neighbouring columns of a weight that share a scale where rows have their own"""
OUTLIER, MOST_OUTLIERS = 3.0, 8
"""Columns over so many times the middle one are far larger than the rest; how many may stay out of 8 bits"""


@dataclass(frozen=True)
class Range:
    """The least and the greatest number that was seen in each column of what goes into a linear layer, (C,).

    Of no columns: every row is measured by itself while it is computed. Of one: 16 bits are enough, but 8 are not.
    """

    low: np.ndarray
    high: np.ndarray

    @property
    def by_row(self) -> bool:
        """Whether each row is measured by itself"""
        return not len(self.low)

    @property
    def in_16(self) -> bool:
        """Whether the layer takes 16 bits"""
        return len(self.low) == 1

    @property
    def largest(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))


BY_ROW = Range(np.empty(0, np.float32), np.empty(0, np.float32))
IN_16 = Range(np.zeros(1, np.float32), np.zeros(1, np.float32))


def eight_bit_product(x: Node, weight: np.ndarray, seen: Range, usual: np.ndarray) -> Node:
    """W x with both sides as whole numbers of 8 bits: 256 steps for x, and for each output of the weights.

    usual: the columns of x that count. Where some are far larger than the rest, and would leave it few steps, each
    column is divided by a factor that its weights are multiplied with (SmoothQuant, arXiv:2211.10438).
    """
    factors = np.ones(weight.shape[1], np.float32)
    largest, strongest = seen.largest[usual], np.abs(weight).max(0)[usual]
    if largest.max() > OUTLIER * np.median(largest):
        largest, strongest = (np.maximum(part, 1e-3 * part.max() + 1e-12) for part in (largest, strongest))
        factors[usual] = np.sqrt(largest / strongest)
        x = opset13.multiply(x, constant(1 / factors))
    low = min(float((seen.low / factors)[usual].min()), -1e-6)
    high = max(float((seen.high / factors)[usual].max()), 1e-6)
    ends = [constant(np.float32(end)) for end in (low, high)]
    steps = opset13.fake_quantize(x, *ends, *ends, 256)
    scaled = weight * factors
    spreads = np.maximum(np.abs(scaled).max(1, keepdims=True), 1e-12).astype(np.float32) / np.float32(127)
    whole = opset13.constant(np.rint(scaled / spreads).astype(np.int8))
    return opset13.matmul(steps, opset13.multiply(opset13.convert(whole, "f32"), constant(spreads)), False, True)


def product_by_row(x: Node, weight: np.ndarray) -> Node:
    """W x with the weights in 8 bits, and x turned into 8 bits by the runtime, each row by itself.

    It takes a scale for every few columns of a row (`runtime.GROUP`), so that one large column spoils but its
    neighbours, and needs to have seen nothing before. Where a processor has no such product, x stays in 32 bits.
    """
    outputs, columns = weight.shape
    group = WEIGHT_GROUP if columns % WEIGHT_GROUP == 0 else columns
    parts = weight.reshape(outputs, -1, group)
    spreads = np.maximum(np.abs(parts).max(2, keepdims=True), 1e-12).astype(np.float32) / np.float32(127)
    whole = opset13.constant(np.rint(parts / spreads).astype(np.int8))
    weights = opset13.multiply(opset13.convert(whole, "f32"), constant(spreads))
    return opset13.matmul(x, opset13.reshape(weights, integers(outputs, columns), False), False, True)
