"""What a task reads of a row, before and after it is tokenised.

A kind of task turns a row into an `Item`: sequences of texts, and the characters in them that matter. Tokenised it is
`Tokens`: token ids, and for kinds whose heads look at more than one state a row a `Reading` that says where.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Texts = tuple[str, ...]
NO_SPANS: NDArray[np.int32] = np.zeros((0, 2), np.int32)
NO_NUMBERS: NDArray[np.int32] = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Item:
    """What a task reads of a row."""

    sequences: list[Texts]
    """Each is read by itself: a text, or two for a pair. More than one: the candidates of a choice"""
    marks: Sequence[tuple[int, int, int]] = ()
    """Parts of the only sequence that matter: which of its texts, and the first and the end of the characters"""
    names: Sequence[str] = ()
    """What the candidates are called in the answer"""
    group: str | None = None
    """What rows have in common that are scored together; "": nothing, where others have; None: nobody asks"""

    @property
    def texts(self) -> Texts:
        """The texts of the row; of several sequences each text once."""
        if len(self.sequences) == 1:
            return self.sequences[0]
        return tuple(dict.fromkeys(text for sequence in self.sequences for text in sequence))

    @property
    def blank(self) -> bool:
        return not any(text.strip() for text in self.texts)


@dataclass(frozen=True)
class Windows:
    """How a text that is longer than the tokenizer's limit is read.

    >>> Windows(most=4, overlap=0.25).step(100)
    75
    """

    most: int = 1
    """Windows that are read at most; 1: the text is cut"""
    overlap: float = 0.25
    """The share of a window that the next one reads again"""

    def step(self, room: int) -> int:
        """From the beginning of a window of so many tokens to that of the next."""
        return max(1, room - round(self.overlap * room))


Points = Literal["vector", "marks", "words", "tokens"]
"""A head reads of a sequence: its vector; that and the mean of each mark; each mark; each token of the last text"""


@dataclass(frozen=True, eq=False)
class Reading:
    """Where the points of a row lie that a head gives logits for. P points, S sequences."""

    ranges: list[NDArray[np.int16]] = field(default_factory=list)
    """For each sequence (m, 2): first and end of the tokens of each mark or point"""
    text: str = ""
    """What the spans are cut from"""
    spans: NDArray[np.int32] = field(default_factory=lambda: NO_SPANS)  # (P, 2)
    """The first and the end of the characters of each point; (-1, -1): of none"""
    windows: NDArray[np.int32] = field(default_factory=lambda: NO_NUMBERS)  # (P,)
    """The sequence that each point is in"""
    numbers: NDArray[np.int32] = field(default_factory=lambda: NO_NUMBERS)  # (P,)
    """Which mark of the item each point is; marks that were cut off have none"""
    marks: NDArray[np.int32] = field(default_factory=lambda: NO_SPANS)  # (M, 2)
    """The characters of all marks, those that were cut off too"""
    names: Sequence[str] = ()
    """What the candidates are called"""
    group: str = ""
    """What rows have in common that are scored together; "": nothing"""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A tokenised row."""

    sequences: list[tuple[Sequence[int], Sequence[int]]]
    """Ids and types of each"""
    truncated: bool
    reading: Reading | None = None

    @property
    def empty(self) -> bool:
        """Whether a head that looks at tokens finds none."""
        return self.reading is not None and bool(self.reading.ranges) and not any(map(len, self.reading.ranges))
