"""A task as one file, to carry it from one model to another with the same encoder.

A zip with task.json, weights.safetensors and belongs.json: the fingerprints of what the task works with. What comes in
is checked before anything is written: names, links, sizes, and how much it grows. A tar is taken too, also with gzip.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

from onepass.atomic import listed_files, read_json
from onepass.card import card
from onepass.contents import RECORDED, read_config, read_whole, task_names, task_said
from onepass.errors import ConfigError, DataError, FolderError, unknown
from onepass.tasks import Task

FILES = ("task.json", "weights.safetensors", "belongs.json")
MOST_GROWTH = 100
MOST_MEMBERS = len(FILES) + 3  # a few folders among them
MOST_AROUND = 64 * 1024  # bytes of a tar that are no file's: headers and padding
GZIP, ZIP_ENTRY = b"\x1f\x8b", b"PK\x01\x02"
# What zipfile and tarfile raise of damaged archives: errors of their own, and whatever their code ran into.
UNREADABLE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError, ValueError, LookupError,
    ArithmeticError,
)  # fmt: skip
REMARKS = (tarfile.XHDTYPE, tarfile.XGLTYPE)  # on the members of a tar, such as when they were changed
SHARED = ("tokenizer.json", "method.safetensors")
CHOSEN = "chosen"
"""The remarks of a method on how its options were found, such as for how many tasks"""
MAPPINGS, TOLD = ("rows", "scores", "calibration", "thresholds"), ("rows", "scores", "version")
"""The keys of a task's record that hold mappings, and those that GET /tasks tells"""
KINDS = ("application/zip", "application/x-tar", "application/gzip", "application/x-gzip", "application/octet-stream")


def belongs(folder: Path) -> dict[str, Any]:
    """What a task of this model works with."""
    config, files = read_config(folder), listed_files(folder)
    return {
        "format": 1,
        "encoder": config["encoder"]["sha256"],
        "method": {key: value for key, value in config["method"].items() if key != CHOSEN},
        "files": {name: files.get(name) for name in SHARED},
    }


def pack(folder: Path, name: str) -> bytes:
    """A task of a model folder as an archive, all of one version."""
    return read_whole(folder, lambda: _packed(folder, name))


def _packed(folder: Path, name: str) -> bytes:
    listed = listed_files(folder)
    if name not in (names := task_names(listed)):
        raise ConfigError(unknown("task", name, names))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("belongs.json", json.dumps(belongs(folder), indent=2))
        for file in FILES[:2]:
            archive.writestr(file, _whole(folder, f"tasks/{name}/{file}", listed))
    return made.getvalue()


def _whole(folder: Path, file: str, listed: Mapping[str, str]) -> bytes:
    """A file of a folder, as the manifest says: whoever installs it has no other way to know that it was damaged."""
    try:
        data = (folder / file).read_bytes()
        fault = "was changed" if hashlib.sha256(data).hexdigest() != listed.get(file) else None
    except FileNotFoundError:
        fault = "is missing"
    if fault is not None:
        raise FolderError(f"{folder} is damaged: {file} {fault}. Restore it from a copy, or take back a version of it.")
    return data


def unpack(data: bytes, target: Path, most_bytes: int) -> None:
    """Write the files of an archive into an empty folder; DataError for whatever does not belong into one."""
    found: dict[str, bytes] = {}
    try:
        for name, stream, size in _members(data, most_bytes):
            if name in found:
                raise DataError(f"The archive holds {name} twice.")
            limit = min(most_bytes - sum(map(len, found.values())), size, MOST_GROWTH * max(len(data), 1))
            content = stream.read(limit + 1)
            if len(content) > limit:
                raise DataError(f"The archive's {name} is larger than it may be.")
            found[name] = content
    except UNREADABLE as error:
        raise DataError(f"This is no archive that can be read: {type(error).__name__}.") from None
    if missing := [name for name in FILES if name not in found]:
        raise DataError(f"The archive has no {' and no '.join(missing)}. Make one with GET /tasks/NAME/archive.")
    target.mkdir(parents=True)
    for name, content in found.items():
        (target / name).write_bytes(content)


def read_task(archived: Path, name: str, config: Mapping[str, Any]) -> tuple[Task, dict[str, Any]]:
    """The task of an unpacked archive under a name, and its record; both can be written and described."""
    known = read_json(archived / FILES[0])
    try:
        task = task_said(known | {"name": name})
        record = {key: known[key] for key in RECORDED if key in known}
        record |= {"version": int(known.get("version", 1)), "trained_as": None}
        if strange := [key for key in MAPPINGS if not isinstance(record.get(key, {}), dict)]:
            raise TypeError(strange[0])
        json.dumps([record.get(key) for key in TOLD], allow_nan=False)
        json.dumps([task.model_dump(mode="json"), record], ensure_ascii=False).encode("utf-8")
        card([task], [record], config)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise no_task(error) from error
    return task, record


def no_task(error: Exception) -> FolderError:
    """What is said of an archive whose files are none of a task."""
    return FolderError(f"This is no task that the model can take: {type(error).__name__}.")


def check_belongs(archived: Path, folder: Path) -> None:
    """Raise if an unpacked task is of another encoder, tokenizer or method than the model."""
    theirs, ours = read_json(archived / "belongs.json"), belongs(folder)
    for key in ("format", "encoder", "method", "files"):
        found = theirs.get(key) if isinstance(theirs, dict) else None
        if key == "method" and isinstance(found, dict):
            found.pop(CHOSEN, None)  # of an archive that was packed before remarks were left out
        if found != ours[key]:
            raise FolderError(
                f"The task is of another model: its {key} is {str(found)[:100]}, this model's {str(ours[key])[:100]}."
            )


def _members(data: bytes, most_bytes: int) -> Iterator[tuple[str, IO[bytes], int]]:
    """The files of a zip or tar, by their bare names."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        # Before the list is read, which holds an object for each: what it says of its own length may be wrong.
        if data.count(ZIP_ENTRY) > MOST_MEMBERS:
            raise too_many()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for item in archive.infolist():
                if item.is_dir():
                    continue
                if item.external_attr >> 16 & 0o170000 not in (0, 0o100000):
                    raise DataError(f"The archive holds {_bare(item.filename)} as a link or device.")
                if item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others grow without a limit
                    raise DataError(f"The archive's {_bare(item.filename)} is packed in another way than by deflate.")
                if item.file_size > MOST_GROWTH * max(item.compress_size, 1):
                    raise DataError(f"The archive's {_bare(item.filename)} grows more than {MOST_GROWTH} times.")
                with archive.open(item) as stream:
                    yield _bare(item.filename), stream, item.file_size
        return
    yield from _tar_members(_grown(data, most_bytes))


def _tar_members(data: bytes) -> Iterator[tuple[str, IO[bytes], int]]:
    """The same of a tar. By its headers: `tarfile.open` makes a table of whatever a header of any size says."""
    place = number = 0
    while any(block := data[place : place + tarfile.BLOCKSIZE]):  # the last one is empty
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        place, number = place + tarfile.BLOCKSIZE, number + 1
        if number > 2 * MOST_MEMBERS:
            raise too_many()
        if not 0 <= member.size <= len(data) - place:
            raise EOFError
        if member.isreg():
            yield _bare(member.name), io.BytesIO(data[place : place + member.size]), member.size
        elif not member.isdir() and member.type not in REMARKS:
            raise DataError(f"The archive holds {_bare(member.name)} as a link or device.")
        place += -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _grown(data: bytes, most_bytes: int) -> bytes:
    """A tar out of its gzip, if it is in one."""
    if not data.startswith(GZIP):
        return data
    limit = min(most_bytes + MOST_AROUND, MOST_GROWTH * len(data))
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        found = stream.read(limit + 1)
    if len(found) > limit:
        raise DataError(f"The archive grows more than {MOST_GROWTH} times, or to more than {most_bytes:,} bytes.")
    return found


def too_many() -> DataError:
    return DataError("The archive holds more files than a task has.")


def _bare(name: str) -> str:
    """The name of a file that a task may have, at the top or in one folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or len(path.parts) > 2 or path.name not in FILES:
        raise DataError(f"The archive holds a file that no task has. Possible: {', '.join(FILES)}.")
    return path.name
