"""The lines of a text file, with the place of each in bytes. Bad bytes are let through, for the row to be judged."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from onepass.data.text import MAX_LINE
from onepass.data.utf8 import escaped_byte
from onepass.filejob.records import START


class TooLong(Exception):
    """A line of more than MAX_LINE characters; it was read past."""


class Lines(Iterator[str]):
    """The lines from a byte of the file on. `offset` is behind the line that came last, `line` is its number."""

    def __init__(self, path: Path):
        self.path = path
        self.bytes = path.stat().st_size
        self._file: TextIO | None = None
        self.go_to(0, 0)

    def go_to(self, offset: int, line: int) -> None:
        """Read on behind this line."""
        self.close()
        raw = open(self.path, "rb")  # noqa: SIM115  closed with the text around it
        raw.seek(offset)
        self._file = io.TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape", newline="")
        self.offset, self.line = offset, line
        self.begin_row()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def begin_row(self) -> None:
        """What comes next is a new row, of one line or several."""
        self.fault: str | None = None
        """Why the row is no text, if so"""
        self.start = ""
        """How the row begins"""
        self.second: tuple[int, int] | None = None
        """Where to `go_to` for the row's second line"""

    def __next__(self) -> str:
        text = self._read()
        if not text:
            raise StopIteration
        if self.line == 0:
            text = text.removeprefix("\ufeff")
        self.line += 1
        too_long = len(text) >= MAX_LINE and text[-1] not in "\r\n"
        while too_long and (rest := self._read()) and rest[-1] not in "\r\n":
            pass
        if self.second is None:
            self.start, self.second = text[:START], (self.offset, self.line)
        if too_long:
            raise TooLong
        if self.fault is None and "\0" in text:
            self.fault = "holds a NUL character."
        if self.fault is None and not text.isascii() and (byte := escaped_byte(text)) is not None:
            self.fault = f"byte 0x{byte:02x} is not UTF-8."
        return text

    def _read(self) -> str:
        assert self._file is not None
        text = self._file.readline(MAX_LINE)
        self.offset += len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
        return text
