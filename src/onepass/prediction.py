"""One task's answer about one text."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prediction:
    """What one task answers about one text; the same shape for every kind of task.

    >>> Prediction("yes", 0.97, {"no": 0.03, "yes": 0.97})
    Prediction(label='yes', score=0.97)
    """

    label: Any
    """The answer: a label, a list of labels for multilabel, a number for regression"""
    score: float | None = None
    """How probable the answer is; None where the kind has no probability"""
    scores: dict[str, float] = field(default_factory=dict, repr=False)
    """The probability of every label"""

    def to_dict(self) -> dict[str, Any]:
        return {"label": self.label, "score": self.score, "scores": self.scores}
