"""The heads of tasks that read tokens: words, marks and spans of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepass.engine.weights import Weights
from onepass.heads import Kind


def point_logits(
    own: Weights,
    kind: Kind,
    vectors: np.ndarray,
    states: Sequence[np.ndarray],
    ranges: Sequence[NDArray[np.int16]],
) -> Any:
    """What one task says about the points of B texts: a list of (P, C), or (B, C) if the kind is not ragged.

    vectors: (B, H); states: of each text's tokens, (tokens, H); ranges: the tokens of each text's points, (P, 2).
    """
    counts = np.array([len(found) for found in ranges], np.int64)
    flat = np.concatenate(ranges).astype(np.int64).reshape(-1, 2)
    sizes = flat[:, 1] - flat[:, 0]
    row_of_point = np.repeat(np.arange(len(states)), counts)
    starts = np.cumsum([0, *(len(own_states) for own_states in states)])[:-1]
    firsts = np.cumsum(sizes) - sizes  # where each point begins among the tokens that are read
    places = np.arange(sizes.sum()) - np.repeat(firsts - flat[:, 0] - starts[row_of_point], sizes)
    tokens = np.concatenate(states)[places]  # (tokens of all points, H)
    if "method.film.weight" in own:
        turned = vectors @ own["method.film.weight"].T + own["method.film.bias"]  # (B, 2 H)
        scale, shift = np.split(turned[np.repeat(row_of_point, sizes)], 2, axis=1)
        tokens = (1 + scale) * tokens + shift
    points = tokens
    if len(flat) != len(tokens) or (sizes != 1).any():  # the mean of each point
        points = np.zeros((len(flat), tokens.shape[1]), np.float32)
        some = sizes > 0
        if some.any():
            points[some] = np.add.reduceat(tokens, firsts[some]) / sizes[some, None]
    if not kind.ragged:
        points = np.concatenate([vectors, points.reshape(len(states), -1)], 1)
    logits = (points @ own["head.weight"].T + own["head.bias"]).astype(np.float32)
    return np.split(logits, np.cumsum(counts)[:-1]) if kind.ragged else logits
