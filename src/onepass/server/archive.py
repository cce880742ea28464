"""A task as one file, to carry it from one model to another with the same encoder.

A zip with task.json, weights.safetensors and belongs.json: the fingerprints of what the task works with. What comes in
is checked before anything is written: names, links, sizes, and how much a member grows.
"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from onepass.atomic import MANIFEST, read_json
from onepass.contents import read_config
from onepass.errors import ConfigError, DataError, FolderError, unknown
from onepass.server.folder import revision_of

FILES = ("task.json", "weights.safetensors", "belongs.json")
MOST_GROWTH, TRIES = 100, 4
SHARED = ("tokenizer.json", "method.safetensors")
KINDS = ("application/zip", "application/x-tar", "application/gzip", "application/x-gzip", "application/octet-stream")


def belongs(folder: Path) -> dict[str, Any]:
    """What a task of this model works with."""
    config, files = read_config(folder), read_json(folder / MANIFEST)["files"]
    return {
        "format": 1,
        "encoder": config["encoder"]["sha256"],
        "method": config["method"],
        "files": {name: files.get(name) for name in SHARED},
    }


def pack(folder: Path, name: str) -> bytes:
    """A task of a model folder as an archive, all of one version."""
    for _ in range(TRIES):
        revision = revision_of(folder)
        with suppress(FileNotFoundError):  # of a version that is no more there
            data = _packed(folder, name)
            if revision_of(folder) == revision:
                return data
    raise FolderError(f"{folder} is being changed. Try again.")


def _packed(folder: Path, name: str) -> bytes:
    names = [Path(file).parent.name for file in read_json(folder / MANIFEST)["files"] if file.endswith("/task.json")]
    if name not in names:
        raise ConfigError(unknown("task", name, names))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("belongs.json", json.dumps(belongs(folder), indent=2))
        for file in FILES[:2]:
            archive.writestr(file, (folder / "tasks" / name / file).read_bytes())
    return made.getvalue()


def unpack(data: bytes, target: Path, most_bytes: int) -> None:
    """Write the files of an archive into an empty folder; DataError for whatever does not belong into one."""
    found: dict[str, bytes] = {}
    try:
        for name, stream, size in _members(data):
            if name in found:
                raise DataError(f"The archive holds {name} twice.")
            limit = min(most_bytes - sum(map(len, found.values())), size, MOST_GROWTH * max(len(data), 1))
            content = stream.read(limit + 1)
            if len(content) > limit:
                raise DataError(f"The archive's {name} is larger than it may be.")
            found[name] = content
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"This is no archive that can be read: {type(error).__name__}.") from None
    if missing := [name for name in FILES if name not in found]:
        raise DataError(f"The archive has no {' and no '.join(missing)}. Make one with GET /tasks/NAME/archive.")
    target.mkdir(parents=True)
    for name, content in found.items():
        (target / name).write_bytes(content)


def check_belongs(archived: Path, folder: Path) -> None:
    """Raise if an unpacked task is of another encoder, tokenizer or method than the model."""
    theirs, ours = read_json(archived / "belongs.json"), belongs(folder)
    for key in ("format", "encoder", "method", "files"):
        found = theirs.get(key) if isinstance(theirs, dict) else None
        if found != ours[key]:
            raise FolderError(
                f"The task is of another model: its {key} is {str(found)[:100]}, this model's {str(ours[key])[:100]}."
            )


def _members(data: bytes) -> Iterator[tuple[str, IO[bytes], int]]:
    """The files of a zip or tar, by their bare names."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for item in archive.infolist():
                if item.is_dir():
                    continue
                if item.external_attr >> 16 & 0o170000 not in (0, 0o100000):
                    raise DataError(f"The archive holds {_bare(item.filename)} as a link or device.")
                if item.file_size > MOST_GROWTH * max(item.compress_size, 1):
                    raise DataError(f"The archive's {_bare(item.filename)} grows more than {MOST_GROWTH} times.")
                with archive.open(item) as stream:
                    yield _bare(item.filename), stream, item.file_size
        return
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
        for number, member in enumerate(tar):
            if number > len(FILES) + 2:
                raise DataError("The archive holds more files than a task has.")
            if member.isdir():
                continue
            content = tar.extractfile(member) if member.isreg() else None
            if content is None:
                raise DataError(f"The archive holds {_bare(member.name)} as a link or device.")
            yield _bare(member.name), content, member.size


def _bare(name: str) -> str:
    """The name of a file that a task may have, at the top or in one folder."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or len(path.parts) > 2 or path.name not in FILES:
        raise DataError(f"The archive holds a file that no task has. Possible: {', '.join(FILES)}.")
    return path.name
