"""Where the commands write: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
from typing import TYPE_CHECKING, Any

from onepass.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


UNBOUNDED = 100_000


def say(message: str) -> None:
    """A message for the person at the keyboard."""
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def show(*parts: RenderableType) -> None:
    """Results on stdout: tables as wide as the terminal, text unbroken, so that commands can be pasted.

    What goes to a file or a pipe is as wide as it is: 80 characters would break numbers and leave columns out.
    """
    console = results()
    for part in parts:
        console.print(part, markup=False, soft_wrap=isinstance(part, str))


def results() -> Console:
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would end the process with 1; guard.py has a code for it

    in_terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Plain(file=sys.stdout, highlight=False, width=None if in_terminal else UNBOUNDED)


def write_json(value: Any) -> None:
    """A result for a program: one line of JSON on stdout. JSON has no NaN: it becomes null."""
    sys.stdout.write(json.dumps(_finite(value), ensure_ascii=False, default=str, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """A table with these columns; those in `numbers` are set to the right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(
            column, justify="right" if column in numbers else "left", overflow="fold", min_width=len(column)
        )
    return made


def split_names(text: str) -> list[str]:
    """Names with spaces between them; commas do as well, where they stand between no options.

    >>> split_names("readers:depth=1,tokens=1 single,mtop")
    ['readers:depth=1,tokens=1', 'single', 'mtop']
    """
    parts = [[part] if ":" in part else part.split(",") for part in text.split()]
    return [name for part in parts for name in part if name]


def whole_numbers(option: str, text: str) -> list[int]:
    """The numbers of an option such as --tasks 8,100.

    >>> whole_numbers("tasks", "8, 100")
    [8, 100]
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"--{option} is {text!r}. Possible: whole numbers from 1, with commas between them.")
    return [int(part) for part in parts]


def progress(quiet: bool = False) -> bool:
    """Whether to show a progress bar: only to someone who looks at it."""
    return not quiet and sys.stderr.isatty()


def percent(value: float | None, digits: int = 1) -> str:
    """A score in percent, or a dash.

    >>> percent(89.96), percent(None)
    ('90.0', '-')
    """
    return "-" if value is None else f"{value:.{digits}f}"


class _Stderr(logging.StreamHandler):
    """Writes to whatever sys.stderr is at the time, so that a progress bar and a test can stand in for it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


class _Words(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {text}"


def listen(quiet: bool = False) -> None:
    """Show what the library logs; only warnings with `quiet`."""
    handler = _Stderr()
    handler.setFormatter(_Words("%(message)s"))
    logger = logging.getLogger("onepass")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    logger.propagate = False
