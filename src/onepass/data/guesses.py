"""A task as it was guessed from the columns of a file."""

from dataclasses import dataclass, field

from onepass.data.columns import Column

Options = dict[str, str | list[str]]


@dataclass
class Guess:
    """One task as it was guessed, with the reasons."""

    kind: str
    kind_reason: str
    text: list[Column]
    text_reason: str
    label: Column
    label_reason: str
    options: Options = field(default_factory=dict)
    """What else the kind needs, as it is written in a task file"""
