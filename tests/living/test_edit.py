"""Changing a folder with a manifest: whole or not at all, by one process at a time, without copying what stays."""

import errno
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onepass import atomic
from onepass.atomic import edit_folder, locked, new_folder, verify
from onepass.errors import FolderError


@pytest.fixture
def box(tmp_path: Path) -> Path:
    with new_folder(tmp_path / "box") as draft:
        (draft / "large").write_text("large")
        (draft / "parts").mkdir()
        (draft / "parts" / "one").write_text("1")
        (draft / "parts" / "two").write_text("2")
    return tmp_path / "box"


def test_what_stays_is_shared_and_what_changes_is_new(box: Path) -> None:
    inode = (box / "large").stat().st_ino
    before = verify(box)
    with edit_folder(box) as edit:
        (edit.draft / "parts").mkdir()
        (edit.draft / "parts" / "one").write_text("changed")
        edit.drop("parts/two")
    assert (box / "large").stat().st_ino == inode
    assert (box / "parts" / "one").read_text() == "changed" and not (box / "parts" / "two").exists()
    assert verify(box).keys() == {"large", "parts/one"} and verify(box)["large"] == before["large"]
    assert os.listdir(box.parent) == ["box"]


def test_an_error_changes_nothing(box: Path) -> None:
    before = verify(box)
    with pytest.raises(ZeroDivisionError), edit_folder(box) as edit:
        _change_and_fail(edit)
    assert verify(box) == before and (box / "large").read_text() == "large"
    assert os.listdir(box.parent) == ["box"]


def _change_and_fail(edit: atomic.Edit) -> None:
    (edit.draft / "large").write_text("changed")
    edit.drop("parts/")
    edit.complete()
    raise ZeroDivisionError


def test_a_system_error_is_said_in_words(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FolderError, match="no space left on the disk"), edit_folder(box) as edit:
        (edit.draft / "large").write_text("changed")
    monkeypatch.undo()
    assert (box / "large").read_text() == "large"


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV])
def test_a_folder_that_cannot_be_exchanged_says_why(box: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refused(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *_, **__: None)
    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(FolderError, match="mount the one that holds it"), edit_folder(box) as edit:
        (edit.draft / "large").write_text("changed")
    monkeypatch.undo()
    assert (box / "large").read_text() == "large" and os.listdir(box.parent) == ["box"]


def test_where_files_cannot_have_two_names_they_are_copied(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    with edit_folder(box) as edit:
        edit.drop("parts/one")
    assert verify(box).keys() == {"large", "parts/two"}


def test_a_link_to_a_folder_is_followed_and_stays(box: Path) -> None:
    link = box.parent / "latest"
    link.symlink_to("box")
    with edit_folder(link) as edit:
        edit.drop("parts/")
    assert link.is_symlink() and verify(box).keys() == {"large"}


def test_one_process_at_a_time(box: Path) -> None:
    with edit_folder(box):
        with pytest.raises(FolderError, match="being changed by another process"), edit_folder(box):
            pass
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(_try_to_lock, (box,)) == "refused"
    with locked(box):
        pass
    assert os.listdir(box.parent) == ["box"]


def _try_to_lock(path: Path) -> str:
    try:
        with locked(path):
            return "locked"
    except FolderError:
        return "refused"


def test_what_a_killed_process_left_is_cleared_away(box: Path) -> None:
    (box.parent / ".box.123-abc.edit" / "parts").mkdir(parents=True)
    (box.parent / ".box.lock").touch()
    (box.parent / ".other.123-abc.edit").mkdir()
    with edit_folder(box) as edit:
        edit.drop("parts/one")
    assert sorted(os.listdir(box.parent)) == [".other.123-abc.edit", "box"]


def test_a_damaged_folder_is_not_edited(box: Path) -> None:
    (box / "large").write_text("rotten")
    with pytest.raises(FolderError, match="large was changed"), edit_folder(box):
        pass


def test_permissions_are_kept(box: Path) -> None:
    box.chmod(0o700)
    with edit_folder(box) as edit:
        edit.drop("parts/one")
    assert box.stat().st_mode & 0o777 == 0o700


def test_without_an_exchange_in_one_step_the_folder_is_still_changed(
    box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *_, **__: object())
    with edit_folder(box) as edit:
        edit.drop("parts/")
    assert verify(box).keys() == {"large"} and os.listdir(box.parent) == ["box"]


def test_a_folder_is_not_replaced_while_it_is_being_changed(box: Path) -> None:
    def replace() -> None:
        with new_folder(box, overwrite=True) as draft:
            (draft / "large").write_text("another")

    with ThreadPoolExecutor(1) as threads:
        with edit_folder(box) as edit:
            replaced = threads.submit(replace)
            with pytest.raises(TimeoutError):
                replaced.result(timeout=0.2)
            edit.drop("parts/one")
        replaced.result(timeout=10)
    assert verify(box).keys() == {"large"} and (box / "large").read_text() == "another"
    assert os.listdir(box.parent) == ["box"]


def test_who_is_in_the_folder_is_told_to_go_there_again(
    box: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(box)
    with edit_folder(Path()) as edit:
        edit.drop("parts/one")
    assert caplog.messages == [f"The working folder is the old {box}, which is gone. Go to the new one: cd {box}"]
    with edit_folder(box) as edit:  # from a folder that is gone
        edit.drop("parts/two")
    assert len(caplog.messages) == 1 and verify(box).keys() == {"large"}
