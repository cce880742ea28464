"""Cutting texts into batches of about the same length, so that little is computed for padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_TOKENS = 1024
"""Tokens of a batch, padding counted, unless one text alone has more; more of them brought no speed on two cores"""
CALL = {"fp32": 12, "int8": 48}
"""What one more batch costs, in tokens: calling the runtime, and products too small to be fast"""
STEP = 4
"""Lengths are rounded up to a multiple of this: the runtime has to prepare itself for each new shape"""


def padded(length: Any) -> Any:
    """A length, or an array of them, as it is computed."""
    return -(-length // STEP) * STEP


def batches(lengths: Sequence[int], precision: str = "fp32") -> list[np.ndarray]:
    """Which texts to compute together, the cheapest way there is; each text is in one batch.

    With the texts in order of length, a batch is a stretch of them, and costs its padded tokens and `CALL`.

    >>> [found.tolist() for found in batches([120, 9, 8, 118, 10])]
    [[2, 1, 4], [0, 3]]
    """
    if len(lengths) == 1:
        return [np.zeros(1, np.int64)]
    sizes = padded(np.asarray(lengths, np.int64))
    order = np.argsort(sizes, kind="stable")
    sizes = sizes[order]
    costs = np.zeros(len(order) + 1)  # of the cheapest way to compute the first texts
    starts = np.zeros(len(order) + 1, np.int64)  # of the last batch in it
    for end in range(1, len(order) + 1):
        longest = sizes[end - 1]
        first = max(0, end - max(1, MOST_TOKENS // longest))
        options = costs[first:end] + np.arange(end - first, 0, -1) * longest
        best = int(options.argmin())
        costs[end] = options[best] + CALL[precision]
        starts[end] = first + best
    found = []
    end = len(order)
    while end:
        found.append(order[starts[end] : end])
        end = int(starts[end])
    return found[::-1]
