"""The options of kinds: what several of them take, and what is said of a value that cannot be used."""

from __future__ import annotations

from typing import Any

from onepass.data.items import Windows
from onepass.errors import ConfigError


def wrong_option(name: str, value: Any, possible: str) -> ConfigError:
    """What a kind raises when it is built with an option it cannot use."""
    return ConfigError(f"{name} is {value!r}; possible: {possible}.")


def checked_windows(windows: Any, overlap: Any) -> Windows:
    """The options `windows` and `overlap` of a kind."""
    if type(windows) is not int or windows < 1:
        raise wrong_option("windows", windows, "a whole number from 1")
    if type(overlap) not in (int, float) or not 0 <= overlap < 1:
        raise wrong_option("overlap", overlap, "a share from 0 to below 1")
    return Windows(windows, float(overlap))


def checked_columns(name: str, value: Any, possible: str = "a column, or a list of columns") -> list[str]:
    """An option that names columns, or a single one."""
    columns = [value] if isinstance(value, str) else value
    if not isinstance(columns, (list, tuple)) or not all(isinstance(column, str) and column for column in columns):
        raise wrong_option(name, value, possible)
    return list(columns)
