"""Memory that a training has freed."""

import subprocess
import sys
from pathlib import Path

import pytest

import onepass
from onepass.training import loop, memory

# What is freed lies between what is kept, so that no end of the heap can be cut off.
CODE = """
import resource
from pathlib import Path
from onepass.training.memory import give_back

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

kept = []
for number in range(2000):
    kept.append((bytearray(100_000), bytearray(1_000)))
kept = [small for _, small in kept]
before = held()
give_back()
print(before - held())
"""


@pytest.mark.skipif(memory._trim() is None, reason="glibc only")
def test_freed_memory_goes_back_to_the_system():
    ran = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert float(ran.stdout) > 100  # of 200 MB


def test_a_training_on_a_cpu_gives_memory_back_every_few_steps(news: Path, monkeypatch: pytest.MonkeyPatch):
    steps: list[int] = []
    given: list[int] = []
    step = loop.Trainer.step
    monkeypatch.setattr(loop.Trainer, "step", lambda *own: steps.append(1) or step(*own))
    monkeypatch.setattr(loop, "give_back", lambda: given.append(len(steps)))
    onepass.train(news, overrides=["train.epochs=6", "train.device=cpu"], progress=False)
    assert given == list(range(memory.EVERY, len(steps) + 1, memory.EVERY)) != []
