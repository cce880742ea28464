"""Folders that are there whole or not at all."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from onepass import atomic
from onepass.atomic import (
    MANIFEST,
    draft_of,
    edit_folder,
    new_folder,
    read_json,
    verify,
    write_json,
    write_manifest,
    write_text,
)
from onepass.errors import FolderError


def fill(path: Path, text: str, *, overwrite: bool = False) -> None:
    with new_folder(path, overwrite=overwrite) as folder:
        (folder / "inner").mkdir()
        (folder / "a.txt").write_text(text)
        (folder / "inner" / "b.txt").write_text(text * 2)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_folder_appears_with_its_manifest(tmp_path: Path):
    fill(tmp_path / "deep" / "model", "x")
    assert names(tmp_path / "deep") == ["model"]
    assert names(tmp_path / "deep" / "model") == [MANIFEST, "a.txt", "inner"]
    assert list(verify(tmp_path / "deep" / "model")) == ["a.txt", "inner/b.txt"]


def test_nobody_sees_it_before_it_is_finished(tmp_path: Path):
    with new_folder(tmp_path / "model") as folder:
        assert not (tmp_path / "model").exists()
        (folder / "a.txt").write_text("x")
    assert (tmp_path / "model" / "a.txt").read_text() == "x"


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path):
    fill(tmp_path / "disk" / "model", "old")
    (tmp_path / "model").symlink_to(tmp_path / "disk" / "model")
    fill(tmp_path / "model", "new", overwrite=True)
    assert (tmp_path / "model").is_symlink()
    assert (tmp_path / "disk" / "model" / "a.txt").read_text() == "new"
    assert (names(tmp_path), names(tmp_path / "disk")) == (["disk", "model"], ["model"])


def test_an_error_within_the_block_leaves_nothing(tmp_path: Path):
    def fail() -> None:
        with new_folder(tmp_path / "model") as folder:
            (folder / "a.txt").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert names(tmp_path) == []


def test_an_error_within_the_block_leaves_the_folder_that_was_there(tmp_path: Path):
    fill(tmp_path / "model", "old")

    def fail() -> None:
        with new_folder(tmp_path / "model", overwrite=True) as folder:
            (folder / "a.txt").write_text("new")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert (tmp_path / "model" / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_overwriting_replaces_every_listed_file_and_keeps_what_somebody_laid_there(tmp_path: Path):
    fill(tmp_path / "model", "old")
    (tmp_path / "model" / "stale.txt").write_text("stale")
    write_manifest(tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    fill(tmp_path / "model", "new", overwrite=True)
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == [MANIFEST, "a.txt", "inner", "notes.txt"]
    assert "notes.txt" not in verify(tmp_path / "model")
    assert (tmp_path / "model" / "a.txt").read_text() == "new"


def test_links_and_empty_folders_that_somebody_laid_there_stay_what_they_are(tmp_path: Path):
    fill(tmp_path / "model", "old")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "big.bin").write_text("big")
    laid = {"data": elsewhere, "big.bin": elsewhere / "big.bin", "gone": tmp_path / "nowhere"}
    for name, target in laid.items():
        (tmp_path / "model" / name).symlink_to(target)
    (tmp_path / "model" / "drafts").mkdir()
    with edit_folder(tmp_path / "model") as edit:
        (edit.draft / "a.txt").write_text("new")
    fill(tmp_path / "model", "newer", overwrite=True)
    for name, target in laid.items():
        assert (tmp_path / "model" / name).readlink() == target
    assert (tmp_path / "model" / "drafts").is_dir()


def test_a_folder_that_appeared_meanwhile_is_not_touched(tmp_path: Path):
    def meet() -> None:
        with new_folder(tmp_path / "model") as folder:
            (folder / "a.txt").write_text("second")
            fill(tmp_path / "model", "first")

    with pytest.raises(FolderError, match="appeared while it was being written"):
        meet()
    assert (tmp_path / "model" / "a.txt").read_text() == "first"
    assert names(tmp_path) == ["model"]


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path: Path):
    # In a container the process id is the same in every run.
    left = draft_of(tmp_path / "model")
    left.mkdir()
    (left / "a.txt").write_text("half")
    fill(tmp_path / "model", "x")
    assert verify(tmp_path / "model")


@pytest.mark.parametrize("kernel", [True, False], ids=["exchange", "renames"])
def test_where_the_system_cannot_exchange_folders_renames_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
):
    fill(tmp_path / "model", "old")
    if not kernel:
        monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *_, **__: object())
    fill(tmp_path / "model", "new", overwrite=True)
    assert (tmp_path / "model" / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("failing", [1, 2])
def test_a_rename_that_fails_brings_the_old_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int):
    fill(tmp_path / "model", "old")
    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *_, **__: object())
    real, calls = os.rename, []

    def rename(source: Any, target: Any) -> None:
        calls.append(source)
        if len(calls) == failing:
            raise OSError(errno.EACCES, "Permission denied")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(FolderError, match=r"could not be written: Permission denied\. Nothing was changed there"):
        fill(tmp_path / "model", "new", overwrite=True)
    assert (tmp_path / "model" / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_a_full_disk_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def write(path: Path, value: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic, "write_json", write)
    with pytest.raises(FolderError, match="there is no space left on the disk"):
        fill(tmp_path / "model", "x")
    assert names(tmp_path) == []


def test_when_only_the_last_flush_fails_the_folder_is_there_and_the_message_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = atomic.sync_folder

    def flush(path: Path) -> None:
        if path == tmp_path:
            raise OSError(errno.EIO, "Input/output error")
        real(path)

    monkeypatch.setattr(atomic, "sync_folder", flush)
    with pytest.raises(FolderError, match="was written, but may be lost"):
        fill(tmp_path / "model", "x")
    assert verify(tmp_path / "model")


# --- damage ---------------------------------------------------------------------------------------------------------


def test_all_damage_is_named_at_once(tmp_path: Path):
    fill(tmp_path / "model", "x")
    (tmp_path / "model" / "a.txt").write_text("y")
    (tmp_path / "model" / "inner" / "b.txt").unlink()
    with pytest.raises(FolderError, match=r"a\.txt was changed; inner/b\.txt is missing"):
        verify(tmp_path / "model")


def test_a_file_that_nobody_listed_is_no_damage(tmp_path: Path):
    fill(tmp_path / "model", "x")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    assert list(verify(tmp_path / "model")) == ["a.txt", "inner/b.txt"]


@pytest.mark.parametrize("name", ["../secret.txt", "inner/../../secret.txt", "/etc/hostname"])
def test_a_manifest_cannot_point_outside_its_folder(tmp_path: Path, name: str):
    fill(tmp_path / "model", "x")
    (tmp_path / "secret.txt").write_text("secret")
    manifest = read_json(tmp_path / "model" / MANIFEST)
    manifest["files"][name] = atomic.digest(tmp_path / "secret.txt")
    write_json(tmp_path / "model" / MANIFEST, manifest)
    with pytest.raises(FolderError, match="lies outside"):
        verify(tmp_path / "model")


def test_files_that_are_links_are_read_as_in_the_hubs_cache(tmp_path: Path):
    fill(tmp_path / "model", "x")
    (tmp_path / "blobs").mkdir()
    snapshot = tmp_path / "snapshot"
    (snapshot / "inner").mkdir(parents=True)
    for number, name in enumerate([MANIFEST, "a.txt", "inner/b.txt"]):
        (tmp_path / "model" / name).rename(tmp_path / "blobs" / str(number))
        (snapshot / name).symlink_to(tmp_path / "blobs" / str(number))
    assert list(verify(snapshot)) == ["a.txt", "inner/b.txt"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"files": {}}', '{"format": 1, "files": []}', '{"format": 2, "files": {}}']
)
def test_a_manifest_that_cannot_be_understood_is_damage(tmp_path: Path, text: str):
    fill(tmp_path / "model", "x")
    (tmp_path / "model" / MANIFEST).write_text(text)
    with pytest.raises(FolderError, match=MANIFEST):
        verify(tmp_path / "model")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 100_000, b"{'a': 1}"])
def test_what_is_no_json_is_said_with_its_file(tmp_path: Path, content: bytes):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(FolderError, match=r"x\.json cannot be read"):
        read_json(tmp_path / "x.json")


def test_a_missing_file_is_said(tmp_path: Path):
    with pytest.raises(FolderError, match=r"x\.json is missing"):
        read_json(tmp_path / "x.json")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path):
    write_text(tmp_path / "page.html", "first")
    with pytest.raises(UnicodeEncodeError):  # as on a full disk, after some of it was written
        write_text(tmp_path / "page.html", "x" * 100_000 + "\ud800")
    assert (tmp_path / "page.html").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_json_keeps_every_script(tmp_path: Path):
    write_json(tmp_path / "x.json", {"label": "größe 日本"})
    assert "größe 日本" in (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == read_json(tmp_path / "x.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_file_name_that_is_no_utf8_reads_as_it_was_written(tmp_path: Path):
    name = os.fsdecode(b"caf\xe9.csv")
    write_json(tmp_path / "task.json", {"train": name})
    assert read_json(tmp_path / "task.json") == {"train": name}
    (tmp_path / "task.json").read_text(encoding="utf-8")


def test_pipes_in_a_folder_hold_nobody_up(tmp_path: Path):
    fill(tmp_path / "model", "old")
    os.mkfifo(tmp_path / "model" / "pipe")
    with edit_folder(tmp_path / "model") as edit:
        (edit.draft / "a.txt").write_text("new")
    assert (tmp_path / "model" / "a.txt").read_text() == "new"


def test_what_lies_behind_a_link_in_place_of_a_folder_is_kept_and_can_be_replaced(tmp_path: Path):
    def linked(name: str) -> Path:
        fill(tmp_path / name, "old")
        (tmp_path / name / "inner").rename(tmp_path / f"{name}-elsewhere")
        (tmp_path / name / "inner").symlink_to(tmp_path / f"{name}-elsewhere")
        return tmp_path / name

    edited = linked("edited")
    with edit_folder(edited) as edit:
        (edit.draft / "a.txt").write_text("new")
    assert list(verify(edited)) == ["a.txt", "inner/b.txt"] and (edited / "inner" / "b.txt").read_text() == "oldold"
    replaced = linked("replaced")
    fill(replaced, "new", overwrite=True)
    assert list(verify(replaced)) == ["a.txt", "inner/b.txt"] and (replaced / "inner" / "b.txt").read_text() == "newnew"
    for name in ("edited", "replaced"):
        assert (tmp_path / f"{name}-elsewhere" / "b.txt").read_text() == "oldold"
