"""Opening a model folder while its files are checked."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onepass.engine.engine import Engine
from onepass.engine.opening import Opening
from onepass.errors import FolderError


def test_the_graph_is_compiled_before_what_reads_tasks_is_imported():
    code = (
        "import sys, onepass.engine.opening\n"
        "late = {'pydantic', 'yaml', 'torch', 'onepass.tasks', 'onepass.heads', 'tokenizers'}\n"
        "sys.exit(', '.join(sorted(late & set(sys.modules))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stderr.strip() == ""


def test_an_opening_becomes_an_engine(folder: Path):
    engine, plain = Engine(Opening(folder, 1)), Engine(folder, 1)
    assert engine.predict("the late goal wins") == plain.predict("the late goal wins")
    assert engine.recipe == plain.recipe


def test_a_changed_file_is_said_before_what_came_of_it(folder: Path, tmp_path: Path):
    damaged = Path(shutil.copytree(folder, tmp_path / "damaged"))
    weights = damaged / "encoder.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(FolderError, match=r"encoder\.safetensors was changed"):
        Engine(Opening(damaged))
