"""8 bits: which numbers go into each linear layer, and which layers are computed in 8 bits.

The range of each place is found once, on texts, and then fixed, or taken from each row by itself, which is slower and
more exact; more exact still are 16 bits. A scale that is taken from what is computed together would make a text's
answer depend on the texts beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

import numpy as np

from onepass.engine.products import BY_ROW, IN_16, Range, eight_bit_product
from onepass.engine.runtime import Program, computes_in_16, multiplies_by_row, parameter
from onepass.engine.weights import Weights

Bounds = dict[str, Range]

LADDER: dict[str, Callable[[Range], Range]] = {
    "all": lambda seen: seen,
    "nothing, but all in 16": lambda seen: IN_16,
    "all, by row": lambda seen: BY_ROW,
}
"""What to compute in 8 bits and how, by name, in the order of trying: the range of a place. Where a processor computes
in 16 bits by itself that is about as fast as by row, or faster, at a third of the error."""


def chosen(name: str, seen: Mapping[str, Range]) -> Bounds:
    """The ranges of all places, as one of `LADDER` wants them."""
    return {place: LADDER[name](own) for place, own in seen.items()}


def precision_of(ranges: Mapping[str, Range]) -> str:
    """What is computed with these ranges, in a word."""
    if not ranges:
        return "fp32"
    return "bf16" if all(seen.in_16 for seen in ranges.values()) else "int8"


def computed_here(ranges: Mapping[str, Range]) -> bool:
    """Whether this processor computes with these ranges as they say, so that a gate elsewhere holds here, too."""
    if precision_of(ranges) == "bf16":
        return computes_in_16()
    by_row = any(seen.by_row for seen in ranges.values())
    fixed = any(not seen.by_row and not seen.in_16 for seen in ranges.values())
    return (multiplies_by_row() or not by_row) and (not fixed or multiplies_in_8())


@cache
def multiplies_in_8() -> bool:
    """Whether products with fixed ranges are right here.

    Processors without VNNI add two products in 16 bits, where large ones do not fit, and go on with the largest number
    that does. It is tried: no list of features is the same on all processors and systems.
    """
    x, ones = parameter("x", (1, -1, 64)), np.ones((64, 64), np.float32)
    product = eight_bit_product(x, ones, Range(0 * ones[0], ones[0]), np.arange(64))
    found = Program([x], [product], 1)({"x": ones[None]})[0]
    return bool(np.allclose(found, 64, rtol=0.01))


def joined(found: Iterable[Mapping[str, Range]]) -> Bounds:
    """The ranges that hold what was seen on all texts."""
    ranges: Bounds = {}
    for one in found:
        for place, new in one.items():
            old = ranges.get(place, new)
            ranges[place] = Range(np.minimum(old.low, new.low), np.maximum(old.high, new.high))
    return ranges


def to_weights(ranges: Mapping[str, Range]) -> Weights:
    """As they are written to a file."""
    return {f"{place}.{end}": getattr(seen, end) for place, seen in ranges.items() for end in ("low", "high")}


def from_weights(weights: Weights) -> Bounds:
    """The reverse of `to_weights`."""
    places = [name.removesuffix(".low") for name in weights if name.endswith(".low")]
    return {place: Range(weights[f"{place}.low"], weights[f"{place}.high"]) for place in places}
