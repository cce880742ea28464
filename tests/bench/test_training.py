"""What training costs."""

import subprocess
import sys

import pytest

CODE = "from onepass.bench.training import most_held_mb; print(most_held_mb())"


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_the_memory_of_a_process_is_not_that_of_the_one_that_started_it() -> None:
    held = bytearray(b"x" * 300_000_000)
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert 1 < float(ran.stdout) < len(held) / 2**20
