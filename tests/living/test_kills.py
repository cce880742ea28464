"""A change that is killed leaves the old model or the new one, whenever that happens."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onepass

COMMANDS = ["add", "remove", *(pytest.param(name, marks=pytest.mark.slow) for name in ("update", "threshold"))]


@pytest.fixture
def killed(folder: Path, tmp_path: Path, helpers: Any) -> Callable[..., tuple[int, int, int]]:
    """Kills a change again and again; returns how many kills there were, and how many left the old and the new."""

    def run(*arguments: str) -> tuple[int, int, int]:
        data = helpers.write_rows(tmp_path / "tone.csv", rows=8, labels=("no", "yes"))
        script = Path(__file__).with_name("kills.py")
        environment = os.environ | {"PYTHONPATH": str(Path(onepass.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, script, folder, data, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        kills, old, new = map(int, re.findall(r"\d+", done.stdout))
        return kills, old, new

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_killed_at_any_write_a_change_leaves_the_old_or_the_new_model(command: str, killed: Any) -> None:
    kills, old, new = killed(command)
    assert kills > 40 and old > 25 and new > 1


@pytest.mark.slow
@pytest.mark.parametrize("command", ["add", "update", "remove", "threshold"])
def test_killed_a_hundred_times_at_any_moment_a_change_leaves_the_old_or_the_new_model(
    command: str, killed: Any
) -> None:
    kills, old, new = killed(command, "100")
    assert kills == 100 and old + new == 100 and old > 10
