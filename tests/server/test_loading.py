"""Changes that the waiting worker makes with the engine alone."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from onepass.engine import gate
from onepass.engine.export import export_model
from onepass.server.archive import pack, unpack
from onepass.server.exchange import Elsewhere
from onepass.server.folder import revision_of
from onepass.server.loading import Loading


def test_a_task_with_which_8_bits_were_not_tried_is_for_torch_to_prove(served: Path, tmp_path: Path, monkeypatch):
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    texts = tmp_path / "texts.jsonl"
    rows = [{"text": text, "first": text, "second": text} for text in ("a", "goal")]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(gate, "MOST_CHANGED", 100.0)
    assert export_model(folder, int8=True, texts=texts)["precision"] == "int8"
    archived = tmp_path / "archived"
    unpack(pack(folder, "topic"), archived, 10_000_000)
    job = {"change": "install", "name": "subject", "archived": str(archived)}
    loaded, proof = Loading(folder, {}, None, False, 0).run(job)  # the same weights: they were tried
    assert loaded.loaded.precision == "int8" and "proof" in proof
    weights = load_file(archived / "weights.safetensors")
    save_file({name: array + 0.1 for name, array in weights.items()}, archived / "weights.safetensors")
    before = revision_of(folder)
    with pytest.raises(Elsewhere, match="8 bits"):
        Loading(folder, {}, None, False, 0).run(job | {"name": "other"})
    assert revision_of(folder) == before
