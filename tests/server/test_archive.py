"""Tasks as archives, and archives that are none."""

import gzip
import io
import os
import re
import shutil
import struct
import tarfile
import tracemalloc
import zipfile
from itertools import count
from pathlib import Path

import pytest

from onepass import contents
from onepass.atomic import read_json, write_json, write_manifest
from onepass.errors import ConfigError, DataError, FolderError
from onepass.living import remove_task
from onepass.server import archive
from onepass.server.archive import FILES, check_belongs, pack, unpack

MOST = 1_000_000


def zipped(**files: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return made.getvalue()


def tarred(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, size, link
    return made


def test_a_task_comes_out_as_it_went_in(model: Path, tmp_path: Path) -> None:
    unpack(pack(model, "topic"), tmp_path / "out", MOST)
    for file in FILES[:2]:
        assert (tmp_path / "out" / file).read_bytes() == (model / "tasks" / "topic" / file).read_bytes()
    check_belongs(tmp_path / "out", model)
    with pytest.raises(ConfigError, match="Did you mean 'topic'"):
        pack(model, "topc")


def test_an_archive_is_of_one_version(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, whole, tried = Path(shutil.copytree(model, tmp_path / "model")), archive._packed, []

    def meanwhile(folder: Path, name: str) -> bytes:
        tried.append(name)
        if len(tried) == 1:
            remove_task(folder, "tone")
        return whole(folder, name)

    monkeypatch.setattr(archive, "_packed", meanwhile)
    unpack(pack(folder, "topic"), tmp_path / "out", MOST)
    assert len(tried) == 2
    versions = count()
    monkeypatch.setattr(contents, "manifest_of", lambda _: next(versions))
    with pytest.raises(FolderError, match="was changed whenever it was read"):
        pack(folder, "topic")


def test_a_folder_that_is_replaced_meanwhile_is_not_taken_for_a_damaged_one(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, listed = Path(shutil.copytree(model, tmp_path / "model")), archive.listed_files

    def meanwhile(folder: Path) -> dict[str, str]:
        """The manifest; then the folder becomes another one."""
        found = listed(folder)
        monkeypatch.undo()
        path = folder / "tasks" / "topic" / "task.json"
        path.write_text(path.read_text() + " ")
        write_manifest(folder)
        return found

    monkeypatch.setattr(archive, "listed_files", meanwhile)
    unpack(pack(folder, "topic"), tmp_path / "out", MOST)
    assert (tmp_path / "out" / "task.json").read_text().endswith(" ")


@pytest.mark.parametrize("file", FILES[:2])
def test_a_damaged_task_is_not_handed_out(model: Path, tmp_path: Path, file: str) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    path = folder / "tasks" / "topic" / file
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FolderError, match=f"is damaged: tasks/topic/{re.escape(file)} was changed"):
        pack(folder, "topic")
    pack(folder, "tone")
    path.unlink()
    with pytest.raises(FolderError, match=f"is damaged: tasks/topic/{re.escape(file)} is missing"):
        pack(folder, "topic")


def test_a_task_of_another_model_is_refused(model: Path, tmp_path: Path) -> None:
    unpack(pack(model, "topic"), tmp_path / "out", MOST)
    path = tmp_path / "out" / "belongs.json"
    path.write_text(path.read_text().replace('"encoder": "', '"encoder": "0'))
    with pytest.raises(FolderError, match="of another model: its encoder"):
        check_belongs(tmp_path / "out", model)


def test_remarks_on_how_options_were_chosen_make_no_other_model(model: Path, tmp_path: Path) -> None:
    """Two models of the defaults differ in them as soon as they differ in the number of tasks."""
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    config = read_json(folder / "config.json")
    config["method"]["chosen"] = {"depth": "auto, for 2 tasks"}
    write_json(folder / "config.json", config)
    write_manifest(folder)
    unpack(pack(folder, "topic"), tmp_path / "out", MOST)
    check_belongs(tmp_path / "out", model)
    check_belongs(tmp_path / "out", folder)


def headed(kind: bytes, size: int) -> bytes:
    """A tar whose first header is followed by so many zeros, which are what it is about."""
    return member("././@LongLink", kind, size).tobuf(tarfile.GNU_FORMAT) + bytes(size)


def listing(count: int) -> bytes:
    """The list of a zip with so many members, and nothing else; its end says that there is one."""
    name = b"a"
    entry = struct.pack("<4s24xH16x", b"PK\x01\x02", len(name)) + name
    return entry * count + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(entry) * count, 0, 0)


def packed(how: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", how) as archive:
        for name in FILES:
            archive.writestr(name, b"{}")
    return made.getvalue()


def renamed(name: bytes, flags: int = 0) -> bytes:
    """A zip whose list gives its only member another name, as long as the one before."""
    data = bytearray(zipped(abcd=b"{}"))
    entry = data.index(b"PK\x01\x02")
    data[entry + 8 : entry + 10] = struct.pack("<H", flags)
    data[entry + 46 : entry + 50] = name
    return bytes(data)


def misplaced(data: bytes, by: int) -> bytes:
    """A zip whose end says that its list begins so much later."""
    end = data.index(b"PK\x05\x06") + 16
    (place,) = struct.unpack("<L", data[end : end + 4])
    return data[:end] + struct.pack("<L", place + by) + data[end + 4 :]


def far_away() -> bytes:
    """A zip whose only member begins at the last of 2 ** 64 bytes."""
    data, extra = bytearray(zipped(abcd=b"{}")), struct.pack("<HHQ", 1, 8, 2**64 - 1)
    entry, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    data[end + 12 : end + 16] = struct.pack("<L", end - entry + len(extra))
    data[entry + 50 : entry + 50] = extra
    data[entry + 42 : entry + 46] = b"\xff" * 4
    data[entry + 30 : entry + 32] = struct.pack("<H", len(extra))
    return bytes(data)


HOSTILE = {
    "a member that begins too far away": far_away(),
    "a name that is no text": renamed(b"\xff\xfe\xff\xff", 0x800),
    "no name": renamed(b"\0\0\0\0"),
    "a list that begins behind its end": misplaced(zipped(task_dot_json=b"{}"), 50),
    "nothing": b"",
    "noise": os.urandom(1000),
    "a pickle": b"\x80\x04\x95.",
    "upwards": zipped(**{"..__task_dot_json": b"{}"}),
    "absolute": zipped(__etc__passwd=b"root"),
    "deep": zipped(a__b__task_dot_json=b"{}"),
    "another file": zipped(task_dot_json=b"{}", run_dot_py=b"import os"),
    "too few": zipped(task_dot_json=b"{}"),
    "a bomb": zipped(weights_dot_safetensors=b"\0" * 900_000),
    "a tar bomb": tarred((member("weights.safetensors", size=900_000), b"\0" * 900_000)),
    "too large": zipped(weights_dot_safetensors=os.urandom(MOST + 1)),
    "a link": tarred((member("task.json", tarfile.SYMTYPE, link="/etc/passwd"), b"")),
    "a hard link": tarred((member("task.json", tarfile.LNKTYPE, link="../secret"), b"")),
    "a device": tarred((member("task.json", tarfile.CHRTYPE), b"")),
    "upwards in a tar": tarred((member("../../task.json"), b"")),
    "many": tarred(*((member(f"{n}/task.json"), b"") for n in range(50))),
    "a long name": gzip.compress(headed(tarfile.GNUTYPE_LONGNAME, 30 * MOST)),
    "long remarks": gzip.compress(headed(tarfile.XHDTYPE, 30 * MOST)),
    "long remarks of a bare tar": headed(tarfile.XHDTYPE, 30 * MOST),
    "less than a header says": member("task.json", size=30 * MOST).tobuf() + bytes(512),
    "less than nothing": member("task.json", size=-512).tobuf(tarfile.GNU_FORMAT) + bytes(512),
    "half a gzip": gzip.compress(os.urandom(5000))[:3000],
    "a long list": listing(100_000),
    "packed by bzip2": packed(zipfile.ZIP_BZIP2),
    "packed by lzma": packed(zipfile.ZIP_LZMA),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_task_is_refused_and_nothing_is_written(data: bytes, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            unpack(data, tmp_path / "inside" / "out", MOST)
        assert tracemalloc.get_traced_memory()[1] < 5 * MOST
    finally:
        tracemalloc.stop()
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_is_taken_too_with_a_folder_and_remarks_in_it(tmp_path: Path, mode: str, kind: int) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode, format=kind) as tar:  # type: ignore[call-overload]
        tar.addfile(member("topic", tarfile.DIRTYPE))
        for name in FILES:
            info = member(f"topic/{name}", size=700)
            if kind == tarfile.PAX_FORMAT:
                info.mtime = 1234.5  # which needs a remark
            tar.addfile(info, io.BytesIO(name.encode() * 100))
    unpack(made.getvalue(), tmp_path / "out", MOST)
    assert all((tmp_path / "out" / name).read_bytes() == (name.encode() * 100)[:700] for name in FILES)
