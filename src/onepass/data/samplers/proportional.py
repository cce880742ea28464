"""Every row once an epoch, so that large tasks are seen more often than small ones."""

from collections.abc import Sequence

from onepass.data.samplers.base import Sampler
from onepass.data.samplers.shares import counts_by_power


class Proportional(Sampler):
    """Rows in proportion to a task's size: p_i ∝ N_i, as MTOP and MT-TaG train."""

    def counts(self, sizes: Sequence[int], epoch: int, epochs: int) -> list[int]:
        return counts_by_power(sizes, 1.0)
