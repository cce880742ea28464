"""Between proportional and uniform: small tasks are seen more often than their size, large ones less."""

from collections.abc import Sequence

from onepass.data.samplers.base import Sampler
from onepass.data.samplers.shares import counts_by_power


class SquareRoot(Sampler):
    """Rows in proportion to the square root of a task's size: p_i ∝ N_i ** 0.5."""

    def counts(self, sizes: Sequence[int], epoch: int, epochs: int) -> list[int]:
        return counts_by_power(sizes, 0.5)
