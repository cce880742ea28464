"""What a sampler is."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Sampler:
    """Says which rows are trained on: how an epoch is divided among tasks, and what of it a step keeps."""

    candidates = 1
    """How many rows a step draws for each that it trains on; 0: as many as there are tasks. More than 1: `choose`"""

    def counts(self, sizes: Sequence[int], epoch: int, epochs: int) -> list[int]:
        """Rows of each task in this epoch (from 0) of so many; whole numbers that sum to sum(sizes)."""
        raise NotImplementedError

    def choose(self, tasks: NDArray[np.int64], entropies: NDArray[np.float64]) -> NDArray[np.int64]:
        """The places of drawn rows, from the one to train on first to the one to leave out first.

        `entropies` say how unsure the model is about each row now, from 0 to 1; all 0 for tasks where that cannot be
        said.
        """
        raise NotImplementedError

    def weights(self, tasks: NDArray[np.int64]) -> NDArray[np.float64]:
        """The factor of each row's loss in a step on rows of these tasks; 1 on average."""
        return np.ones(len(tasks))
