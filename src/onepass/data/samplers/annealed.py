"""From proportional in the first epoch to nearly uniform in the last.

Stickland and Murray, BERT and PALs: Projected Attention Layers for Efficient Adaptation in Multi-Task Learning,
arXiv:1902.02671.
"""

from collections.abc import Sequence

from onepass.data.samplers.base import Sampler
from onepass.data.samplers.shares import counts_by_power
from onepass.errors import ConfigError


class Annealed(Sampler):
    """p_i ∝ N_i ** alpha with alpha = 1 - drop * e / (E - 1) in epoch e = 0 ... E - 1."""

    def __init__(self, *, drop: float = 0.8):
        """drop: how far alpha falls over the training; 0.8 in the paper, 1 ends in uniform."""
        if isinstance(drop, bool) or not isinstance(drop, int | float) or not 0 <= drop <= 1:
            raise ConfigError(f"Option 'drop' of sampler 'annealed' is {drop!r}. Give a number from 0 to 1.")
        self.drop = drop

    def counts(self, sizes: Sequence[int], epoch: int, epochs: int) -> list[int]:
        # A training of one epoch has nothing to anneal.
        return counts_by_power(sizes, 1 - self.drop * epoch / max(epochs - 1, 1))
