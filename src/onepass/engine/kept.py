"""The last results of a function, as long as they take little memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = dict[Any, np.ndarray]


class Kept:
    """Remembers what a function found for the last keys: so many, and so many bytes, at most.

    The last result is kept whatever it takes.
    """

    def __init__(self, find: Callable[[tuple[int, ...]], Arrays], most: int, most_bytes: int):
        self.find, self.most, self.most_bytes = find, most, most_bytes
        self._found: OrderedDict[tuple[int, ...], Arrays] = OrderedDict()

    def __call__(self, key: tuple[int, ...]) -> Arrays:
        if key in self._found:
            self._found.move_to_end(key)
        else:
            self._found[key] = self.find(key)
            while len(self._found) > 1 and (len(self._found) > self.most or self.bytes > self.most_bytes):
                self._found.popitem(last=False)
        return self._found[key]

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for arrays in self._found.values() for array in arrays.values())
