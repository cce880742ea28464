"""How far two computations of the same logits may be apart: as far as rounding takes them, and no further."""

import numpy as np

from onepass.engine.weights import Weights

TOLERANCE = 1e-4
"""Of a logit, for heads of usual weights"""
USUAL = 100.0
"""The most that the sizes of a logit's weights add up to in a usual head; those of trained tasks have 5 to 80"""


def tolerance(task: Weights) -> float:
    """How far a logit of a task may be off.

    A state that is rounded otherwise moves a logit by as much as the head's weights make of it. Heads that were fitted
    to texts which the encoder hardly tells apart, or to large numbers, have weights of thousands: there it is states
    that may be off, by 1e-6.

    >>> tolerance({"head.weight": np.full((2, 400), 0.05)}), tolerance({"head.weight": np.full((2, 400), 50.0)})
    (0.0001, 0.02)
    """
    return TOLERANCE * max(1.0, float(np.abs(task["head.weight"]).sum(1).max()) / USUAL)
