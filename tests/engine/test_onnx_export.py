"""A model as an ONNX file: what ONNX Runtime makes of it is what the model says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from typer.testing import CliRunner

from onepass.cli.app import app
from onepass.encoder.batch import Batch
from onepass.engine import onnx_export
from onepass.engine.onnx_export import export_onnx
from onepass.errors import ConfigError, FolderError
from onepass.folder import load_model
from onepass.tasks import Task

MakeFolder = Callable[..., Path]
TEXTS = [("the late goal wins",), ("why",), ("is it good ?", "it is bad ."), ("senate vote " * 12,)]
TAGS = Task(name="tags", kind="tagging", text="text", label="tags", labels=["O", "B-team"])


def session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def arrays(model: Any, padding: int = 0) -> dict[str, np.ndarray]:
    """`TEXTS` as other programs would give them, with so many places of padding more than are needed."""
    pieces = model.tokenizer.encode(TEXTS)
    found = np.zeros((3, len(pieces), max(len(one.ids) for one in pieces) + padding), np.int64)
    for row, one in enumerate(pieces):
        found[:, row, : len(one.ids)] = one.ids, [1] * len(one.ids), one.types
    return dict(zip(("input_ids", "attention_mask", "token_type_ids"), found, strict=True))


def answers(path: Path, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    asked = session(path)
    names = [node.name for node in asked.get_outputs()]
    found = asked.run(names, {node.name: given[node.name] for node in asked.get_inputs()})
    return dict(zip(names, found, strict=True))


def assert_alike(folder: Path, path: Path) -> None:
    """The file's logits are those of the model in torch, however far texts are padded and with whom they are asked."""
    model = load_model(folder)
    batch = Batch.of([(one.ids, one.types) for one in model.tokenizer.encode(TEXTS)])
    with torch.inference_mode():
        wanted = dict(zip(model.names, model.logits(batch, list(range(len(model.tasks)))), strict=True))
    given = arrays(model)
    alone = {name: array[1:2, :3] for name, array in given.items()}  # [CLS] why [SEP]
    for name, logits in answers(path, given).items():
        np.testing.assert_allclose(logits, wanted[name], atol=1e-4)
        np.testing.assert_allclose(answers(path, arrays(model, padding=1))[name], logits, atol=1e-5)
        np.testing.assert_allclose(answers(path, alone)[name], logits[1:2], atol=1e-5)


@pytest.mark.parametrize("method", ["readers", "mtdnn"])
def test_every_family_has_a_file_that_answers_as_the_model_does(
    make_folder: MakeFolder, family: str, method: str, tmp_path: Path
):
    folder = make_folder(family, method)
    found = export_onnx(folder, tmp_path / "news.onnx")
    assert found["difference"] < 1e-4 and found["tasks"] == 6
    assert_alike(folder, tmp_path / "news.onnx")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("readers", {"depth": 3, "tokens": 1}),
        ("readers", {"depth": 1, "readout": "attention", "pooler": "low_rank", "rank": 4}),
        ("readers", {"tokens": 3, "pooler": "none"}),
        ("mtdnn", {"pooler": "task"}),
        ("frozen", {"readout": "mean"}),
    ],
)
def test_every_form_of_a_method_has_one(make_folder: MakeFolder, tmp_path: Path, method: str, options: dict[str, Any]):
    folder = make_folder(method=method, **options)
    export_onnx(folder, tmp_path / "news.onnx")
    assert_alike(folder, tmp_path / "news.onnx")


def test_the_file_says_what_its_inputs_and_outputs_are(folder: Path, tmp_path: Path):
    export_onnx(folder, tmp_path / "news.onnx")
    onnx.checker.check_model(str(tmp_path / "news.onnx"), full_check=True)
    made = session(tmp_path / "news.onnx")
    assert [node.name for node in made.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]
    assert {node.name: node.shape for node in made.get_outputs()}["mood"] == ["texts", 3]
    said = json.loads(made.get_modelmeta().custom_metadata_map["onepass"])
    assert said["max_length"] == 38
    assert said["tasks"]["topic"]["labels"] == ["a", "b", "c"]
    assert said["tasks"]["price"]["fitted"] == {"mean": 5.0, "spread": 2.0}


def test_an_encoder_without_types_asks_for_none(make_folder: MakeFolder, tmp_path: Path):
    export_onnx(make_folder("distilbert"), tmp_path / "news.onnx")
    assert [node.name for node in session(tmp_path / "news.onnx").get_inputs()] == ["input_ids", "attention_mask"]


def test_weights_too_large_for_one_file_lie_beside_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_export, "LARGEST", 1000)
    found = export_onnx(folder, tmp_path / "news.onnx")
    assert found["files"] == [str(tmp_path / name) for name in ("news.onnx", "news.onnx.data")]
    assert_alike(folder, shutil.move(tmp_path, tmp_path.with_name("elsewhere")) / "news.onnx")


def test_tasks_that_read_tokens_are_left_out_and_named(make_folder: MakeFolder, tmp_path: Path, caplog: Any):
    topic = Task(name="topic", text="text", label="topic", labels=["a", "b", "c"])
    folder = make_folder(tasks=[topic, TAGS])
    found = export_onnx(folder, tmp_path / "news.onnx")
    assert found["left_out"] == ["tags"] and "tags" in caplog.text
    assert_alike(folder, tmp_path / "news.onnx")
    with pytest.raises(ConfigError, match="all its tasks read single tokens"):
        export_onnx(make_folder(tasks=[TAGS]), tmp_path / "other.onnx")


def test_a_file_that_answers_otherwise_is_not_written(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_export, "FAR", np.float32(0))  # padding would be read
    with pytest.raises(FolderError, match=r"The ONNX file was not written: .* 'topic' differs"):
        export_onnx(folder, tmp_path / "news.onnx")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_engine_and_the_file(make_folder: MakeFolder, tmp_path: Path):
    folder = make_folder(exported=False)
    result = CliRunner().invoke(app, ["export", str(folder), "--onnx", str(tmp_path / "news.onnx"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["onnx"]["files"] == [str(tmp_path / "news.onnx")]
    assert (folder / "engine" / "engine.json").is_file()


def test_a_file_that_cannot_be_written_is_told_before_the_engine_is_built(make_folder: MakeFolder, tmp_path: Path):
    folder = make_folder(exported=False)
    for place, told in ((tmp_path / "nowhere" / "news.onnx", "there is no folder"), (tmp_path, "is a folder")):
        result = CliRunner().invoke(app, ["export", str(folder), "--onnx", str(place)])
        assert result.exit_code == 2 and told in result.stderr
    assert not (folder / "engine").exists()
