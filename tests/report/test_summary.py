"""What a model folder says about itself."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import onepass
from onepass import living
from onepass.cli.app import app
from onepass.engine import gate
from onepass.engine.export import export_model
from onepass.report.summary import engine_of
from onepass.tasks import Task
from onepass.training.adding import AddOptions


@pytest.fixture
def small(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose engine computes in 8 bits, whatever that changes."""
    folder, texts = Path(shutil.copytree(model, tmp_path / "model")), tmp_path / "texts.jsonl"
    rows = [{"text": text, "first": text, "second": text} for text in ("late goal", "the senate vote")]
    texts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(gate, "MOST_CHANGED", 100.0)
    assert export_model(folder, int8=True, texts=texts)["precision"] == "int8"
    return folder


def test_an_engine_computes_in_what_is_said_of_it(small: Path, tmp_path: Path) -> None:
    found = engine_of(small)
    assert found["precision"] == onepass.load(small, engine=True, threads=1).precision == "int8"
    assert found["untried"] == [] and found["gate"] == json.loads((small / "engine" / "gate.json").read_text())

    data = tmp_path / "mood.csv"
    data.write_text("text,mood\n" + "good match,glad\nbad vote,sad\n" * 12)
    task = Task(name="mood", train=data, text="text", label="mood", labels=["glad", "sad"])
    living.add_tasks(small, [task], AddOptions(epochs=1), progress=False)
    found = engine_of(small)
    assert found["precision"] == onepass.load(small, engine=True, threads=1).precision == "fp32"
    assert found["untried"] == ["mood"] and found["gate"]["precision"] == "int8"
    told = " ".join(CliRunner().invoke(app, ["info", str(small)]).stdout.split())
    assert "engine fp32 for now, though exported in int8: not tried in it: mood. Export again." in told

    living.remove_task(small, "mood")
    living.rename_task(small, "tone", "manner")
    found = engine_of(small)
    assert found["precision"] == onepass.load(small, engine=True, threads=1).precision == "int8"
    assert found["untried"] == []


def test_who_changes_a_threshold_is_told_that_8_bits_have_to_be_tried_again(small: Path) -> None:
    told = CliRunner().invoke(app, ["threshold", str(small), "topic", "--at", "0.9"])
    assert told.exit_code == 0 and "onepass export" in told.stderr and engine_of(small)["untried"] == ["topic"]
    told = CliRunner().invoke(app, ["threshold", str(small), "topic", "--none"])
    assert told.exit_code == 0 and "onepass export" not in told.stderr and engine_of(small)["untried"] == []


def test_a_model_without_an_engine_or_without_8_bits_is_told_as_it_is(model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    assert engine_of(folder) == {}
    export_model(folder)
    assert engine_of(folder) == {"precision": "fp32", "untried": [], "gate": {}}


def test_neither_torch_nor_the_engine_is_imported_for_it(small: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from onepass.report.summary import summary\n"
        "summary(Path(sys.argv[1]))\n"
        "print(*sorted({'torch', 'numpy', 'openvino'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code, str(small)], capture_output=True, text=True, check=False)
    assert found.returncode == 0 and found.stdout.strip() == ""
