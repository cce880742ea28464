"""The texts of a batch as arrays: packed one behind the other, and where each token is when they lie side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from onepass.engine.graph import FAR
from onepass.engine.plan import laid_out, rounded
from onepass.engine.runner import Text
from onepass.inquiry import Pieces

KEPT = 64
"""Layouts of batches that are kept: texts of the same lengths, one text above all, come again"""


def packed(pieces: Sequence[Pieces], capacity: int, exactly: bool = False) -> Text:
    """What `TextNodes` wants to be given; `exactly`: without a token that is no text's."""
    layout = _layout(tuple(map(len, pieces)), capacity, exactly)
    ids, types = (np.zeros_like(layout["positions"]) for _ in range(2))
    start = 0
    for one in pieces:
        end = start + len(one)
        ids[0, start:end], types[0, start:end] = one.ids, one.types
        start = end
    return {"ids": ids, "types": types, **layout}


@lru_cache(KEPT)
def _layout(lengths: tuple[int, ...], capacity: int, exactly: bool) -> Text:
    total, longest = sum(lengths), max(lengths)
    tokens = total if exactly else rounded(total)
    longest = longest if exactly else min(laid_out(longest), capacity)
    ends = np.cumsum(lengths)
    starts = (ends - lengths)[:, None]
    inside = np.arange(longest) < np.array(lengths)[:, None]  # (G, M)
    positions, back = (np.zeros((1, tokens), np.int32) for _ in range(2))
    positions[0, :total] = np.nonzero(inside)[1]
    back[0, :total] = np.flatnonzero(inside)
    return {
        "positions": positions,
        "spread": np.where(inside, starts + np.arange(longest), starts).astype(np.int32),
        "back": back,
        "mask": np.where(inside, np.float32(0), FAR)[:, None, None],
    }
