"""How many rows of each task an epoch has. A sampler is one small file and one line in SAMPLERS."""

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

from onepass.data.samplers.annealed import Annealed
from onepass.data.samplers.proportional import Proportional
from onepass.data.samplers.square_root import SquareRoot
from onepass.data.samplers.uniform import Uniform
from onepass.errors import ConfigError, listed, unknown


class Sampler(Protocol):
    """Divides an epoch among tasks."""

    def counts(self, sizes: Sequence[int], epoch: int, epochs: int) -> list[int]:
        """Rows of each task in this epoch (from 0) of so many; whole numbers that sum to sum(sizes)."""


SAMPLERS: dict[str, type[Sampler]] = {
    "proportional": Proportional,
    "uniform": Uniform,
    "square_root": SquareRoot,
    "annealed": Annealed,
}


def make_sampler(name: str, **options: Any) -> Sampler:
    """The sampler of this name; its options are the arguments of its constructor."""
    if name not in SAMPLERS:
        raise ConfigError(unknown("sampler", name, SAMPLERS))
    known = inspect.signature(SAMPLERS[name]).parameters
    wrong = [option for option in options if option not in known]
    if wrong and not known:
        raise ConfigError(f"Sampler {name!r} has no options. Found: {', '.join(wrong)}.")
    if wrong:
        raise ConfigError(listed([unknown(f"option of sampler {name!r}", option, known) for option in wrong]))
    return SAMPLERS[name](**options)
