"""Versions of a model folder that are kept and taken back."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onepass.atomic import verify, write_manifest
from onepass.errors import ConfigError, FolderError
from onepass.living import remove_task, rename_task
from onepass.server.folder import revision_of
from onepass.server.versions import KEPT, Damaged, keep, kept, place_of, restore


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


def test_a_version_comes_back_as_it_was(folder: Path) -> None:
    first = keep(folder)
    remove_task(folder, "tone")
    second = keep(folder)
    assert kept(folder) == [first, second] and first != second
    assert restore(folder) == first == revision_of(folder)
    assert (folder / "tasks" / "tone" / "task.json").is_file()
    assert restore(folder, second) == second
    assert not (folder / "tasks" / "tone").exists()
    with pytest.raises(ConfigError, match="Unknown revision"):
        restore(folder, "0" * 16)


def test_a_version_may_be_kept_by_several_at_once(folder: Path) -> None:
    for _ in range(5):
        shutil.rmtree(place_of(folder), ignore_errors=True)
        with ThreadPoolExecutor(8) as threads:
            assert {found.result() for found in [threads.submit(keep, folder) for _ in range(8)]} == {kept(folder)[0]}
        assert [entry.name for entry in place_of(folder).iterdir()] == kept(folder)


def test_only_some_versions_are_kept(folder: Path) -> None:
    for number in range(KEPT + 2):
        name = place_of(folder) / f"{number:016}"
        shutil.copytree(folder, name)
    keep(folder)
    assert len(kept(folder)) == KEPT and kept(folder)[-1] == revision_of(folder)


def test_a_damaged_version_is_not_taken_back(folder: Path) -> None:
    first = keep(folder)
    remove_task(folder, "tone")
    now = revision_of(folder)
    weights = place_of(folder) / first / "tasks" / "tone" / "weights.safetensors"
    weights.unlink()
    with pytest.raises(FolderError, match="is damaged"):
        restore(folder)
    assert revision_of(folder) == now


def test_a_damaged_folder_is_not_kept(folder: Path) -> None:
    first = keep(folder)
    (folder / "config.json").unlink()
    (folder / "config.json").write_text("{}")
    assert keep(folder) == first  # the one that is kept already is whole
    damaged(folder)
    with pytest.raises(Damaged, match="is damaged"):
        keep(folder)
    (folder / "config.json").unlink()
    with pytest.raises(Damaged, match="is damaged"):
        keep(folder)
    assert [entry.name for entry in place_of(folder).iterdir()] == [first]


def test_versions_that_are_damaged_are_passed_over(folder: Path) -> None:
    first = keep(folder)
    remove_task(folder, "tone")
    second = keep(folder)
    damaged(place_of(folder) / second)
    remove_task(folder, "same")
    assert restore(folder) == first
    with pytest.raises(FolderError, match="is damaged"):
        restore(folder, second)


def damaged(folder: Path) -> None:
    """Spoil a folder, and let its manifest be another one."""
    (folder / "config.json").unlink()
    (folder / "config.json").write_text("{}")
    manifest = folder / "MANIFEST.json"
    manifest.write_text(manifest.read_text() + "\n")


def test_a_damaged_folder_is_mended_by_a_version_of_it(folder: Path) -> None:
    first = keep(folder)
    remove_task(folder, "tone")
    second = keep(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FolderError, match="is damaged"):
        verify(folder)
    assert restore(folder, second) == second
    verify(folder)
    (folder / "config.json").unlink()
    assert restore(folder) == first
    verify(folder)
    with pytest.raises(ConfigError, match="is there already"):
        restore(folder, first)


@pytest.mark.parametrize("manifest", ["", "{}"])
def test_a_folder_whose_manifest_is_damaged_is_mended_too(folder: Path, manifest: str) -> None:
    first = keep(folder)
    remove_task(folder, "tone")
    (folder / "MANIFEST.json").write_text(manifest)
    with pytest.raises(Damaged):
        keep(folder)
    assert restore(folder) == first
    assert verify(folder) and kept(folder) == [first]


def test_files_that_somebody_laid_into_the_folder_stay(folder: Path) -> None:
    keep(folder)
    remove_task(folder, "tone")
    (folder / "notes.txt").write_text("ours")
    restore(folder)
    assert (folder / "notes.txt").read_text() == "ours"


def test_a_version_comes_back_under_its_own_revision_whatever_its_tasks_are_called(folder: Path) -> None:
    rename_task(folder, "tone", "topic-2")  # between topic and topic/ in one order of names, behind them in another
    write_manifest(folder)
    first = keep(folder)
    remove_task(folder, "topic-2")
    assert restore(folder, first) == first


def test_a_version_whose_files_were_written_over_is_not_taken_for_what_it_was(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    remove_task(other, "tone")
    for _ in range(2):
        first = keep(folder)
        shutil.copytree(other, folder, dirs_exist_ok=True)  # into the same files, as cp -r does
        assert revision_of(folder) != first
        assert restore(folder, first) == first
    (folder / "config.json").write_text("{}")
    with pytest.raises(FolderError, match=r"config\.json was changed"):
        restore(folder, first)
