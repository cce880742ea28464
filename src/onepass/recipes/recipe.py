"""What a recipe is: known sets with the files they come in, how those are read, and the tasks they become."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Results = Mapping[str, Mapping[str, Any]]  # by task its metrics, in percent
SPLITS = ("train", "validation", "test", "unlabelled")
"""`test` has labels; `unlabelled` is a test set whose answers go to a leaderboard"""


@dataclass(frozen=True)
class Part:
    """One split of a set as its authors give it away."""

    files: tuple[str, ...]
    """Where it may lie in the folder, the first that is there is taken; a name that ends in / is a folder"""
    read: Callable[[Path], Iterator[Row]]
    optional: bool = False


@dataclass(frozen=True)
class Hub:
    """Where the set lies on the Hugging Face hub."""

    name: str
    config: str | None
    splits: Mapping[str, str]
    """The hub's name of each of our splits"""
    read: Callable[[Iterator[Row]], Iterator[Row]] | None = None
    """Our rows from the hub's; without it the columns are the same, and labels are spelled as the hub spells them"""


@dataclass(frozen=True)
class Answers:
    """How a leaderboard wants the answers of a task."""

    file: str
    write: Callable[[Sequence[Row], Sequence[Any]], str]
    """The file's text, from the unlabelled rows and the predictions"""


@dataclass(frozen=True)
class KnownSet:
    """A published set as a task."""

    name: str
    about: str
    keys: Mapping[str, Any]
    """The task's keys in a task file, but for its files"""
    parts: Mapping[str, Part]
    hub: Hub | None = None
    answers: Mapping[str, Answers] = field(default_factory=dict)
    """By unlabelled part, how its answers are handed in"""


@dataclass(frozen=True)
class Recipe:
    """Known sets that belong together."""

    name: str
    about: str
    """What stands at the head of the task file, line by line"""
    sets: tuple[KnownSet, ...]
    train: Mapping[str, Any] = field(default_factory=dict)
    """Training options that the sets need, such as the length of texts"""
    averages: Callable[[Results, Results], dict[str, float]] | None = None
    """Means as papers take them, from the scores on validation and on test rows"""
