"""Where the weights of an added task begin: like the most similar task, and with a head that is fitted to its rows.

Both are ridge regressions, which are had at once. R rows, H width of a vector, C outputs.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from onepass.encoder.encoder import evaluating
from onepass.training.cache import TextCache

SIMILAR_ROWS = 128  # rows on which the most similar task is found
RIDGE = 1.0  # how small a fitted head is held; 0.3 to 3 were alike from 8 to 200 rows, 0.01 was up to 7 points worse
STRETCHES, SHIFTS = (1.0, 2.0, 4.0, 8.0, 16.0), (0.0, 0.5)


@torch.no_grad()
def most_similar(texts: TextCache, targets: np.ndarray, tasks: Sequence[int], seed: int) -> int:
    """The task whose vectors tell the most about the targets, by a ridge regression that leaves one row out."""
    rows = np.random.default_rng(seed).permutation(len(targets))[:SIMILAR_ROWS].tolist()
    y = as_numbers(targets, rows, int(targets.max()) + 1)
    y = y - y.mean(0)
    with evaluating(texts.method):
        _, _, where, states = texts.ask(rows, tasks)
    assert where.rows is not None
    vectors = states.vectors.float().cpu()[np.unique(where.rows, return_index=True)[1]]  # of a row's first sequence
    errors = [_left_out_error(vectors[:, place], y) for place in range(len(tasks))]
    return tasks[int(np.argmin(errors))]


def fitted_head(x: Tensor, y: Tensor, losses: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Weight (C, H) and bias (C,) whose logits predict y (R, C) from x (R, H).

    `losses` (R,) are those of logits (R, C): predictions become logits by a stretch and a shift, chosen on what is
    predicted of each row from the others. Softmax ignores the shift, sigmoid does not. A stretch is only as sure as the
    rows are many: of those whose loss is within a standard error of the least the smallest is taken.
    """
    center, mean = x.mean(0), y.mean(0)
    inverse = _ridge_inverse(x - center, RIDGE)
    left_out = y - inverse @ (y - mean) / inverse.diagonal().unsqueeze(1)
    found = {(a, b): losses(a * (left_out - b)).double() for b in SHIFTS for a in STRETCHES}
    best, shift = min(found, key=lambda choice: float(found[choice].mean()))
    least = found[best, shift]
    enough = float(least.mean() + least.std(correction=0) / math.sqrt(len(least)))
    stretch = next(a for a in STRETCHES if a == best or float(found[a, shift].mean()) <= enough)
    weight = stretch * (x - center).T @ inverse @ (y - mean)  # (H, C)
    return weight.T, stretch * (mean - shift) - center @ weight


def as_numbers(targets: np.ndarray, rows: Sequence[int], labels: int) -> Tensor:
    """The targets of rows as numbers that a regression can predict, (R, C): a column for each label."""
    wanted = targets[rows]
    if np.issubdtype(wanted.dtype, np.integer) and wanted.ndim == 1:
        wanted = np.eye(labels)[wanted]
    return torch.from_numpy(wanted.reshape(len(rows), -1).astype(np.float32))


def _ridge_inverse(x: Tensor, ridge: float) -> Tensor:
    """(x x' + ridge * its mean diagonal)^-1 of centred vectors (R, H): (R, R)"""
    kernel = x @ x.T
    return torch.linalg.inv(kernel + kernel.diagonal().mean().clamp(min=1e-6) * ridge * torch.eye(len(x)))


def _left_out_error(x: Tensor, y: Tensor) -> float:
    """The mean square error of each target (R, C), predicted from the other rows' vectors (R, H) and targets."""
    inverse = _ridge_inverse(x - x.mean(0), 0.1)
    return float(((inverse @ y) / inverse.diagonal().unsqueeze(1)).square().mean())
