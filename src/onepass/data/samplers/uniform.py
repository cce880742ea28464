"""As many rows of every task: small tasks are repeated, large ones are seen in part."""

from collections.abc import Sequence

from onepass.data.samplers.base import Sampler
from onepass.data.samplers.shares import counts_by_power


class Uniform(Sampler):
    """The same number of rows of each task: p_i = 1 / T with T tasks, CA-MTL's "random" and MT-TaG's ablation."""

    def counts(self, sizes: Sequence[int], epoch: int, epochs: int) -> list[int]:
        return counts_by_power(sizes, 0.0)
