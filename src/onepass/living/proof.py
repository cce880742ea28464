"""The proof that a change left the other tasks as they were: their logits on probe texts, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onepass.encoder.batch import Batch
from onepass.encoder.tokenizer import Tokenizer
from onepass.model import SERVING_TOKENS, Model

PROBES, LONGEST_PROBE, TOLERANCE = 200, 16, 1e-6


class Unproven(Exception):
    """A change that would have moved something else; it was not made."""


@dataclass(frozen=True)
class Proof:
    """What was compared after a change: files by sha256, and the other tasks' logits on probe texts."""

    files: int
    """Files of the other tasks, the encoder, the tokenizer and the method, all unchanged"""
    tasks: int
    """Other tasks that were asked"""
    change: float
    """The largest change of any of their logits"""
    probes: int = PROBES

    def __str__(self) -> str:
        tasks = "1 kept task" if self.tasks == 1 else f"{self.tasks} kept tasks"
        return (
            f"proof: {self.files} files of {tasks}, the encoder and the method are unchanged (sha256); largest change "
            f"of their logits on {self.probes} probe texts: {self.change:.3g}"
        )


def probe_batches(tokenizer: Tokenizer) -> list[Batch]:
    """The probe texts: tokens drawn from the vocabulary, the same for every model with this vocabulary."""
    generator = np.random.default_rng(0)
    first, *rest = tokenizer.encode([("",)])[0].ids
    sequences = []
    for number in range(PROBES):
        length = int(generator.integers(1, max(2, min(LONGEST_PROBE, tokenizer.max_length) - len(rest))))
        ids = [first, *generator.integers(0, tokenizer.vocab_size, length).tolist(), *rest]
        types = [int(number % 2 and place > len(ids) // 2) for place in range(len(ids))]  # every other one is a pair
        sequences.append((ids, types))
    rows = max(1, SERVING_TOKENS["cpu"] // LONGEST_PROBE)
    return [Batch.of(sequences[start : start + rows]) for start in range(0, len(sequences), rows)]


def largest_change(before: Model, after: Model, names: Sequence[str]) -> float:
    """How far the logits of these tasks are apart at most, in two models, on the probe texts.

    Both models are asked the same tasks in the same order: another number of tasks in one product would round
    differently in the last digit.
    """
    if not names:
        return 0.0
    asked = [model.numbers(names) for model in (before, after)]
    largest = 0.0
    for batch in probe_batches(before.tokenizer):
        for old, new in zip(before.logits(batch, asked[0]), after.logits(batch, asked[1]), strict=True):
            if old.shape != new.shape:
                return float("inf")
            largest = float(np.maximum(largest, np.abs(old - new).max()))  # keeps a NaN
    return largest
