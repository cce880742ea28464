"""One task's answer about one text, and a text with the answers of all tasks."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Text = str | tuple[str, str] | Mapping[str, Any]
"""A text, a pair of texts, or a row: a mapping with the columns that tasks read"""


@dataclass(frozen=True)
class Span:
    """A part of a text that an answer is about."""

    label: str | None
    """What it is; None for the answer to a question"""
    start: int
    """Its first character"""
    end: int
    """The character after its last one: text[start:end]"""
    text: str
    score: float


@dataclass(frozen=True)
class Prediction:
    """What one task answers about one text; the same shape for every kind of task.

    >>> Prediction("yes", 0.97, {"no": 0.03, "yes": 0.97})
    Prediction(label='yes', score=0.97)
    """

    label: Any
    """The answer: a label; a list of labels for multilabel; a number for regression; the best candidate for choice;
    a list of [text, label] for tagging; a part of the text for extraction. None: there is none, or it is withheld"""
    score: float | None = None
    """How probable the answer is; None where the kind has no probability"""
    scores: dict[str, float] = field(default_factory=dict, repr=False)
    """The probability of every label"""
    threshold: float | dict[str, float | None] | None = field(default=None, repr=False)
    """What the score had to reach, by label for multilabel; None where there is no threshold"""
    reason: str | None = field(default=None, repr=False)
    """Why the answer is withheld"""
    version: int | None = field(default=None, repr=False)
    """The version of the task, where it was asked for"""
    data: str | None = field(default=None, repr=False)
    """The fingerprint of the rows the task learned from, where it was asked for"""

    spans: tuple[Span, ...] | None = field(default=None, repr=False)
    """Where the answer stands in the text, for kinds that answer with parts of it"""

    @property
    def abstained(self) -> bool:
        """Whether the answer is withheld."""
        return self.reason is not None

    def to_dict(self) -> dict[str, Any]:
        """The answer for JSON; `threshold`, `abstained` and `reason` are there where the task has thresholds."""
        found = {"label": self.label, "score": self.score, "scores": self.scores}
        if self.threshold is not None or self.abstained:
            found |= {"threshold": self.threshold, "abstained": self.abstained, "reason": self.reason}
        if self.version is not None:
            found |= {"version": self.version, "data": self.data}
        return found if self.spans is None else found | {"spans": [asdict(span) for span in self.spans]}


@dataclass(frozen=True)
class Labelled:
    """A text with every asked task's answer."""

    text: Text
    tasks: dict[str, Prediction]
    truncated: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": dict(self.text) if isinstance(self.text, Mapping) else self.text,
            "tasks": {name: prediction.to_dict() for name, prediction in self.tasks.items()},
            "truncated": self.truncated,
        }
