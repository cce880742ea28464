"""One task's answer about one text, and a text with the answers of all tasks."""

from dataclasses import dataclass, field
from typing import Any

Text = str | tuple[str, str]


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


@dataclass(frozen=True)
class Labelled:
    """A text with every asked task's answer."""

    text: Text
    tasks: dict[str, Prediction]
    truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "tasks": {name: prediction.to_dict() for name, prediction in self.tasks.items()},
            "truncated": self.truncated,
        }
