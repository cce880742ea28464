"""Freed memory of a training, which goes back to the system only when the C library is told so."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

EVERY = 10
"""Steps. No two have the same shapes, so that what one frees is in the way of the next as often as it serves it:
a process of 1.2 GB had grown to 3 GB after 100 steps (LOG.md)"""


def give_back() -> None:
    """Hand pages that hold nothing any more back to the system."""
    if (trim := _trim()) is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], Any] | None:
    """The C library's own function for it; only glibc has one, and others need it less."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # TypeError: on Windows a library has to be named
        return None
