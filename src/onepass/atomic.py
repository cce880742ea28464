"""Writing and changing folders whole or not at all, and knowing when one was damaged.

A folder is written under a temporary name beside its place, every file is flushed to the disk, and the folder is
renamed last. Its MANIFEST.json holds the sha256 of every other file.
"""

import ctypes
import errno
import glob
import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from onepass.errors import FolderError, NoSpace

log = logging.getLogger(__name__)
MANIFEST, FORMAT = "MANIFEST.json", 1
CARD = "README.md"  # what people read of a folder; nothing that is computed depends on it
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)


def check_system() -> None:
    """Raise where nothing can be written whole: Windows has no such locks, and flushes no folder."""
    if find_spec("fcntl") is None:
        raise FolderError(
            "On this system models can be loaded and asked, but not written: it has no locks and flushes no folders as "
            "Linux and macOS do. To train, change, serve or label files, use one of these, or WSL on Windows."
        )


@contextmanager
def new_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill; at the end of the block it has its manifest and stands at `path`, or after an error nowhere."""
    check_system()
    path = path.resolve()  # where a link leads: the link itself is left alone
    draft = draft_of(path)
    try:
        draft.mkdir(parents=True)
        yield draft
        write_manifest(draft)
        # Who changes the folder meanwhile shares its files at the end, by what they were at the beginning.
        with locked(path, wait=True) if overwrite else nullcontext():
            if overwrite:
                with suppress(FolderError):  # there is none, or nobody knows any more what is its own
                    keep_others(path, draft, listed_files(path))
            sync_tree(draft)
            if not path.exists():
                os.rename(draft, path)
            elif overwrite:
                exchange(draft, path)
            else:
                raise FolderError(f"{path} appeared while it was being written. Choose another name.")
    except OSError as error:
        kind = NoSpace if error.errno == errno.ENOSPC else FolderError
        raise kind(f"{path} could not be written: {reason(error)}. Nothing was changed there.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # what is left here is a failed draft, or the folder that was replaced
    _sync_parent(path)


def keep_others(path: Path, draft: Path, own: Collection[str]) -> None:
    """Take over what somebody laid beside the folder's own files, before the draft replaces it: notes, for example."""
    for name in entries(path):
        if name not in own and not os.path.lexists(draft / name):
            take_over(path / name, draft / name)


class Edit:
    """The next version of a folder with a manifest: new files are written to `draft`, the others stay as they were."""

    def __init__(self, folder: Path, draft: Path, check: bool = True):
        self.folder, self.draft = folder, draft
        self.before: dict[str, str] = verify(folder) if check else _if_listed(folder)
        """The manifest's files and their sha256 as they are"""
        self.after: dict[str, str] | None = None
        """As they will be, once the draft is complete"""
        self._dropped: list[str] = []

    def drop(self, *names: str) -> None:
        """Leave out these files, or what lies in these folders when they end in a slash."""
        self._dropped += names

    def complete(self) -> None:
        """Take over every file that was neither dropped nor written anew, and write the manifest."""
        written = _files(self.draft)
        ours = [name for name in self.before if (self.folder / name).is_file()]  # also behind a link to a folder
        there = ours + [name for name in entries(self.folder) if name not in self.before]
        kept = [name for name in there if name not in written and not self._is_dropped(name)]
        for name in kept:
            if name not in self.before and os.path.lexists(self.draft / name):
                continue  # a link in place of a folder of ours: what was in it is taken over itself
            take = share if name in self.before else take_over
            take(self.folder / name, self.draft / name)
        # What somebody laid into the folder is kept, and still is none of its listed files.
        listed = {name: self.before[name] for name in kept if name in self.before}
        self.after = dict(sorted((listed | {name: digest(self.draft / name) for name in written}).items()))
        write_json(self.draft / MANIFEST, {"format": FORMAT, "files": self.after})

    def _is_dropped(self, name: str) -> bool:
        return name == MANIFEST or any(name == d or (d.endswith("/") and name.startswith(d)) for d in self._dropped)


@contextmanager
def edit_folder(path: Path, *, check: bool = True) -> Iterator[Edit]:
    """Change a folder that has a manifest: at the end of the block it is the new one, after an error the old one.

    Nothing that stays is copied: the new folder shares its files with the old one (hard links), and nothing is ever
    written to a file that is there already. One process at a time can change a folder. A damaged one is refused, unless
    none of its listed files stays, and `check` says so.
    """
    path = path.resolve()  # where a link leads: the link itself is left alone
    with locked(path):
        for left in path.parent.glob(f".{glob.escape(path.name)}.*.edit"):
            shutil.rmtree(left, ignore_errors=True)  # of a process that was killed: the lock is ours
        draft = draft_of(path).with_suffix(".edit")
        try:
            edit = Edit(path, draft, check)
            draft.mkdir()
            shutil.copymode(path, draft)
            yield edit
            if edit.after is None:
                edit.complete()
            sync_tree(draft)
            inside = _is_working_folder(path)
            exchange(draft, path)
            if inside:
                log.warning("The working folder is the old %s, which is gone. Go to the new one: cd %s", path, path)
        except OSError as error:
            raise FolderError(f"{path} could not be changed: {reason(error)}. Nothing was changed there.") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)  # a failed draft, or the folder that was replaced
        _sync_parent(path)


def _is_working_folder(path: Path) -> bool:
    """Whether this process, and so perhaps the shell that called it, is in a folder."""
    try:
        return Path.cwd().is_relative_to(path)
    except FileNotFoundError:
        return False


class Locked(FolderError):
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Within the block no other process that asks may change what is at `path`; the lock is a file beside it.

    Where another process has it, that is an error, or with `wait` the lock is waited for.
    """
    check_system()
    import fcntl

    name = path.parent / f".{path.name}.lock"
    try:
        while True:
            lock = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                if name.exists() and os.path.samestat(os.fstat(lock), name.stat()):
                    break
                os.close(lock)  # it was removed by the process that held it, before we had it
            except OSError:
                os.close(lock)
                raise
    except BlockingIOError:
        raise Locked(f"{path} is being changed by another process. Wait until it is done, then try again.") from None
    except OSError as error:
        raise FolderError(f"{path} cannot be changed: {reason(error)}.") from error
    try:
        yield
    finally:
        os.unlink(name)  # while it is held: whoever opened it meanwhile finds that it is gone, and makes a new one
        os.close(lock)


def _files(folder: Path) -> list[str]:
    """The files in a folder and below, by their names in it."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def entries(folder: Path) -> list[str]:
    """The same, with links, wherever they lead, and empty folders."""
    found = [p for p in folder.rglob("*") if p.is_symlink() or p.is_file() or (p.is_dir() and not any(p.iterdir()))]
    return sorted(p.relative_to(folder).as_posix() for p in found)


def take_over(source: Path, target: Path) -> None:
    """What somebody laid beside our files as it is: a link stays a link."""
    if source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.readlink())
    elif source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        share(source, target)


def share(source: Path, target: Path) -> None:
    """One more name for a file, or a copy where the system allows no second name."""
    target.parent.mkdir(parents=True, exist_ok=True)
    real = os.path.realpath(source)  # in the hub's cache every file of a model is a link to elsewhere
    try:
        os.link(real, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(real, target)


def draft_of(path: Path) -> Path:
    """A name beside `path` that no other save uses; a process killed earlier may have left a draft of its own."""
    return path.parent / f".{path.name}.{os.getpid()}-{secrets.token_hex(3)}.new"


def reason(error: OSError) -> str:
    """Why the system refused, in words."""
    if error.errno == errno.ENOSPC:
        return "there is no space left on the disk"
    return error.strerror or str(error)


def exchange(draft: Path, path: Path) -> None:
    """Swap two folders, in one step where the system can, so that one of them is always there."""
    libc = ctypes.CDLL(None, use_errno=True)
    swap = getattr(libc, "renameat2", None)
    if swap is not None and swap(_AT_FDCWD, os.fsencode(draft), _AT_FDCWD, os.fsencode(path), _RENAME_EXCHANGE) == 0:
        return
    aside = draft.with_suffix(".old")
    try:
        os.rename(path, aside)
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EXDEV):
            raise
        words = (
            "no other folder can take its place where it is a mount or a part of an image: mount the one that holds it"
        )
        raise OSError(error.errno, words) from error
    try:
        os.rename(draft, path)
    except OSError:
        os.rename(aside, path)
        raise
    os.rename(aside, draft)


def _sync_parent(path: Path) -> None:
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise FolderError(f"{path} was written, but may be lost if the power fails: {reason(error)}.") from error


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
            if not os.path.islink(place := os.path.join(folder, name)):
                with open(place, "rb") as file:
                    os.fsync(file.fileno())
        sync_folder(Path(folder))


def write_text(path: Path, text: str) -> None:
    """Write a single file whole or not at all."""
    draft = draft_of(path)
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {reason(error)}. Choose another output.") from error
    finally:
        draft.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON; a byte of a file name that is no UTF-8 becomes an escape, which reads as the same name."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FolderError(f"{path} is missing.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise FolderError(f"{path} cannot be read: {error}") from error


def write_manifest(folder: Path) -> None:
    """List every file of the folder with its sha256."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    write_json(
        folder / MANIFEST, {"format": FORMAT, "files": {p.relative_to(folder).as_posix(): digest(p) for p in files}}
    )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def listed_files(folder: Path) -> dict[str, str]:
    """The files of a folder with the sha256 that its manifest says they have."""
    manifest = read_json(folder / MANIFEST)
    listed = manifest.get("files") if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None
    if not isinstance(listed, dict):
        raise FolderError(
            f"{folder / MANIFEST} is damaged, or of a newer version. Upgrade with: pip install -U onepass"
        )
    return listed


def _if_listed(folder: Path) -> dict[str, str]:
    """The files that a manifest lists, if it can be read: it may be what is damaged."""
    try:
        return listed_files(folder)
    except FolderError:
        return {}


def verify(folder: Path) -> dict[str, str]:
    """The files of a folder with their sha256, each checked against the manifest; all faults are named at once.

    The card may be missing: it is not fetched from the hub, where people edit it.
    """
    listed = listed_files(folder)
    faults = []
    if CARD in listed and not (folder / CARD).is_file():
        del listed[CARD]
    for name, expected in listed.items():
        path = folder / name
        # By name, not by where a link leads: in the hub's cache every file of a model is a link to elsewhere.
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            faults.append(f"{name} lies outside")
        elif not path.is_file():
            faults.append(f"{name} is missing")
        elif digest(path) != expected:
            faults.append(f"{name} was changed")
    if faults == [f"{CARD} was changed"]:
        raise FolderError(
            f"{folder}: {faults[0]}. No answer depends on it: restore it or delete it, and put notes of your own into "
            "a file of another name."
        )
    if faults:
        raise FolderError(f"{folder} is damaged: {'; '.join(faults)}. Restore it from a copy, or train again.")
    return listed
