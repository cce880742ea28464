"""What a task file says: tasks, encoder, method, training options.

Keys of a task that are not common to all kinds go to its `options`; what is possible there only its kind knows. So do
the options of the method and of the training: the layers above pass checks for them to `read_task_file`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from onepass.tasks.task import Task

TOP_KEYS = ("encoder", "method", "tasks", "train")


class MethodChoice(BaseModel):
    """The name of a method and the options it is built with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "readers"
    options: dict[str, Any] = Field(default={})
    chosen: dict[str, str] = Field(default={})
    """Options that were left open (`auto`), and for what they were decided"""


class TaskFile(BaseModel):
    """A task file as it was read: defaults filled in, overrides applied, paths resolved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    encoder: str = "embedded"
    method: MethodChoice = MethodChoice()
    tasks: dict[str, Task]
    train: dict[str, Any] = Field(default={})


Check = Callable[[TaskFile], list[str]]
