"""What kinds share that choose among the points of a row: candidates, tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


def choice_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """-log of the probability of the right points, of which one is enough: (R, P, C) -> (R, C); -inf is no point."""
    log_p = logits.float().log_softmax(1)
    return -log_p.masked_fill(targets == 0, float("-inf")).logsumexp(1)


def choice_entropy(logits: Tensor) -> Tensor:
    """The entropy over a row's points, over that of an even guess: (R, P, C) -> (R, C)"""
    real = logits.isfinite()
    log_p = logits.float().log_softmax(1).masked_fill(~real, 0.0)
    own = -(log_p.exp() * log_p * real).sum(1)
    return own / real.sum(1).clamp(min=2).log()


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the points of one row: (P, C) over P."""
    exp = np.exp(logits - logits.max(0, keepdims=True))
    return np.asarray(exp / exp.sum(0, keepdims=True))
