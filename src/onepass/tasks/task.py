"""A task: one question asked of a text."""

import re
import unicodedata
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
FILE_KEYS = ("train", "validation", "test")
SEPARATORS = "|;,"
"""What may stand between several labels of a cell"""


class Task(BaseModel):
    """A question asked of a text: a name, a kind, labels, where its data are, its metric.

    >>> Task(name="tone", text="headline", label="tone", labels=["calm", "angry"]).text
    ('headline',)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="a-z, 0-9, '.', '_', '-', at most 64, the first a letter or a digit")
    kind: str = Field(default="classification", min_length=1, description="the name of a task kind")
    text: tuple[str, ...] = Field(min_length=1, max_length=2, description="a column, or a list of two")
    label: str = Field(min_length=1, description="the column of the label")
    labels: tuple[str, ...] = Field(
        default=(), description="a list with each label once; without it they come from the data"
    )
    metric: str | None = Field(default=None, min_length=1, description="the name of a metric")
    train: Path | str | None = Field(default=None, description="a data file, or hub:NAME")
    validation: Path | str | float = Field(
        default=0.1, description="a data file, hub:NAME, or a share of train between 0 and 1"
    )
    test: Path | str | None = Field(default=None, description="a data file, or hub:NAME")
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False, strict=True, description="a number above 0")
    group: str | None = Field(default=None, min_length=1, description="the name of a group of tasks that share readers")
    options: dict[str, Any] = Field(default={}, description="what else the task's kind asks for")
    fitted: dict[str, Any] = Field(default={}, description="what training learned beside weights, e.g. a mean")

    @field_validator("name")
    @classmethod
    def _is_a_folder_name(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no task name. Did you mean {spelling(name)!r}?")
        return name

    @field_validator("text", mode="before")
    @classmethod
    def _as_columns(cls, text: Any) -> Any:
        return (text,) if isinstance(text, str) else text

    @field_validator("labels", mode="before")
    @classmethod
    def _as_texts(cls, labels: Any) -> Any:
        if isinstance(labels, (list, tuple)):
            return tuple(label_text(label) if isinstance(label, (str, int, float)) else label for label in labels)
        return labels

    @field_validator("text", "labels")
    @classmethod
    def _are_names(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        twice = [value for value in values if values.count(value) > 1]
        if twice:
            raise ValueError(f"holds {twice[0]!r} twice")
        if not all(value.strip() for value in values):
            raise ValueError("holds an empty name")
        return values

    @field_validator(*FILE_KEYS, mode="plain")  # pydantic's own choice between Path and str differs in JSON
    @classmethod
    def _as_source(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str) and value.strip():
            return value if value.startswith("hub:") else Path(value)
        is_share = info.field_name == "validation" and isinstance(value, (int, float)) and 0 < value < 1
        if is_share or isinstance(value, Path) or (value is None and info.field_name != "validation"):
            return value
        raise ValueError(f"is {shown(value)}")

    @model_validator(mode="after")
    def _label_is_no_text(self) -> "Task":
        if self.label in self.text:
            raise ValueError(f"reads column {self.label!r} both as text and as label")
        return self


TASK_KEYS = tuple(key for key in Task.model_fields if key not in ("name", "options", "fitted"))


def label_text(value: Any) -> str:
    """A cell as a label: 1, 1.0 and "1" are the same label, True is "true".

    >>> [label_text(v) for v in (1, 1.0, " yes ", True)]
    ['1', '1', 'yes', 'true']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def spelling(name: str) -> str:
    """A valid task name that resembles the given one.

    >>> spelling("Healthy Living!")
    'healthy_living'
    """
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9.-]+", "_", plain).strip("._-")[:64] or "task"


def shown(value: Any) -> str:
    """What was found, short enough for a message."""
    if value is None or (isinstance(value, (str, dict, list)) and not value):
        return "empty"
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else f"a list of {len(value)}"
    text = repr(value)
    if "\n" in text:  # a table or an array, given in Python
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
