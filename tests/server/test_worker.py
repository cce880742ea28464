"""A worker without a server around it."""

import fcntl
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onepass import living
from onepass.atomic import read_json, write_json, write_manifest
from onepass.errors import OnepassError
from onepass.prediction import Labelled, Prediction, Span
from onepass.server.archive import pack, unpack
from onepass.server.folder import revision_of
from onepass.server.frames import frame, receive
from onepass.server.served import Served
from onepass.server.versions import keep


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


class Process:
    """A worker's process, and our end of its socket."""

    def __init__(self, folder: Path, number: int = 0):
        """Its end of the socket is the first free file from this number on."""
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(60)
        with theirs:
            file = fcntl.fcntl(theirs, fcntl.F_DUPFD, number)
        command = [sys.executable, "-m", "onepass.server.start_worker", str(file), str(folder)]
        options = json.dumps({"abstain_below": 0.0, "threads": 1, "device": "cpu"})
        self.process = subprocess.Popen([*command, options], pass_fds=[file])
        os.close(file)

    def hear(self) -> tuple[dict[str, Any], bytes]:
        """What it says next, other than that it is alive."""
        while (found := receive(self.ours))[0]["op"] == "beat":
            pass
        return found

    def load(self, gently: bool = False, **facts: Any) -> dict[str, Any]:
        self.ours.sendall(frame({"op": "load", "gently": gently, **facts}))
        return self.hear()[0]

    def tasks(self) -> set[str]:
        """Those that it answers."""
        self.ours.sendall(frame({"op": "batch", "id": 0, "items": [{"text": "late goal", "tasks": None}]}))
        return set(json.loads(self.hear()[1])["tasks"])


@pytest.fixture
def start_worker() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def begin(folder: Path, number: int = 0) -> Process:
        started.append(Process(folder, number))
        return started[-1]

    yield begin
    for worker in started:
        worker.process.kill()
        worker.process.wait()
        worker.ours.close()


def test_a_worker_takes_the_next_version_from_what_it_has_and_keeps_that_if_it_is_refused(
    served: Path, tmp_path: Path, start_worker: Callable[..., Process]
) -> None:
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    worker = start_worker(folder)
    first = worker.load()
    assert first["op"] == "ready" and first["reopens"]
    every = worker.tasks()
    living.remove_task(folder, "tone")
    second = worker.load(gently=True)
    assert second["op"] == "ready" and second["revision"] != first["revision"]
    assert worker.tasks() == every - {"tone"}
    shutil.rmtree(folder / "tasks" / "topic")
    refused = worker.load(gently=True)
    assert refused["op"] == "refused" and "topic" in refused["message"]
    assert worker.tasks() == every - {"tone"}
    shutil.rmtree(folder)
    shutil.copytree(served, folder)
    assert worker.load()["revision"] == first["revision"]
    assert worker.tasks() == every


@pytest.mark.parametrize("gently", [False, True])
def test_a_worker_changes_the_folder_itself_and_leaves_it_alone_if_it_could_not_serve_it(
    served: Path, tmp_path: Path, start_worker: Callable[..., Process], gently: bool
) -> None:
    folder, archived = Path(shutil.copytree(served, tmp_path / "model")), tmp_path / "archived"
    unpack(pack(folder, "topic"), archived, 10_000_000)
    worker = start_worker(folder)
    worker.load()
    every = worker.tasks()
    kept = keep(folder)
    install = {"change": "install", "name": "subject", "archived": str(archived)}
    told = worker.load(gently, change=install, niceness=19)
    assert told["op"] == "ready" and "largest change" in told["proof"]
    assert told["revision"] == revision_of(folder) and worker.tasks() == every | {"subject"}
    told = worker.load(gently, change={"change": "rollback", "name": None, "revision": kept})
    assert told["revision"] == kept == revision_of(folder) and worker.tasks() == every
    # A task that cannot be loaded: its labels are not those of its weights.
    known = read_json(archived / "task.json")
    write_json(archived / "task.json", {**known, "labels": [*known["labels"], "another"]})
    told = worker.load(gently, change=install)
    assert told["op"] == "refused" and told["elsewhere"]
    write_json(archived / "task.json", [])
    told = worker.load(gently, change=install)
    assert told["op"] == "refused" and not told["elsewhere"]
    assert revision_of(folder) == kept and worker.tasks() == every


def test_a_worker_that_is_started_beside_a_thousand_connections_answers(
    served: Path, start_worker: Callable[..., Process]
) -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, files[1]), files[1]))
    try:
        worker = start_worker(served, number=1100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    assert worker.load()["op"] == "ready"
    assert "topic" in worker.tasks()


def test_answers_leave_in_the_order_of_their_batches(served: Path, start_worker: Callable[..., Process]) -> None:
    """Also where a large one is still being encoded when a small one behind it is done."""
    worker = start_worker(served)
    worker.load()
    many = [{"text": f"goal {number}", "tasks": None} for number in range(2000)]
    for round_ in range(3):
        batches = [frame({"op": "batch", "id": 2 * round_, "items": many})]
        batches.append(frame({"op": "batch", "id": 2 * round_ + 1, "items": many[:1]}))
        worker.ours.sendall(b"".join(batches))
        assert [worker.hear()[0]["id"] for _ in range(2)] == [2 * round_, 2 * round_ + 1]


def test_a_row_that_lacks_the_text_of_a_named_task_costs_its_neighbours_nothing(served: Path) -> None:
    row = {"text": "late goal", "first": "late goal", "second": None}
    model = Served(served)
    alone = [model.answer([{"text": dict(row), "tasks": names}])[0] for names in (["same"], None)]
    assert alone[0] == "cannot_answer" and isinstance(alone[1], dict)
    assert model.answer([{"text": dict(row), "tasks": names} for names in (["same"], None)]) == alone


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_version_whose_answers_are_no_numbers_is_not_taken_over(served: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    path = folder / "tasks" / "tone" / "task.json"
    known = read_json(path)
    path.unlink()
    write_json(path, known | {"fitted": known["fitted"] | {"spread": 1e308}})
    write_manifest(folder)
    spoilt = Served(folder)
    assert spoilt.answer([{"text": "late goal", "tasks": ["tone"]}]) == ["not_finite"]
    assert isinstance(spoilt.answer([{"text": "late goal", "tasks": ["topic"]}])[0], dict)
    with pytest.raises(OnepassError, match=r"cannot answer a first text \(not_finite\)\. It was not taken over"):
        spoilt.warm_up()


SPAN = Span("x", 0, 4, "late", float("nan"))


@pytest.mark.parametrize(
    "answer",
    [
        Prediction(float("inf")),
        Prediction("a", float("nan")),
        Prediction("a", 0.5, {"a": 0.5, "b": float("nan")}),
        Prediction([["late", "x"]], None, spans=(SPAN,)),
        Prediction("late", 0.5, spans=(SPAN,)),
    ],
)
def test_every_number_of_an_answer_is_one_and_pairs_are_tried_before_they_are_served(
    served: Path, answer: Prediction
) -> None:
    model = Served(served)
    whole = model.model.label

    def spoilt(texts: list[Any], tasks: list[str] | None = None) -> list[Labelled]:
        found = whole(texts, tasks)
        return [replace(one, tasks={**one.tasks, "same": answer}) if "same" in one.tasks else one for one in found]

    model.warm_up()
    model.model = type("Spoilt", (), {"label": staticmethod(spoilt)})
    assert model.answer([{"text": ["late", "goal"], "tasks": None}]) == ["not_finite"]
    with pytest.raises(OnepassError, match="not_finite"):
        model.warm_up()


def test_a_folder_that_somebody_laid_among_the_tasks_is_none(served: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    laid = Path(shutil.copytree(folder / "tasks" / "topic", folder / "tasks" / "copy"))
    write_json(laid / "task.json", read_json(laid / "task.json") | {"name": "copy"})
    assert list(Served(folder).tasks) == list(Served(served).tasks)
