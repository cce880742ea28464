"""What a worker says of a task's thresholds, without a server around it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from onepass import living
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
