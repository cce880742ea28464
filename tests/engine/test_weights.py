"""Reading safetensors without its library."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from onepass.engine.weights import read_weights
from onepass.errors import FolderError


def test_tensors_are_read_as_they_were_written(tmp_path: Path):
    tensors = {"a": torch.randn(3, 4), "b.half": torch.randn(5).half(), "c": torch.tensor(2.5), "d": torch.arange(7)}
    save_file(tensors, tmp_path / "w.safetensors", {"format": "pt"})
    found = read_weights(tmp_path / "w.safetensors")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert np.array_equal(found[name], tensor.float().numpy() if tensor.is_floating_point() else tensor.numpy())
        assert found[name].dtype in (np.float32, np.int64)


def written(path: Path, header: bytes, data: bytes = b"\0" * 8, size: int | None = None) -> Path:
    path.write_bytes((len(header) if size is None else size).to_bytes(8, "little") + header + data)
    return path


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [1], "data_offsets": [8, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [-8, 4]},
        {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
        {"shape": [2]},
        7,
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, entry: object):
    path = written(tmp_path / "w.safetensors", json.dumps({"a": entry}).encode())
    with pytest.raises(FolderError, match="is damaged"):
        read_weights(path)


@pytest.mark.parametrize("content", [b"", b"\1", b"\xff" * 30, (10**9).to_bytes(8, "little") + b"{}"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    with pytest.raises(FolderError, match="is damaged"):
        read_weights(path)


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path):
    save_file({"a": torch.tensor([1.0, float("nan")])}, tmp_path / "w.safetensors")
    with pytest.raises(FolderError, match="a holds numbers that are not finite"):
        read_weights(tmp_path / "w.safetensors")


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(FolderError, match=r"none\.safetensors cannot be read"):
        read_weights(tmp_path / "none.safetensors")


def test_an_empty_file_is_damaged(tmp_path: Path):
    (tmp_path / "w.safetensors").touch()
    with pytest.raises(FolderError, match="is damaged"):
        read_weights(tmp_path / "w.safetensors")
