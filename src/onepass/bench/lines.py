"""The file of a bench's runs: a JSON line for each."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onepass.errors import ConfigError

log = logging.getLogger(__name__)
LINE_BEGINS = b'{"key": '


def begin_lines(path: Path) -> None:
    """Make a file ready for more lines; one that holds something else than runs is refused."""
    if path.is_file():
        _check(path)
        end_last_line(path)
    path.parent.mkdir(parents=True, exist_ok=True)


def _check(path: Path) -> None:
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), LINE_BEGINS)[: len(LINE_BEGINS)].rstrip(b"\n")
    if not LINE_BEGINS.startswith(first):
        raise ConfigError(
            f"{path} is no file of a bench's runs; their lines would be added to it. Give another --output."
        )


def end_last_line(path: Path) -> None:
    """After a kill it may have no end: what is added would be a part of it."""
    if path.is_file() and (text := path.read_bytes()) and not text.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


def add_line(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_lines(path: Path, tell: bool = True) -> Iterator[dict[str, Any]]:
    """The lines of earlier runs; one that a kill cut short is passed over, and told of if `tell`."""
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(text)
            except ValueError:
                if tell:
                    log.warning("%s: a broken line is passed over", path)
