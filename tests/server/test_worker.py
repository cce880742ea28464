"""What a worker says of a task's thresholds, without a server around it."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onepass import living
from onepass.server.frames import frame, receive
from onepass.server.worker import Served


@pytest.fixture
def strict(served: Path, tmp_path: Path) -> Path:
    """The model with a threshold that no answer of `topic` reaches."""
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    living.change_thresholds(folder, ["topic"], {"target_precision": 0.9})  # two validation rows cannot show that
    return folder


def test_a_withheld_answer_is_said_with_its_reason_and_version(strict: Path) -> None:
    (found,) = Served(strict).answer([{"text": "late goal", "tasks": ["topic", "tone"]}])
    assert isinstance(found, dict)
    topic: dict[str, Any] = found["tasks"]["topic"]
    assert topic["label"] is None and topic["abstained"] and topic["version"] == 2
    assert "is never given: a precision of 0.9 is not reached" in topic["reason"]
    assert topic["score"] == max(topic["scores"].values())
    assert found["tasks"]["tone"]["abstained"] is False and found["tasks"]["tone"]["version"] == 1


def test_a_label_that_is_never_given_has_no_threshold_in_the_list_of_tasks(strict: Path) -> None:
    assert Served(strict).tasks["topic"]["thresholds"] == {"politics": None, "sport": None}


def test_answers_leave_in_the_order_of_their_batches(served: Path) -> None:
    """Also where a large one is still being encoded when a small one behind it is done."""
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    command = [sys.executable, "-m", "onepass.server.start_worker", str(theirs.fileno()), str(served)]
    options = json.dumps({"abstain_below": 0.0, "threads": 1, "device": "cpu"})
    with subprocess.Popen([*command, options], pass_fds=[theirs.fileno()]) as worker:
        theirs.close()
        try:
            ours.sendall(frame({"op": "load", "gently": False}))
            many = [{"text": f"goal {number}", "tasks": None} for number in range(2000)]
            while receive(ours)[0]["op"] != "ready":
                pass
            for round_ in range(3):
                batches = [frame({"op": "batch", "id": 2 * round_, "items": many})]
                batches.append(frame({"op": "batch", "id": 2 * round_ + 1, "items": many[:1]}))
                ours.sendall(b"".join(batches))
                found: list[int] = []
                while len(found) < 2:
                    head, _ = receive(ours)
                    found += [head["id"]] if head["op"] == "done" else []
                assert found == [2 * round_, 2 * round_ + 1]
        finally:
            worker.kill()
