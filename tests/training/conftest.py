"""A trainer before its first step, and a training that is killed."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from accelerate.utils import set_seed

import onepass
from onepass.encoder.loading import load_encoder
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import read_task_file
from onepass.training.loop import Trainer
from onepass.training.options import train_options
from onepass.training.sets import read_sets

# Ends the process, without any farewell, right after the k-th checkpoint was written.
KILLED = """
import os, sys
from onepass.training import checkpoint, train
save, count = checkpoint.Checkpoints.save, [0]
def save_and_die(self, *rest):
    save(self, *rest)
    count[0] += 1
    if count[0] == int(sys.argv[3]):
        os._exit(9)
checkpoint.Checkpoints.save = save_and_die
train(sys.argv[1], sys.argv[2], overrides=sys.argv[4:], progress=False)
"""


@pytest.fixture
def make_trainer(news: Path) -> Callable[..., Trainer]:
    """Builds a trainer of the three tasks `topic`, `tone` and `same`, with a method and training options."""

    def make(method: str = "readers", *, method_options: dict[str, Any] | None = None, **options: Any) -> Trainer:
        file = read_task_file(news)
        chosen = train_options(file.train | options)
        set_seed(chosen.seed)
        encoder, tokenizer = load_encoder(file.encoder, max_length=chosen.max_length)
        sets = read_sets(file, tokenizer)
        model = Model(make_method(method, encoder, method_options), tokenizer, file.method, file.encoder)
        for item in sets:
            model.add(item.task, item.train)
        return Trainer(model, sets, chosen, progress=False)

    return make


@pytest.fixture
def kill_after() -> Callable[[int, Path, Path, Sequence[str]], None]:
    """Trains in a process of its own, which ends right after its k-th checkpoint was written."""

    def kill(checkpoints: int, news: Path, output: Path, options: Sequence[str]) -> None:
        environment = os.environ | {"PYTHONPATH": str(Path(onepass.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", KILLED, str(news), str(output), str(checkpoints), *options]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 9, ran.stderr
        assert not output.exists()

    return kill
