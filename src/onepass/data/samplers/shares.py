"""Dividing an epoch among tasks in whole rows."""

from collections.abc import Sequence

import numpy as np


def counts_by_power(sizes: Sequence[int], alpha: float) -> list[int]:
    """Rows of each task, in proportion to size ** alpha; they sum to sum(sizes).

    Fractions go to the largest remainders. A task that has rows gets one at least.

    >>> counts_by_power([900, 100], alpha=0.5)
    [750, 250]
    """
    total = sum(sizes)
    size = np.asarray(sizes, np.float64)
    filled = size > 0
    powers = np.where(filled, np.where(filled, size, 1.0) ** alpha, 0.0)  # 0 ** 0 is 1, but no rows are no rows
    ideal = powers * (total / max(powers.sum(), 1.0))
    counts = np.maximum(np.floor(ideal).astype(np.int64), filled)
    for _ in range(total - int(counts.sum())):
        counts[np.argmax(np.where(filled, ideal - counts, -np.inf))] += 1
    # The rows that lifted small tasks to one come from the tasks that are furthest above their part.
    for _ in range(int(counts.sum()) - total):
        counts[np.argmax(np.where(counts > 1, counts - ideal, -np.inf))] -= 1
    return [int(count) for count in counts]
