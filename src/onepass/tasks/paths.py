"""The files that a task file names: where they are, and what to say of one that is not there."""

import os
from pathlib import Path
from typing import Any

from onepass.errors import did_you_mean

ONCE = "is no file that can be read more than once. Write what comes from it to a file first."
"""Of a pipe"""
TRAIN_FILE_KEYS = ("teachers", "baseline")
"""Keys of the parts `distill` and `select` of the training's options"""


def similar(path: Path) -> str:
    """What to add to a message about a file that is not there: the nearest name that is, or that there is no folder."""
    try:
        return did_you_mean(path.name, os.listdir(path.parent))
    except (OSError, ValueError):
        return f" There is no folder {str(path.parent)!r} either."


def whole_path(value: Any, folder: Path) -> Any:
    """Where a file named in a folder is; what is no file name stays for Task to judge."""
    if not isinstance(value, str) or not value.strip() or value.startswith("hub:"):
        return value
    return folder.absolute() / os.path.expanduser(value)


def encoder_path(value: Any, folder: Path) -> Any:
    """An encoder that is a folder, with its whole path; `embedded` and hub names stay as they are."""
    if not isinstance(value, str) or value == "embedded":
        return value
    path = str(whole_path(value, folder))
    return path if value.startswith((".", "/", "~")) or os.path.isdir(path) else value


def with_whole_paths(options: dict[str, Any], folder: Path, part: bool = False) -> dict[str, Any]:
    """Training options in which the files and folders they name have their whole path."""

    def whole(value: Any) -> Any:
        return str(whole_path(value, folder)) if isinstance(value, str) else value

    return {
        key: with_whole_paths(value, folder, part=True) if isinstance(value, dict)
        else [whole(item) for item in value] if part and key in TRAIN_FILE_KEYS and isinstance(value, list)
        else whole(value) if part and key in TRAIN_FILE_KEYS
        else encoder_path(value, folder) if key == "teacher_encoder"
        else value
        for key, value in options.items()
    }  # fmt: skip


def parts_of(path: Path) -> list[Path]:
    """The files that a name with a star stands for, by their names; of any other name the file itself."""
    if "*" not in path.name or path.exists():
        return [path]
    return sorted(part for part in path.parent.glob(path.name) if part.is_file()) or [path]


def unreadable(path: Path) -> str:
    """Why a data file cannot be read, if so."""
    try:
        path = parts_of(path)[0]
        if path.is_dir():
            return f"{str(path)!r} is a folder. Give a data file."
        if path.is_file():
            return ""
        return f"{str(path)!r} {ONCE}" if path.exists() else f"there is no file {str(path)!r}.{similar(path)}"
    except OSError as error:
        return f"{str(path)!r} cannot be read: {error.strerror}."
