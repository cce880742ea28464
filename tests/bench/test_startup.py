"""From the start of a process to its first label."""

import shutil
from importlib.util import find_spec

from onepass.bench import startup as module
from onepass.engine.export import export_model


def test_without_torch_the_engine_is_measured_alone(model, tmp_path, monkeypatch):
    folder = shutil.copytree(model, tmp_path / "model")
    export_model(folder)
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "torch" else find_spec(name))
    found = module.startup(folder, runs=1)
    assert [row["what"] for row in found["rows"]] == ["python, engine", "onepass predict, engine"]
