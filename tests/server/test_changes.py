"""Tasks taught, installed, removed and taken back on a live server, while somebody keeps asking."""

import errno
import io
import itertools
import json
import os
import re
import shutil
import signal
import tempfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import onepass
from onepass import living
from onepass.atomic import MANIFEST, verify, write_manifest
from onepass.server.admin import csv_rows
from onepass.server.changes import scratch
from onepass.server.replies import Refused

ROWS = [{"text": f"good match {n}", "label": "glad"} for n in range(12)]
ROWS += [{"text": f"bad vote {n}", "label": "sad"} for n in range(12)]
JSON = {"Content-Type": "application/json"}


class Asking:
    """Asks without a pause in the background, and keeps what was answered."""

    def __init__(self, server: Any):
        self.server, self.answers, self.over = server, [], threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.over.is_set():
            self.answers.append(self.server.predict(["late goal", "senate vote", "why ?"]))

    def __enter__(self) -> "Asking":
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.over.set()
        self.thread.join()


def task_names(server: Any) -> set[str]:
    return {task["name"] for task in server.get("/tasks")[1]["tasks"]}


def put(server: Any, path: str, body: bytes, kind: str) -> tuple[int, Any]:
    status, answer, _ = server.request("PUT", path, body, {"Content-Type": kind})
    return status, json.loads(answer)


def versions(answers: list[Any]) -> int:
    """Of how many versions they are; each is whole: all its texts were asked the same tasks, those of its version."""
    asked: dict[str, set[frozenset[str]]] = {}
    for _, answer in answers:
        for result in answer["results"]:
            asked.setdefault(answer["revision"], set()).add(frozenset(result["tasks"]))
    assert all(len(sets) == 1 for sets in asked.values())
    return len(asked)


def test_a_task_is_taught_and_taken_back_under_load(live: Any) -> None:
    first, names = live.get("/info")[1]["revision"], task_names(live)
    with Asking(live) as asking:
        body = json.dumps({"rows": ROWS, "options": {"epochs": 3}}).encode()
        status, job = put(live, "/tasks/mood", body, "application/json")
        assert status == 202
        live.until(lambda: live.get(f"/jobs/{job['number']}")[1]["state"] in ("done", "failed"))
        told = live.get(f"/jobs/{job['number']}")[1]
        assert told["state"] == "done" and told["progress"] == 1.0, told
        assert "largest change of their logits" in told["message"]
        answer = live.predict("good match", ["mood"])[1]
        assert answer["results"][0]["tasks"]["mood"]["label"] in ("glad", "sad")
        assert answer["revision"] == told["revision"] != first

        assert live.request("GET", "/tasks/mood/archive")[0] == 200
        status, told = live.post("/rollback", {"revision": first})
        assert status == 200 and told["revision"] == first
    assert task_names(live) == names
    assert {status for status, _ in asking.answers} == {200}
    assert versions(asking.answers) == 2


def test_a_damaged_or_broken_candidate_is_refused_while_the_old_one_serves(live: Any) -> None:
    from safetensors.numpy import load_file, save_file

    revision = live.get("/info")[1]["revision"]
    weights = live.folder / "tasks" / "topic" / "weights.safetensors"
    good = weights.read_bytes()
    manifest = (live.folder / "MANIFEST.json").read_bytes()
    try:
        tensors = load_file(weights)
        name = next(iter(tensors))
        tensors[name][...] = float("nan")
        weights.unlink()
        save_file(tensors, weights)
        write_manifest(live.folder)
        status, told = live.post("/reload", {})
        assert status == 409 and "not finite" in told["error"]["message"]
        assert live.predict("goal")[1]["revision"] == revision
        assert live.get("/readyz")[0] == 200
    finally:
        weights.unlink()
        weights.write_bytes(good)
        (live.folder / "MANIFEST.json").write_bytes(manifest)
    assert live.post("/reload", {})[0] == 200


@pytest.mark.parametrize("whole", [False, True], ids=["damaged", "not finite"])
def test_a_folder_that_cannot_serve_is_not_taken_for_a_version_that_served(
    live: Any, tmp_path: Path, whole: bool
) -> None:
    from safetensors.numpy import load_file, save_file

    first = live.get("/info")[1]["revision"]
    archive = live.request("GET", "/tasks/topic/archive")[1]
    assert put(live, "/tasks/subject", archive, "application/zip")[0] == 200
    second = live.get("/info")[1]["revision"]
    live.until(lambda: live.get("/versions")[1]["kept"][-1] == second)  # which it may have been before, too
    known = live.get("/versions")[1]["kept"]
    good, spoilt = tmp_path / "good", Path(shutil.copytree(live.folder, tmp_path / "spoilt"))
    weights = spoilt / "tasks" / "topic" / "weights.safetensors"
    tensors = {name: array * float("nan") for name, array in load_file(weights).items()}
    living.remove_task(spoilt, "tone")
    weights.unlink()
    save_file(tensors, weights)
    if whole:
        write_manifest(spoilt)
    live.folder.rename(good)
    spoilt.rename(live.folder)
    try:
        assert live.request("DELETE", "/tasks/same")[0] == 409
        assert live.request("GET", "/tasks/topic/archive")[0] == (200 if whole else 409)
    finally:
        live.folder.rename(spoilt)
        good.rename(live.folder)
    assert live.get("/versions")[1]["kept"] == known
    status, told = live.post("/rollback", {})
    assert (status, told.get("revision")) == (200, first), told
    assert "subject" not in task_names(live)


def test_a_csv_is_read_as_by_the_commands(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes('\ufeffreview;tone\r\n"good; \nmatch";glad\r\nbad vote;\r\n'.encode())
    rows = csv_rows(tmp_path / "rows.csv", {"text": "review", "label": "tone"})
    assert rows == [{"text": "good; \nmatch", "label": "glad"}, {"text": "bad vote", "label": None}]


def test_what_cannot_be_changed_is_refused_and_nothing_changes(live: Any) -> None:
    revision = live.get("/info")[1]["revision"]
    assert put(live, "/tasks/Bad%20Name", b"{}", "application/json")[0] == 422
    assert put(live, "/tasks/x", b"not an archive", "application/zip")[0] == 422
    for wait in ("", "yes", "2"):
        assert put(live, f"/tasks/x?wait={wait}", json.dumps({"rows": ROWS}).encode(), "application/json")[0] == 422
    assert put(live, "/tasks/x", b'{"rows": [{"text": 1, "label": 2}]}', "application/json")[0] == 422
    assert put(live, "/tasks/x", b"a,b\n1,2\n", "text/csv")[1]["error"]["message"].startswith("The csv has no column")
    for body, message in (
        (b"text,label\na,b,c\n", "read: rows.csv, row 1 (line 2): has 3 fields, the header has 2."),
        (b'text,label\n"a,b\n', "a quote is opened here and never closed."),
        (b"text,label\ncaf\xe9,b\n", "is not UTF-8"),
        (b"", "read: rows.csv is empty (0 bytes)."),
    ):
        status, told = put(live, "/tasks/x", body, "text/csv")
        assert status == 422 and message in told["error"]["message"], told
        assert tempfile.gettempdir() not in told["error"]["message"]
    assert live.request("DELETE", "/tasks/nothing")[0] == 404
    assert live.post("/rollback", {"revision": "../../etc"})[0] == 404
    assert live.get("/info")[1]["revision"] == revision


def test_no_room_for_what_was_sent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Refused, match="there is no space left on the disk") as told, scratch() as place:
        full()
    assert told.value.status == 507 and not place.exists()
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(Refused, match="there is no space left on the disk"), scratch():
        pass


def test_the_log_says_which_change_it_was_and_of_rows_nothing(live: Any) -> None:
    live.post("/rollback", {"revision": live.get("/info")[1]["revision"]})
    rows = {"rows": [{"text": "a secret", "label": "secret"}], "options": {"epochs": 1}}
    put(live, "/tasks/lone?wait=1", json.dumps(rows).encode(), "application/json")
    log = live.log.read_text()
    assert re.search(r"^warning: change \d+, rollback: failed after \S+ s: Revision \w+ is there already\.$", log, re.M)
    assert re.search(r"^warning: change (\d+), learn lone: failed after \S+ s: GET /jobs/\1 says why$", log, re.M)
    assert "secret" not in log


def test_a_server_that_is_about_to_end_begins_no_change(start: Any, served: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    server = start(folder, environment={"ONEPASS_ADMIN_KEY": "a key"}).wait()
    body = json.dumps({"rows": ROWS}).encode()
    head = f"PUT /tasks/mood HTTP/1.1\r\nHost: localhost\r\nX-API-Key: a key\r\nContent-Length: {len(body)}\r\n"
    with server.raw() as connection:
        connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body[:9])
        server.until(lambda: server.counter("onepass_coroutines") > 0)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: "Stopping" in server.log.read_text())
        connection.sendall(body[9:])
        assert connection.recv(10_000).startswith(b"HTTP/1.1 503")
    assert server.process.wait(30) == 0
    assert "warning" not in server.log.read_text() and "error" not in server.log.read_text()


def test_what_is_not_done_when_a_server_ends_is_said_and_leaves_no_rows(
    start: Any, served: Path, tmp_path: Path
) -> None:
    folder, place = Path(shutil.copytree(served, tmp_path / "model")), tmp_path / "scratch"
    place.mkdir()
    server = start(folder, {"ONEPASS_ADMIN_KEY": "a key", "TMPDIR": str(place)}, drain_s=0.2).wait()
    server.key = "a key"
    body = json.dumps({"rows": ROWS, "options": {"epochs": 10_000}}).encode()
    with ThreadPoolExecutor(2) as threads:
        put(server, "/tasks/first", body, "application/json")
        asked = threads.submit(put, server, "/tasks/second?wait=1", body, "application/json")
        server.until(lambda: server.get("/jobs/2")[0] == 200 and server.get("/jobs/1")[1]["state"] == "running")
        assert len(list(place.glob("onepass-*"))) == 2
        server.process.send_signal(signal.SIGTERM)
        status, told = asked.result()
    assert (status, told["error"]["code"]) == (503, "stopping")
    assert server.process.wait(30) == 0
    assert not list(place.glob("onepass-*"))
    log = server.log.read_text()
    assert log.count("failed after") == 2 and "Traceback" not in log and " 499 " not in log


def test_a_change_that_is_loaded_when_the_server_ends_is_taken_out_again(
    start: Any, served: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    server = start(folder, {"ONEPASS_ADMIN_KEY": "a key"}).wait()
    server.key, before = "a key", (folder / MANIFEST).read_bytes()
    put(server, "/tasks/mood", json.dumps({"rows": ROWS}).encode(), "application/json")
    server.until(lambda: server.get("/jobs/1")[1]["state"] == "loading")
    assert server.stop() == 0
    assert "change 1, learn mood: failed" in server.log.read_text()
    assert (folder / MANIFEST).read_bytes() == before and verify(folder)


def test_a_link_that_leads_elsewhere_later_keeps_its_name(start: Any, served: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(served, tmp_path / name)
    living.remove_task(tmp_path / "two", "tone")
    (tmp_path / "now").symlink_to("one")
    server = start(tmp_path / "now").wait()
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(tmp_path / "now")
    server.until(lambda: "tone" not in task_names(server))
    assert server.predict("goal")[1]["model"] == server.get("/info")[1]["name"] == "now"
    assert server.get("/v2/models/now")[0] == 200
    shutil.move(tmp_path / "two", tmp_path / "away")
    server.until(lambda: "no worker could be replaced" in server.log.read_text())
    assert server.predict("goal")[0] == 200


def test_a_task_is_installed_and_removed_under_load(live: Any) -> None:
    with Asking(live) as asking:
        archive = live.request("GET", "/tasks/topic/archive")[1]
        status, told = put(live, "/tasks/subject", archive, "application/zip")
        assert status == 200 and "largest change of the logits" in told["message"], told
        same = live.predict("good match", ["topic", "subject"])[1]["results"][0]["tasks"]
        assert same["topic"]["scores"] == pytest.approx(same["subject"]["scores"])
        assert live.request("DELETE", "/tasks/subject")[0] == 200
        assert live.predict("good match", ["subject"])[0] == 422
    assert {status for status, _ in asking.answers} == {200}


def test_an_archive_that_is_no_task_costs_no_worker(live: Any) -> None:
    given = live.request("GET", "/tasks/topic/archive")[1]
    whole = zipfile.ZipFile(io.BytesIO(given))
    assert put(live, "/tasks/subject", given, "application/zip")[0] == 200
    waiting = spare(live)  # one that served, and holds a model
    for spoilt in ({"scores": None}, {"rows": [1]}, {"version": float("inf")}, {"labels": ["\ud800", "sport"]}):
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name in whole.namelist():
                data = whole.read(name)
                archive.writestr(name, json.dumps(json.loads(data) | spoilt) if name == "task.json" else data)
        status, told = put(live, "/tasks/subject", made.getvalue(), "application/zip")
        assert status == 409 and "This is no task that the model can take" in told["error"]["message"], told
    assert spare(live).pid == waiting.pid
    assert live.request("DELETE", "/tasks/subject")[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_all_of_several_workers_have_every_new_version(start: Any, served: Path, tmp_path: Path, workers: int) -> None:
    folder = shutil.copytree(served, tmp_path / "model")
    keys = {"ONEPASS_ADMIN_KEY": "k", "ONEPASS_SERVER_FAULTS": "1"}
    server = start(folder, workers=workers, spare=True, change_nice=0, environment=keys)
    server.key = "k"
    server.wait()
    server.until(lambda: len(server.get("/info")[1]["workers"]) == workers)
    first = server.get("/info")[1]["revision"]
    archive = server.request("GET", "/tasks/topic/archive")[1]
    names = task_names(server)
    changes = [
        (lambda: put(server, "/tasks/subject", archive, "application/zip")[0], names | {"subject"}),
        (lambda: put(server, "/tasks/subject", archive, "application/zip")[0], names | {"subject"}),
        (lambda: server.request("DELETE", "/tasks/subject")[0], names),
        (lambda: server.request("DELETE", "/tasks/tone")[0], names - {"tone"}),
        (lambda: server.post("/rollback", {"revision": first})[0], names),
    ]
    with Asking(server) as asking, ThreadPoolExecutor(6) as threads:
        for change, wanted in changes:
            assert change() == 200
            server.until(lambda: len(server.get("/info")[1]["workers"]) == workers)
            revision = server.get("/info")[1]["revision"]
            # So many that take a while that every worker has one.
            for status, answer in threads.map(server.predict, ["fault:slow"] * 6):
                tasks = set(answer["results"][0]["tasks"])
                assert (status, answer["revision"], tasks) == (200, revision, wanted - {"same"})
    assert {status for status, _ in asking.answers} == {200}
    assert versions(asking.answers) >= 4
    assert server.counter("onepass_worker_restarts") == 0


def test_a_change_that_somebody_else_adds_to_while_it_is_loaded_is_taken_over_with_that(
    start: Any, served: Path, tmp_path: Path
) -> None:
    """One of two workers has made the change, the others read the folder only after somebody else changed it too."""
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    options = {"workers": 2, "spare": True, "change_nice": 0, "silent_s": 60.0}
    server = start(folder, {"ONEPASS_ADMIN_KEY": "a key"}, **options).wait()
    server.key = "a key"
    server.until(lambda: len(server.workers()) == 3 and len(server.get("/info")[1]["workers"]) == 2)
    archive, before = server.request("GET", "/tasks/topic/archive")[1], (folder / MANIFEST).read_bytes()
    serving = [worker for worker in server.workers() if worker.pid in server.get("/info")[1]["workers"]]
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(put, server, "/tasks/subject", archive, "application/zip")
        server.until(lambda: server.get("/jobs/1")[1].get("state") == "running")
        for worker in serving:
            worker.suspend()
        server.until(lambda: (folder / MANIFEST).read_bytes() != before)
        server.until(lambda: not (folder.parent / ".model.lock").exists())
        living.rename_task(folder, "tone", "mood")
        for worker in serving:
            worker.resume()
        assert found.result()[0] == 200
    server.until(lambda: task_names(server) == {"topic", "same", "mood", "subject"})


def test_a_change_goes_on_if_the_worker_that_makes_it_ends(live: Any) -> None:
    """One that waits with a model, stopped while it changes the folder: another one makes the change."""
    archive = live.request("GET", "/tasks/topic/archive")[1]
    assert put(live, "/tasks/subject", archive, "application/zip")[0] == 200
    waiting = spare(live)
    waiting.suspend()
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(live.request("DELETE", "/tasks/subject")[0]))
    asking.start()
    live.until(lambda: any(job["state"] == "running" for job in [live.get(f"/jobs/{n}")[1] for n in jobs(live)[-1:]]))
    waiting.kill()
    asking.join()
    assert found == [200] and "subject" not in task_names(live)
    assert live.get("/readyz")[0] == 200


def test_what_somebody_else_changed_stays_when_a_change_is_refused(live: Any) -> None:
    """The worker that is to make the change has its turn only after somebody else changed the folder."""
    archive = live.request("GET", "/tasks/topic/archive")[1]
    assert put(live, "/tasks/subject", archive, "application/zip")[0] == 200
    names, waiting = task_names(live), spare(live)
    waiting.suspend()
    with ThreadPoolExecutor(1) as threads:
        number = len(jobs(live)) + 1
        found = threads.submit(put, live, "/tasks/other", of_another_model(archive), "application/zip")
        live.until(lambda: live.get(f"/jobs/{number}")[1].get("state") == "running")
        living.rename_task(live.folder, "subject", "mine")
        waiting.resume()
        assert found.result()[0] == 409
    live.until(lambda: task_names(live) == names - {"subject"} | {"mine"})
    assert live.request("DELETE", "/tasks/mine")[0] == 200


def of_another_model(archive: bytes) -> bytes:
    """The archive of a task as a model with another encoder would have it."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as given, zipfile.ZipFile(made, "w") as changed:
        for name in given.namelist():
            changed.writestr(name, given.read(name).replace(b'"encoder": "', b'"encoder": "0'))
    return made.getvalue()


def jobs(server: Any) -> list[int]:
    """Their numbers."""
    return list(itertools.takewhile(lambda number: server.get(f"/jobs/{number}")[0] == 200, itertools.count(1)))


def test_a_folder_that_somebody_else_changes_is_taken_over(live: Any) -> None:
    from onepass.living import remove_task

    before, names = live.get("/info")[1]["revision"], task_names(live)
    live.until(lambda: before in live.get("/versions")[1]["kept"])
    remove_task(live.folder, "tone")
    live.until(lambda: task_names(live) == names - {"tone"})
    assert live.post("/rollback", {"revision": before})[0] == 200
    assert task_names(live) == names and live.get("/info")[1]["revision"] == before


def spare(server: Any) -> Any:
    """The process that waits, once there are two of which one serves."""
    server.until(lambda: len(server.workers()) == 2 and len(server.get("/info")[1]["workers"]) == 1)
    (serving,) = server.get("/info")[1]["workers"]
    return next(worker for worker in server.workers() if worker.pid != serving)


def test_a_worker_that_served_waits_and_takes_the_next_version_over_or_is_replaced(live: Any) -> None:
    """The one that served the first version serves the third; if it hangs meanwhile, another one does."""
    from onepass.living import rename_task

    def rename(old: str, new: str) -> None:
        rename_task(live.folder, old, new)
        live.until(lambda: new in task_names(live))

    rename("tone", "mood")
    waiting = spare(live)
    rename("mood", "tone")
    assert live.get("/info")[1]["workers"] == [waiting.pid]
    waiting = spare(live)
    waiting.send_signal(signal.SIGSTOP)
    time.sleep(3.5)  # longer than a worker may be silent
    assert live.predict("goal")[0] == 200
    rename("tone", "mood")
    assert live.get("/info")[1]["workers"] != [waiting.pid]
    rename("mood", "tone")


ROUTES = [
    ("PUT", "/tasks/{}"),
    ("DELETE", "/tasks/{}"),
    ("GET", "/tasks/{}/archive"),
    ("GET", "/jobs/{}"),
    ("POST", "/v2/models/{}/infer"),
    ("GET", "/page/{}"),
]


def traversals() -> list[str]:
    """Ways to name a file that is not the caller's to name, spelt in every way that some server once fell for."""
    ups = [
        "../",
        "..\\",
        "..%2f",
        "%2e%2e/",
        "%2e%2e%2f",
        "..%5c",
        "..%c0%af",
        "..;/",
        "....//",
        "%252e%252e%252f",
        "./.././",
    ]
    targets = ["outside/secret.json", "etc/passwd", "topic", "model/MANIFEST.json", ".model.versions"]
    names = [up * depth + target for up in ups for depth in (1, 2, 4, 8) for target in targets]
    roots = ["/", "//", "file:///", "~root/", "C:\\", "%2f", "\\\\host\\", "%00/", "topic%00", "topic/", "topic%0a"]
    names += [root + target for root in roots for target in targets]
    names += [f"topic/{name}" for name in names]
    names += [
        "..",
        ".",
        "%2e",
        "...",
        "-",
        "_",
        "A",
        "a" * 65,
        "a b",
        "\u00e9",
        "con:",
        "topic%20",
        "*",
        "$(id)",
        "a;b",
    ]
    return [name.replace("\\", "%5c").replace("\u00e9", "%c3%a9").replace(" ", "%20") for name in names]


def test_five_hundred_names_that_lead_elsewhere_open_nothing(live: Any) -> None:
    outside = live.folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.json").write_text("{}")
    names, body = traversals(), json.dumps({"rows": ROWS}).encode()
    assert len(names) >= 500
    before = len(live.audited("open"))
    for number, name in enumerate(names):
        method, path = ROUTES[number % len(ROUTES)]
        status = live.request(method, path.format(name), body, JSON)[0]
        assert status in (400, 404, 405, 422), (method, name)
    assert live.post("/rollback", {"revision": "../../outside"})[0] == 404
    noted = live.audited("open")[before:]
    opened = [Path(path) for _, path, process in noted if process == live.process.pid]
    # The model, a job's own files, our code (the framework looks at its source), and what workers are given for stdin.
    inside = (live.folder, Path(tempfile.gettempdir()) / "onepass-", Path(onepass.__file__).parent, os.devnull)
    assert not [path for path in opened if not str(path).startswith(tuple(map(str, inside)))]
    assert not [path for _, path, _ in noted if Path(path).is_relative_to(outside)]


def test_only_the_admin_may_change_tasks(live: Any, server: Any) -> None:
    key, live.key = live.key, "somebody's key"
    try:
        assert live.request("DELETE", "/tasks/topic")[0] == 401
        assert live.request("PUT", "/tasks/x", b"{}", JSON)[0] == 401
        assert live.get("/jobs/1")[0] == 401
    finally:
        live.key = key
    assert server.request("DELETE", "/tasks/topic")[0] == 404  # no admin key, no such routes
    assert server.request("PUT", "/tasks/x", b"{}", JSON)[0] == 404
