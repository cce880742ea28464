"""Building an engine."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from onepass.contents import model_files
from onepass.engine import export
from onepass.engine.export import export_model
from onepass.errors import ConfigError, FolderError
from onepass.folder import load_model

MakeFolder = Callable[..., Path]


def test_an_export_is_listed_in_the_manifest_and_can_be_repeated(make_folder: MakeFolder):
    folder = make_folder(exported=False)
    found = export_model(folder)
    assert found["difference"] < 1e-4
    assert "engine/engine.json" in model_files(folder)
    first = (folder / "engine" / "engine.json").read_bytes()
    export_model(folder)
    assert (folder / "engine" / "engine.json").read_bytes() == first
    assert json.loads(first)["method"] == {"runner": "readers", "depth": 2, "readout": "layer"}


def test_a_method_without_an_engine_is_refused_with_those_that_have_one(make_folder: MakeFolder):
    folder = make_folder(method="ptuning", exported=False)
    with pytest.raises(ConfigError, match=r"no engine for method 'ptuning'; there is one for .*readers.*mtdnn"):
        export_model(folder)
    assert not (folder / "engine").exists()


def with_large_heads(folder: Path) -> Path:
    """The heads of such as are fitted to texts that the encoder hardly tells apart, or to large numbers."""
    model = load_model(folder)
    with torch.no_grad():
        for head in model.heads:
            head.weight.mul_(3000)
    model.save(folder, overwrite=True)
    return folder


def test_rounding_before_a_head_of_large_weights_is_no_difference(make_folder: MakeFolder):
    found = export_model(with_large_heads(make_folder(exported=False)))
    assert 1e-4 < found["difference"] < 1e-1


@pytest.mark.parametrize("large", [False, True])
def test_an_engine_that_answers_otherwise_is_not_written(
    make_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch, large: bool
):
    folder = make_folder(exported=False)
    if large:
        with_large_heads(folder)
    recipe = export.method_recipe
    monkeypatch.setattr(export, "method_recipe", lambda model: recipe(model) | {"depth": 1})
    with pytest.raises(FolderError, match="The engine was not written: a logit of it for task 'topic' differs"):
        export_model(folder)
    assert not (folder / "engine").exists()


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path):
    with pytest.raises(FolderError, match="no model folder"):
        export_model(tmp_path)
