"""Training in two processes on the CPU."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import onepass

FAST = ["head_rate=0.005", "token_rate=0.005", "encoder_rate=0.005", "average=0", "warmup=0", "clip=0"]


# The second process comes when the first has begun to train the teacher.
LATE = """
import os, sys, time
from onepass.training import run
forget = run.forget_teachers
def forget_late(output):
    time.sleep(3 * int(os.environ["RANK"]))
    forget(output)
run.forget_teachers = forget_late
run.train(sys.argv[1], sys.argv[2], overrides=["teachers=1", "device=cpu"], progress=False)
"""


def in_two_processes(*arguments: str) -> str:
    """Runs a script or a module in two processes; what they said on stderr."""
    environment = os.environ | {"PYTHONPATH": str(Path(onepass.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}", *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


@pytest.mark.slow
def test_a_late_process_does_not_remove_the_teachers_that_another_began(news: Path, tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    in_two_processes(str(tmp_path / "late.py"), str(news), str(tmp_path / "model"))
    assert onepass.load(tmp_path / "model").names == ["topic", "tone", "same"]


@pytest.mark.slow
def test_two_processes_train_one_working_model(news: Path, tmp_path: Path) -> None:
    options = [*FAST, "epochs=10", "batch_size=4", "sampler=proportional", "device=cpu"]
    said = in_two_processes("-m", "onepass", "train", str(news), "-o", str(tmp_path / "model"), *options)
    assert said.count("The model is in") == 1  # one of the two speaks
    model = onepass.load(tmp_path / "model")
    answers = model.predict(["late goal wins", "senate vote"], tasks=["topic"])
    assert [answer["topic"].label for answer in answers] == ["sport", "politics"]
    used = json.loads((tmp_path / "model" / "config.json").read_text())["training"]["rows_used"]
    assert used["share"] == 1.0
    # 68 rows in batches of 4 are 17 steps, of which the last has no partner and is cut in halves.
    assert used["updates"] == 10 * 68


@pytest.mark.slow
def test_two_processes_train_a_soup(news: Path, tmp_path: Path) -> None:
    options = [*FAST, "epochs=10", "batch_size=4", "sampler=proportional", "device=cpu", "soup=2"]
    said = in_two_processes("-m", "onepass", "train", str(news), "-o", str(tmp_path / "out" / "model"), *options)
    assert said.count("The model is in") == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]
    answers = onepass.load(tmp_path / "out" / "model").predict(["late goal wins", "senate vote"], tasks=["topic"])
    assert [answer["topic"].label for answer in answers] == ["sport", "politics"]
    record = json.loads((tmp_path / "out" / "model" / "config.json").read_text())["training"]
    assert record["rows_used"]["share"] == 1.0 and record["rows_used"]["updates"] == 2 * 10 * 68


@pytest.mark.slow
def test_two_processes_go_on_when_one_has_nothing_but_finished_tasks(news: Path, tmp_path: Path) -> None:
    options = ["method=frozen", "freeze_done=1", "batches=task", "epochs=12", "head_rate=0.01", "device=cpu"]
    said = in_two_processes("-m", "onepass", "train", str(news), "-o", str(tmp_path / "model"), *options)
    assert said.count("no longer better, own weights fixed") > 1  # some tasks were finished before others
    assert onepass.load(tmp_path / "model").names == ["topic", "tone", "same"]
