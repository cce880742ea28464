"""A change that is killed leaves the old model or the new one, whenever that happens."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import onepass


@pytest.mark.parametrize(
    "command", ["add", "remove", *(pytest.param(name, marks=pytest.mark.slow) for name in ("update", "threshold"))]
)
def test_a_killed_change_leaves_the_old_or_the_new_model(
    command: str, folder: Path, tmp_path: Path, helpers: Any
) -> None:
    data = helpers.write_rows(tmp_path / "tone.csv", rows=8, labels=("no", "yes"))
    script = Path(__file__).with_name("kills.py")
    environment = os.environ | {"PYTHONPATH": str(Path(onepass.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, script, folder, data, command], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    kills, old, new = map(int, re.findall(r"\d+", done.stdout))
    assert kills > 40 and old > 25 and new > 1
