"""Layers and encoders with a part exchanged, for methods that change what happens inside a layer."""

import copy
from typing import Any, TypeVar

from onepass.encoder.encoder import Encoder, Layer

Part = TypeVar("Part", Layer, Encoder)


def with_parts(layer: Part, **parts: Any) -> Part:
    """The same layer, or encoder, with the same weights and hooks, but these parts in place of its own.

    Parts are norms, linears, steps. Made anew for every call, so that nothing is kept and the encoder itself stays as
    it is.
    """
    other = copy.copy(layer)
    other.__dict__.update(parts)  # found before the layer's own modules and methods
    return other
