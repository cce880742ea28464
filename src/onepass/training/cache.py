"""What a frozen encoder makes of a task's texts, computed once and read in every epoch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onepass.atomic import reason
from onepass.data.examples import Examples
from onepass.data.stream import sorted_batches
from onepass.encoder.batch import Batch
from onepass.encoder.encoder import evaluating
from onepass.errors import TrainingError
from onepass.methods import Method, States
from onepass.where import Where, pack

MOST_IN_MEMORY = 512 * 2**20
"""Bytes; what is larger lies in a temporary file, in half precision"""
TOKENS = 2048
"""Tokens that are read together"""
FAR = torch.finfo(torch.float16).max


class TextCache:
    """The texts of some examples, ready to be asked tasks whose own weights alone learn.

    A method that can know nothing of a text before its task is asked reads the text each time instead.
    """

    def __init__(
        self,
        method: Method,
        examples: Examples,
        most_in_memory: int = MOST_IN_MEMORY,
        *,
        half: bool = False,
        tokens: bool = False,
    ):
        """`half`: the encoder reads the texts in bf16. `tokens`: a task will be asked that reads tokens."""
        self.method, self.examples, self.tokens = method, examples, tokens
        self.lengths = examples.lengths
        by_token = method.caches == "tokens" or tokens
        self.sizes = self.lengths if by_token else np.diff(examples.parts)
        """How much of the store each row has"""
        self.store: Tensor | None = None  # (all tokens, ...) or (all sequences, ...), from long rows to short ones
        self.starts: NDArray[np.int64] = np.zeros(len(examples), np.int64)
        """Where each row's part of the store begins"""
        if method.caches != "nothing" and len(examples):
            with torch.autocast(method.device.type, torch.bfloat16, enabled=half):
                self._fill(most_in_memory)

    @torch.no_grad()
    def _fill(self, most_in_memory: int) -> None:
        method = self.method
        place = 0
        with evaluating(method):
            for rows in sorted_batches(self.lengths, len(self.examples), TOKENS):
                batch, _, _ = pack([(0, self.examples, row) for row in rows])
                found = method.cache(batch.to(method.device), self.tokens).float().cpu()
                if self.store is None:
                    self.store = _room(int(self.sizes.sum()), found.shape[1:], most_in_memory)
                half = self.store.dtype == torch.float16
                self.store[place : place + len(found)] = found.clamp(-FAR, FAR) if half else found
                self.starts[rows] = place + np.cumsum(self.sizes[rows]) - self.sizes[rows]
                place += len(found)

    def ask(self, rows: Sequence[int], tasks: Sequence[int]) -> tuple[Batch, Tensor, Where, States]:
        """The sequences of these rows as a batch, what is asked of them, and what the method answers."""
        batch, _, where = pack([(0, self.examples, row) for row in rows])
        batch, asked = batch.to(self.method.device), torch.tensor(list(tasks)).expand(len(batch), -1)
        if self.store is None:
            return batch, asked, where, self.method(batch, asked)
        parts = torch.cat([self.part(row) for row in rows]).to(batch.layout.device, torch.float32)
        return batch, asked, where, self.method.from_cache(parts, batch.layout, asked)

    def part(self, row: int) -> Tensor:
        """What is kept of one row's texts."""
        assert self.store is not None
        return self.store[self.starts[row] : self.starts[row] + self.sizes[row]]


def _room(length: int, shape: Sequence[int], most_in_memory: int) -> Tensor:
    """An empty tensor (length, ...): in memory if it fits, else in a file that goes when nobody uses it any more."""
    count = length * int(np.prod(shape))
    if 4 * count <= most_in_memory:
        return torch.empty(length, *shape)
    with tempfile.NamedTemporaryFile(prefix="onepass-") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, 2 * count)  # or a full disk would end the process at some later write
        except OSError as error:
            raise TrainingError(
                f"The texts need {2 * count / 1e9:.1f} GB in {tempfile.gettempdir()} while a task is added: "
                f"{reason(error)}. Free some, or name another folder in the environment variable TMPDIR."
            ) from error
        mapped = np.memmap(file, np.float16, "r+", shape=(length, *shape))
    return torch.from_numpy(mapped)
