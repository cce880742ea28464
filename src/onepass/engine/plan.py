"""Cutting texts into batches of about the same length.

Linear layers see packed tokens, whatever the lengths; in attention texts lie side by side, as long as the longest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MOST_TOKENS = 1024
"""Tokens of a batch unless one text alone has more; more of them brought no speed on two cores"""
CALL = 55_000
"""What one more batch costs, in tokens that read tokens: calling the runtime, and products too small to be fast. About
the same in 32 and in 8 bits"""
STEPS, LARGEST_STEP = ((64, 4), (512, 16)), 32
"""Numbers of tokens below the first are rounded up to a multiple of the second"""
LANES = 16
"""Numbers that a processor computes at a time, at most; texts lie side by side in a multiple of it. The runtime sums
what is left over at the end of a row in another way, so that a sum would differ in its last digit with the length of
the row. In 8 bits such a digit can turn a number into the next of 256 steps, which is a hundredth in a logit"""


def rounded(count: int) -> int:
    """So many tokens of a batch as they are computed: up to a multiple of a step.

    The runtime prepares itself for each new shape and keeps what it made, so there must not be too many of them.

    >>> [rounded(count) for count in (30, 65, 600)]
    [32, 80, 608]
    """
    step = next((step for below, step in STEPS if count < below), LARGEST_STEP)
    return -(-count // step) * step


def filled(asked: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The tasks asked as they are computed: with the last of them again, up to an eighth more, but not over `most`.

    For the reason of `rounded`: of a hundred tasks any number can be asked, each with every shape of a batch.

    >>> [len(filled(tuple(range(count)), 100)) for count in (7, 17, 33, 99)]
    [7, 18, 36, 100]
    """
    step = 1 << max(0, len(asked).bit_length() - 4)
    count = min(-(-len(asked) // step) * step, most)
    return asked + asked[-1:] * (count - len(asked))


def laid_out(length: int) -> int:
    """The places of each text where texts of at most this length lie side by side."""
    return -(-length // LANES) * LANES


def batches(lengths: Sequence[int]) -> list[np.ndarray]:
    """Which texts to compute together, the cheapest way there is; each text is in one batch.

    With the texts in order of length, a batch is a stretch of them, and costs `CALL` and what attention takes with its
    padding; the tokens themselves cost the same in any batch.

    >>> [found.tolist() for found in batches([250, 9, 8, 240, 10])]
    [[2, 1, 4], [3, 0]]
    """
    if len(lengths) == 1:
        return [np.zeros(1, np.int64)]
    order = np.argsort(lengths, kind="stable")
    sizes = np.asarray(lengths, np.int64)[order]
    before = np.concatenate([[0], np.cumsum(sizes)])  # tokens of the first texts
    costs = np.zeros(len(order) + 1)  # of the cheapest way to compute the first texts
    starts = np.zeros(len(order) + 1, np.int64)  # of the last batch in it
    for end in range(1, len(order) + 1):
        first = min(int(np.searchsorted(before, before[end] - MOST_TOKENS)), end - 1)
        options = costs[first:end] + np.arange(end - first, 0, -1) * laid_out(int(sizes[end - 1])) ** 2
        best = int(options.argmin())
        costs[end] = options[best] + CALL
        starts[end] = first + best
    found = []
    end = len(order)
    while end:
        found.append(order[starts[end] : end])
        end = int(starts[end])
    return found[::-1]
