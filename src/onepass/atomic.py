"""Writing folders whole or not at all, and knowing when one was damaged.

A folder is written under a temporary name beside its place, every file is flushed to the disk, and the folder is
renamed last. Its MANIFEST.json holds the sha256 of every other file.
"""

import ctypes
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onepass.errors import FolderError

MANIFEST = "MANIFEST.json"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill; at the end of the block it has its manifest and stands at `path`, or after an error nowhere."""
    path = path.absolute()
    draft = path.parent / f".{path.name}.{os.getpid()}.new"
    try:
        draft.mkdir(parents=True)
        yield draft
        write_manifest(draft)
        sync_tree(draft)
        if not path.exists():
            os.rename(draft, path)
        elif overwrite:
            _exchange(draft, path)
        else:
            raise FolderError(f"{path} appeared while it was being written. Choose another name.")
        sync_folder(path.parent)
    except OSError as error:
        raise FolderError(f"{path} could not be written: {reason(error)}. Nothing was changed there.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # what is left here is a failed draft, or the folder that was replaced


def reason(error: OSError) -> str:
    """Why the system refused, in words."""
    if error.errno == errno.ENOSPC:
        return "there is no space left on the disk"
    return error.strerror or str(error)


def _exchange(draft: Path, path: Path) -> None:
    """Swap two folders, in one step where the system can, so that one of them is always there."""
    libc = ctypes.CDLL(None, use_errno=True)
    swap = getattr(libc, "renameat2", None)
    if swap is not None and swap(_AT_FDCWD, os.fsencode(draft), _AT_FDCWD, os.fsencode(path), _RENAME_EXCHANGE) == 0:
        return
    aside = path.parent / f".{path.name}.{os.getpid()}.old"
    os.rename(path, aside)
    os.rename(draft, path)
    os.rename(aside, draft)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk; without it a rename may be lost."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    for folder, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(folder))


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FolderError(f"{path} is missing.") from None
    except (OSError, ValueError) as error:
        raise FolderError(f"{path} cannot be read: {error}") from error


def write_manifest(folder: Path) -> None:
    """List every file of the folder with its sha256."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    write_json(folder / MANIFEST, {"format": 1, "files": {p.relative_to(folder).as_posix(): digest(p) for p in files}})


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(folder: Path) -> list[str]:
    """The files of a folder, each checked against the manifest; all that are missing or changed are named at once."""
    listed = read_json(folder / MANIFEST).get("files", {})
    faults = []
    for name, expected in listed.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            faults.append(f"{name} lies outside")
        elif not path.is_file():
            faults.append(f"{name} is missing")
        elif digest(path) != expected:
            faults.append(f"{name} was changed")
    if faults:
        raise FolderError(f"{folder} is damaged: {'; '.join(faults)}. Restore it from a copy, or train again.")
    return list(listed)
