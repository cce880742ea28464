"""The folder of an unfinished job: what is written so far, and a journal that says how much of it counts.

Pieces are added to the drafts and flushed, then the journal is replaced by one that counts them. So after a kill at any
moment the journal is whole, and what it does not count is cut off.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from onepass.atomic import sync_folder
from onepass.errors import ConfigError
from onepass.filejob.records import Position

FORMAT = 2


@dataclass
class State:
    """How far a job is."""

    settings: dict[str, Any]
    """What the output depends on; a job goes on only with the same"""
    columns: dict[str, str]
    """The source's columns"""
    position: Position | None = None
    rows: int = 0
    rejected: int = 0
    truncated: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    """The bytes of each draft that count"""
    finished: dict[str, str] | None = None
    """When all is written: the files to move, by where they go"""
    replaceable: dict[str, list[int]] = field(default_factory=dict)
    """The files that were there when --force was given, with their marks: it is no leave to replace later ones"""

    def give_leave(self, *paths: Path) -> None:
        """Let the job replace these files as they are now, in later runs too."""
        self.replaceable |= {str(path.resolve()): mark for path in paths if (mark := _mark(path))}

    def may_replace(self, path: Path) -> bool:
        """Whether a file is one that --force was given for, and still the same."""
        mark = _mark(path)
        return mark is not None and self.replaceable.get(str(path.resolve())) == mark


def _mark(path: Path) -> list[int] | None:
    """What tells a file from a later one of its name."""
    try:
        about = path.stat()
    except OSError:
        return None
    return [about.st_ino, about.st_size, about.st_mtime_ns]


class Journal:
    """The state of a job, kept in a folder beside the output."""

    def __init__(self, output: Path):
        self.folder = output.with_name(f".{output.name}.job")
        self.path = self.folder / "journal.json"

    def read(self) -> State | None:
        """The state of the unfinished job, or None if there is none (a folder without a journal is an unborn one)."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if found.pop("format") != FORMAT:
                raise ValueError
            return State(**found)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError):
            raise ConfigError(
                f"{self.path} cannot be read, or is of another version. Start anew by removing {self.folder}."
            ) from None

    def may_replace(self, path: Path) -> bool:
        """Whether the unfinished job may write over a file: with leave, or if it is the one that it put there."""
        state = self.read()
        if state is None:
            return False
        name = (state.finished or {}).get(str(path.absolute()))
        return state.may_replace(path) or (name is not None and not self.draft(name).exists())

    def write(self, state: State) -> None:
        """Replace the state, so that a kill leaves this one or the one before."""
        self.folder.mkdir(exist_ok=True)
        draft = self.path.with_suffix(".new")
        with open(draft, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **asdict(state)}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.path)
        sync_folder(self.folder)

    def draft(self, name: str) -> Path:
        return self.folder / name

    def remove(self) -> None:
        # The journal last: a folder without one is taken for one in which nothing had begun.
        for path in self.folder.glob("*"):
            if path != self.path:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


class Draft:
    """A file that grows piece by piece. Opening it cuts off what the journal does not count."""

    def __init__(self, path: Path, size: int):
        self.path = path
        self.file = open(path, "ab")  # noqa: SIM115  closed with the job
        self.file.truncate(size)
        self.size = size

    def append(self, data: bytes) -> None:
        """Add bytes and flush them to the disk."""
        self.file.write(data)
        self.file.flush()
        os.fsync(self.file.fileno())
        self.size += len(data)

    def close(self) -> None:
        self.file.close()
