"""Which rows are trained on. A sampler is one small file and one line in SAMPLERS."""

import inspect
from typing import Any

from onepass.data.samplers.annealed import Annealed
from onepass.data.samplers.base import Sampler
from onepass.data.samplers.proportional import Proportional
from onepass.data.samplers.square_root import SquareRoot
from onepass.data.samplers.uncertainty import Uncertainty
from onepass.data.samplers.uniform import Uniform
from onepass.errors import ConfigError, listed, unknown

SAMPLERS: dict[str, type[Sampler]] = {
    "proportional": Proportional,
    "uniform": Uniform,
    "square_root": SquareRoot,
    "annealed": Annealed,
    "uncertainty": Uncertainty,
}

__all__ = ["SAMPLERS", "Sampler", "make_sampler"]


def make_sampler(name: str, **options: Any) -> Sampler:
    """The sampler of this name; its options are the arguments of its constructor."""
    if not isinstance(name, str) or name not in SAMPLERS:
        raise ConfigError(unknown("sampler", name, SAMPLERS))
    known = inspect.signature(SAMPLERS[name]).parameters
    wrong = [option for option in options if option not in known]
    if wrong and not known:
        raise ConfigError(f"Sampler {name!r} has no options. Found: {', '.join(wrong)}.")
    if wrong:
        raise ConfigError(listed([unknown(f"option of sampler {name!r}", option, known) for option in wrong]))
    return SAMPLERS[name](**options)
