"""What training costs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onepass.bench.training import cost_per_row
from onepass.errors import ConfigError
from onepass.methods import Method, make_method

CODE = "from onepass.bench.training import most_held_mb; print(most_held_mb())"


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_the_memory_of_a_process_is_not_that_of_the_one_that_started_it() -> None:
    held = bytearray(b"x" * 300_000_000)
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert 1 < float(ran.stdout) < len(held) / 2**20


def test_a_step_is_that_of_the_method_a_training_would_choose(encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depths = []

    def note(name: str, encoder: Any, options: dict[str, Any]) -> Method:
        depths.append(options.get("depth"))
        return make_method(name, encoder, options)

    monkeypatch.setattr("onepass.methods.make_method", note)
    with pytest.raises(ConfigError, match="Unknown option 'depht'"):
        cost_per_row("readers:depht=1", [2], str(encoder))
    with pytest.raises(ConfigError, match="Unknown method 'reader'"):
        cost_per_row("reader:depth=1", [2], str(encoder))
    assert depths == []
    cost_per_row("readers:depth=auto,tokens=1", [2, 60], str(encoder), steps=1)
    assert depths == [2, 1]
