"""The gate before 8 bits: what they may change in a task's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

MOST_LOST = 0.5
"""Points that the score of a task may fall"""
MOST_CHANGED = 1.0
"""Percent of the rows whose answer may change"""
ENOUGH_ROWS = 100
"""Of fewer rows a single one is more than may change: none shows that few answers do"""
SAME_NUMBER = 0.01
"""Numbers are the same answer up to this share of the range of all of them"""


@dataclass(frozen=True)
class Outcome:
    """What a task answers to some rows, and how well."""

    labels: Sequence[Any]
    metric: str | None = None
    score: float | None = None
    """In percent; None where there are texts without labels"""


@dataclass(frozen=True)
class Verdict:
    """What 8 bits do to one task, on rows that it did not learn from."""

    rows: int
    changed: float
    """Percent of the rows whose answer is another"""
    metric: str | None = None
    before: float | None = None
    """The score in 32 bits"""
    after: float | None = None

    @property
    def lost(self) -> float:
        """Points of the score"""
        return 0.0 if self.before is None or self.after is None else self.before - self.after

    @property
    def one_answer(self) -> bool:
        """Whether a single answer makes the difference: there are too few rows to see half a point."""
        return 100.0 / self.rows > MOST_LOST >= self.lost - 100.0 / self.rows

    @property
    def passed(self) -> bool:
        return self.changed <= MOST_CHANGED and self.lost <= MOST_LOST

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}

    def __str__(self) -> str:
        text = f"{self.changed:.2f} % of {self.rows:,} answers change"
        return text if self.before is None else f"{text}, {self.metric} {self.before:.2f} becomes {self.after:.2f}"


def judge(before: Outcome, after: Outcome) -> Verdict:
    """What is lost from one outcome to the other, of the same rows."""
    step = 0.0
    if before.labels and isinstance(before.labels[0], float):
        step = SAME_NUMBER * float(np.ptp(before.labels))
    pairs = zip(before.labels, after.labels, strict=True)
    changed = [abs(old - new) > step if step else old != new for old, new in pairs]
    share = 100.0 * float(np.mean(changed)) if changed else 0.0
    return Verdict(len(changed), share, before.metric, before.score, after.score)


def failed(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The tasks that do not pass."""
    return {name: verdict for name, verdict in verdicts.items() if not verdict.passed}
