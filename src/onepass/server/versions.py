"""The versions of a model that were served, kept beside its folder so that one can be taken back.

A kept version shares its files with the folder (hard links): nothing is copied, and a file that is replaced lives on.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from onepass.atomic import CARD, MANIFEST, edit_folder, listed_files, share, verify
from onepass.errors import ConfigError, FolderError, unknown
from onepass.server.folder import Unstable, revision_of

KEPT = 8


class Damaged(FolderError):
    """A folder that cannot be what served."""


def place_of(folder: Path) -> Path:
    """Where versions of a folder are kept."""
    folder = folder.resolve()
    return folder.parent / f".{folder.name}.versions"


def kept(folder: Path) -> list[str]:
    """The revisions that are kept, the latest last."""
    place = place_of(folder)
    found = []
    for entry in place.iterdir() if place.is_dir() else ():
        with suppress(FileNotFoundError):  # somebody else may be dropping it
            if not entry.name.startswith(".") and (entry / MANIFEST).is_file():  # no draft
                found.append((entry.stat().st_mtime_ns, entry.name))
    return [name for _, name in sorted(found)]


def keep(folder: Path) -> str:
    """Keep the folder as it is now, if it is whole; returns its revision. It is checked again when it is taken back."""
    revision = revision_of(folder)
    target = place_of(folder) / revision
    if target.is_dir():
        os.utime(target)
        return revision
    try:
        listed = listed_files(folder)
    except FolderError as error:
        raise Damaged(str(error)) from None
    draft = target.with_name(f".{revision}.{secrets.token_hex(4)}")  # two may keep the same version at once
    try:
        for name in [*listed, MANIFEST]:
            if name != CARD or (folder / name).is_file():  # people may have removed it
                _take_over(folder / name, draft / name)
        if revision_of(draft) != revision:
            raise Unstable(f"{folder} was replaced while it was kept.")
        if not _is_whole(draft):
            raise Damaged(f"{folder} is damaged.")
        try:
            draft.rename(target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # somebody else has kept it meanwhile
                raise
    except FileNotFoundError:
        if revision_of(folder) != revision:
            raise Unstable(f"{folder} was replaced while it was kept.") from None
        raise Damaged(f"{folder} is damaged.") from None
    except OSError as error:
        raise FolderError(f"{place_of(folder)} cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    for old in kept(folder)[:-KEPT]:
        forget(folder, old)
    return revision


def forget(folder: Path, revision: str) -> None:
    """Keep a version no longer."""
    shutil.rmtree(place_of(folder) / revision, ignore_errors=True)


def restore(folder: Path, revision: str | None = None) -> str:
    """Put a kept version in the folder's place; by default the latest other one that is whole. Returns its revision.

    The folder may be damaged: then the version that it was can be taken back, too.
    """
    now = revision_of(folder)
    known = [name for name in kept(folder) if name != now or (name == revision and not _is_whole(folder))]
    if revision == now and now not in known:
        raise ConfigError(f"Revision {now} is there already.")
    if not known:
        raise ConfigError("There is no other version to take back.")
    revision = revision or _latest_whole(folder, known)
    if revision not in known:
        raise ConfigError(unknown("revision", revision, known))
    source = place_of(folder) / revision
    files = verify(source)
    with edit_folder(folder, check=False) as edit:
        edit.drop(*edit.before)
        for name in files:
            _take_over(source / name, edit.draft / name)
        edit.complete()
        # As it was: another order of the same files would be another revision.
        _take_over(source / MANIFEST, edit.draft / MANIFEST)
    os.utime(source)
    return revision_of(folder)


def _take_over(source: Path, target: Path) -> None:
    """Share a file; copy those that people write into, or that say what the others should be."""
    if source.name in (CARD, MANIFEST):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    else:
        share(source, target)


def _latest_whole(folder: Path, known: Sequence[str]) -> str:
    """The last of these versions that is whole; the last of all if none is, for what is wrong with it to be said."""
    return next((name for name in reversed(known) if _is_whole(place_of(folder) / name)), known[-1])


def _is_whole(folder: Path) -> bool:
    try:
        verify(folder)
    except FolderError:
        return False
    return True
