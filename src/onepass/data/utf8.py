"""Files that are not UTF-8: how that is seen, and what to tell the user."""

import codecs
import re
import shlex
from pathlib import Path

from onepass.errors import DataError

LOOKED_AT = 2**22  # bytes at the beginning of a file
FEWEST, MOST = 3, 20  # lines that tell a file of another encoding from one with single broken lines

_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of a byte that is not UTF-8


def escaped_byte(line: str) -> int | None:
    """The first byte of a line, read with surrogateescape, that is not UTF-8."""
    bad = _ESCAPED_BYTE.search(line)
    return ord(bad.group()) - 0xDC00 if bad else None


def check_encoding(path: Path) -> None:
    """Raise if a file as a whole is of another encoding.

    It is if it begins as UTF-16 does, or if of its lines that are not plain ASCII the first 20 are no UTF-8, or all of
    them, from three on; only its first four megabytes are looked at. Otherwise lines that are no UTF-8 are broken ones.
    """
    with open(path, "rb") as file:
        start = file.read(LOOKED_AT)
    if name := _wide(start):
        raise DataError(f"{path} is {name}, not UTF-8. {_convert(path, name)}")
    if start.isascii():
        return
    lines = start.splitlines()
    if len(start) == LOOKED_AT:
        lines.pop()  # it may be cut in a character
    others = [(number, line) for number, line in enumerate(lines, 1) if not line.isascii()][:MOST]
    if len(others) < FEWEST or any(_is_utf8(line) for _, line in others):
        return
    number, line = others[0]
    byte = escaped_byte(line.decode("utf-8", "surrogateescape"))
    assert byte is not None
    raise DataError(
        f"{not_utf8(path, number, byte)} (None of the first {len(others)} lines with other characters than ASCII "
        "is UTF-8.)"
    )


def not_utf8(path: Path, line: int, byte: int) -> str:
    """The message for a file whose first byte that is no UTF-8 is in this line."""
    with open(path, "rb") as file:
        if name := _wide(file.read(4)):
            return f"{path} is {name}, not UTF-8. {_convert(path, name)}"
    found = f"{path}, line {line}: byte {_valid_bytes(path)} of the file (0x{byte:02x}) is not UTF-8."
    try:
        character = bytes([byte]).decode("cp1252")
    except UnicodeDecodeError:
        return f"{found} Save the file as UTF-8."
    return f"{found} If it should be {character!r}, the file is Windows-1252. {_convert(path, 'WINDOWS-1252')}"


def nul_advice(path: Path) -> str:
    """What to do about a file with a NUL byte."""
    with open(path, "rb") as file:
        start = file.read(4096)
    for encoding, halves in (("UTF-16LE", start[1::2]), ("UTF-16BE", start[::2])):
        if halves.count(0) * 2 > len(halves):
            return f"The file looks like {encoding}. {_convert(path, encoding)}"
    return "The file is damaged, or not text."


def _wide(start: bytes) -> str | None:
    """The encoding that a file names with its first bytes, if that has no bytes but wider units."""
    if start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return None
    return "UTF-32" if start[:4] == codecs.BOM_UTF32_LE else "UTF-16"


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _valid_bytes(path: Path) -> int:
    """How many bytes of a file come before the first that is not UTF-8."""
    valid, rest = 0, b""
    with open(path, "rb") as file:
        while block := file.read(2**20):
            rest += block
            try:
                used = codecs.utf_8_decode(rest, "strict", False)[1]
            except UnicodeDecodeError as error:
                return valid + error.start
            valid, rest = valid + used, rest[used:]
    return valid


def _convert(path: Path, encoding: str) -> str:
    new = path.with_name(f"utf8-{path.name}")
    return f"Convert it: iconv -f {encoding} -t UTF-8 {shlex.quote(str(path))} > {shlex.quote(str(new))}"
