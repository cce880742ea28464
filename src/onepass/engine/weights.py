"""Reading safetensors files into numpy arrays.

The format: eight bytes that say how long the header is, a header in JSON, then the tensors. Read by hand because the
engine should need no package for it.
"""

from __future__ import annotations

import json
import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from onepass.errors import FolderError

TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1"}
LARGEST_HEADER = 100_000_000  # the limit of the format's own library

Weights = dict[str, np.ndarray]


FORMS = {
    "head.weight": "CS", "head.bias": "C", "method.tokens": "NH", "method.pooler.weight": "HH",
    "method.pooler.down": "RH", "method.pooler.up": "HR", "method.pooler.bias": "H",
    "method.film.weight": "FH", "method.film.bias": "F",
}  # fmt: skip
"""The shapes of a task's weights: C outputs, S numbers that the head reads, N tokens, H width, R rank, F = 2 * H"""


def misfits(own: Weights, first: Weights, width: int, outputs: int, reads: int) -> list[str]:
    """Which of a task's weights are missing or of another shape; it has N and R as the model's `first` task has."""
    sizes = {"C": outputs, "S": reads, "H": width, "F": 2 * width}
    sizes |= {
        size: len(first[name]) for size, name in (("N", "method.tokens"), ("R", "method.pooler.down")) if name in first
    }
    faults = []
    for name, form in FORMS.items():
        if name not in own:
            if name.startswith("head.") or (name in first and "film" not in name):
                faults.append(f"{name} is missing")
        elif own[name].shape != (wanted := tuple(sizes.get(size, 0) for size in form)):
            faults.append(f"{name} is {own[name].shape}, expected {wanted}")
    return faults


def read_weights(path: Path) -> Weights:
    """The tensors of a file by their names."""
    try:
        with path.open("rb") as file:
            # Not the file itself, mapped: who copies another model over it would change the answers of an engine that
            # runs, or end its process. In pages of its own, which go back to the system with the last of the arrays.
            if not (length := os.fstat(file.fileno()).st_size):
                raise ValueError("it is empty")
            pages = mmap.mmap(-1, length, access=mmap.ACCESS_COPY)
            with suppress(AttributeError, OSError):  # where there are such: a third of the time
                pages.madvise(mmap.MADV_HUGEPAGE)
            file.readinto(pages)
            raw = np.frombuffer(pages, np.uint8)
    except ValueError as error:
        raise FolderError(f"{path} is damaged: {error}") from error
    except OSError as error:
        raise FolderError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        size = int(raw[:8].view("<u8")[0])
        if size > min(LARGEST_HEADER, len(raw) - 8):
            raise ValueError(f"its header would be {size:,} bytes long")
        header = json.loads(raw[8 : 8 + size].tobytes())
        found = {name: _tensor(raw[8 + size :], entry) for name, entry in header.items() if name != "__metadata__"}
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise FolderError(f"{path} is damaged: {error}") from error
    for name, array in found.items():
        # A sum is finite only if all its numbers are, and is had much faster.
        if array.dtype.kind == "f" and not np.isfinite(array.sum()) and not np.isfinite(array).all():
            raise FolderError(f"{path} is damaged: {name} holds numbers that are not finite.")
    return found


def _tensor(data: np.ndarray, entry: dict[str, Any]) -> np.ndarray:
    start, end = entry["data_offsets"]
    if not 0 <= start <= end <= len(data):
        raise ValueError(f"a tensor would lie at {start:,} to {end:,} of {len(data):,} bytes")
    if entry["dtype"] not in TYPES:
        raise ValueError(f"numbers of type {entry['dtype']} are not known here; known: {', '.join(TYPES)}")
    array = data[start:end].view(TYPES[entry["dtype"]]).reshape(entry["shape"])
    return array.astype(np.float32) if array.dtype.kind == "f" and array.dtype != np.float32 else array
