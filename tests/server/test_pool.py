"""What happens when a worker is killed, stops, or reads a text that breaks it."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onepass.errors import FolderError
from onepass.server.batcher import Batch, Batcher
from onepass.server.child import QUIET_S, Worker
from onepass.server.folder import revision_of
from onepass.server.metrics import Metrics
from onepass.server.pool import STALLED_S, Pool
from onepass.server.settings import Settings

FACTS = {
    "revision": "0123456789abcdef",
    "max_length": 32,
    "tasks": [{"name": "topic"}],
    "definitions": [{"name": "topic", "kind": "classification", "text": "text", "label": "topic"}],
}


SPEED = {"times": {"tokens_per_s": 1000.0}}
COUNTED = {
    "onepass_worker_restarts": {},
    "onepass_asks_total": {"outcome": "failed"},
    "onepass_text_errors_total": {"code": "failed"},
}


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def idle(worker: Worker) -> None:
        pass

    monkeypatch.setattr(Worker, "run", idle)


def make_pool(folder: Path, **options: Any) -> Pool:
    settings = Settings(**options)
    return Pool(folder, settings, Batcher(settings, Metrics()))


@pytest.mark.usefixtures("no_processes")
def test_a_folder_that_is_away_when_its_version_is_loaded_leaves_no_worker_to_be_waited_for(tmp_path: Path) -> None:
    async def load(pool: Pool) -> Worker:
        loading = asyncio.create_task(pool._load())
        await asyncio.sleep(0)
        (worker,) = pool.starting
        worker.facts.set_result(FACTS)
        with pytest.raises(FolderError, match=r"tokenizer\.json cannot be read: No such file"):
            await loading
        return worker

    async def refill(pool: Pool) -> Worker:
        worker = pool.start_worker()
        worker.facts.set_result(FACTS)
        await pool._refill(worker)
        assert pool.failures == 1 and isinstance(pool.first.exception(), FolderError)
        return worker

    async def left(how: Callable[[Pool], Any]) -> None:
        pool = make_pool(tmp_path / "away", spare=False)
        worker = await how(pool)
        assert worker.gone and not pool.starting and pool._missing()

    asyncio.run(left(load))
    asyncio.run(left(refill))


def test_a_version_that_was_refused_is_told_of_until_it_is_gone_from_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(pool: Pool, change: Any = None) -> None:
        pool.refused = "It is damaged."
        raise FolderError(pool.refused)

    async def seen() -> list[str | None]:
        manifest, told = tmp_path / "MANIFEST.json", []
        manifest.write_text("{}")
        pool = make_pool(tmp_path)
        pool.current = SimpleNamespace(revision=revision_of(tmp_path))  # type: ignore[assignment]
        for text in ("{}", "{", "{", "{}"):
            manifest.write_text(text)
            pool.follower.look()
            await asyncio.sleep(0.01)
            told.append(pool.refused)
        return told

    monkeypatch.setattr(Pool, "replace", refuse)
    assert asyncio.run(seen()) == [None, "It is damaged.", "It is damaged.", None]


@pytest.mark.usefixtures("no_processes")
def test_what_a_worker_was_refused_for_is_not_told_any_more_when_one_has_loaded(tmp_path: Path) -> None:
    async def refilled() -> None:
        pool = make_pool(tmp_path)
        pool.current = generation = SimpleNamespace(revision=FACTS["revision"], workers=[])  # type: ignore[assignment]
        pool._failed(FolderError("The folder was away."))
        pool.first.exception()
        assert pool.refused == "The folder was away."
        worker = pool.start_worker()
        worker.facts.set_result(FACTS)
        await pool._refill(worker)
        assert generation.workers == [worker] and pool.refused is None  # type: ignore[union-attr]

    asyncio.run(refilled())


def test_whoever_asks_whether_the_server_is_ready_learns_nothing_of_its_folders(tmp_path: Path) -> None:
    async def reasons() -> list[str | None]:
        pool = make_pool(tmp_path)
        loading = pool.why_not_ready()
        pool._failed(FolderError(f"{tmp_path} is no model folder."))
        pool.first.exception()
        assert str(tmp_path) in str(pool.refused)  # which /info tells, to those with a key
        return [loading, pool.why_not_ready()]

    assert asyncio.run(reasons()) == [
        "the model is being loaded",
        "no worker could load the model: the log says why",
    ]


@pytest.mark.usefixtures("no_processes")
def test_a_fault_while_a_folder_is_followed_is_told_and_survived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_memory(pool: Pool, change: Any = None) -> None:
        raise OSError("no memory to be had")

    async def follow() -> None:
        await make_pool(tmp_path).follower.take_over("0123456789abcdef")

    monkeypatch.setattr(Pool, "replace", no_memory)
    asyncio.run(follow())
    assert "was refused, the old one serves on: no memory to be had" in caplog.text


@pytest.mark.usefixtures("no_processes")
@pytest.mark.parametrize("holds", [False, True])
def test_a_spare_process_that_fell_silent_is_not_trusted(tmp_path: Path, holds: bool) -> None:
    def waiting(pool: Pool, silent_s: float) -> Worker:
        pool.spare = worker = Worker(pool)
        worker.heard, worker.holds = True, holds
        worker.beaten -= silent_s
        return worker

    async def judged() -> None:
        pool = make_pool(tmp_path, silent_s=3.0)
        pool._not_before = float("inf")  # nobody is started
        worker = waiting(pool, 4)
        assert pool.start_worker() is not worker and worker.gone
        loading = waiting(pool, 2)
        assert pool.start_worker() is loading and not loading.gone
        spare = waiting(pool, 2)
        for silent_s, gone in ((QUIET_S - 1, False), (QUIET_S + 1, True)):
            loading.beaten = spare.beaten = time.monotonic() - silent_s
            pool._look(time.monotonic())
            assert loading.gone == spare.gone == gone

    async def not_judged() -> None:
        """By a server that has itself stood still, before it knows that, and while it listens again."""
        pool = make_pool(tmp_path, silent_s=3.0)
        worker = waiting(pool, 60)
        pool._looked -= 2 * STALLED_S
        assert pool.start_worker() is worker and not worker.gone
        pool._looked, pool._judge_after = time.monotonic(), time.monotonic() + 3
        pool._look(time.monotonic())
        assert not worker.gone

    async def not_begun() -> None:
        """One that has not spoken yet has the time to load to begin."""
        pool = make_pool(tmp_path, start_s=100.0)
        worker = pool.spare = Worker(pool)
        for seconds, gone in ((99, False), (101, True)):
            worker.born = worker.beaten = time.monotonic() - seconds
            pool._not_before = float("inf")
            pool._look(time.monotonic())
            assert worker.gone == gone

    for check in (judged, not_judged, not_begun):
        asyncio.run(check())


@pytest.mark.usefixtures("no_processes")
def test_a_worker_without_an_answer_for_a_while_is_asked_a_text_of_our_own_also_while_it_is_busy(
    tmp_path: Path,
) -> None:
    async def asked() -> None:
        pool, sent = make_pool(tmp_path), list[bytes]()
        pool._not_before = float("inf")  # nobody is started
        worker = Worker(pool)
        generation: Any = SimpleNamespace(workers=[worker], retiring=False, facts={"probe": "probe"} | SPEED)
        pool.batcher.generations.append(generation)
        worker.generation, worker.writer = generation, SimpleNamespace(write=sent.append)  # type: ignore[assignment]
        item: Any = SimpleNamespace(ask=SimpleNamespace(over=False))
        worker.batches.append(Batch(1, [item], 8))
        worker.forward = worker.running_since = time.monotonic()
        pool._look(time.monotonic())
        assert not sent
        worker.forward -= 1.5  # what it was asked since was answered with errors
        for _ in range(3):
            pool._look(time.monotonic())
        assert len(sent) == 1

    asyncio.run(asked())


def test_a_spare_process_that_hangs_keeps_no_place_empty(start: Callable[..., Any], served: Any) -> None:
    server = start(served, spare=True, silent_s=1.0, start_s=600.0).wait()
    server.until(lambda: len(server.workers()) == 2)
    (serving,) = server.get("/info")[1]["workers"]
    (spare,) = [worker for worker in server.workers() if worker.pid != serving]
    server.until(lambda: spare.num_threads() > 2)  # one imports, and one says that it is alive
    time.sleep(1.5)  # one of its threads speaks from now on
    spare.send_signal(signal.SIGSTOP)
    time.sleep(1.5)  # longer than a worker may be silent
    next(worker for worker in server.workers() if worker.pid == serving).kill()
    server.until(lambda: not server.is_ready())
    server.until(server.is_ready)
    assert server.get("/info")[1]["workers"] != [spare.pid]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_dies_or_hangs_is_replaced_and_its_requests_answered(server: Any, number: signal.Signals) -> None:
    (worker,) = server.workers()
    seen: list[int] = []
    worker.send_signal(number)
    asking = threading.Thread(target=lambda: seen.append(server.predict("goal")[0]))
    asking.start()
    server.until(lambda: not server.is_ready())  # the health check does not lie
    assert server.get("/livez")[0] == 200
    server.until(server.is_ready)
    asking.join()
    assert seen == [200]  # tried again on the new worker, within its deadline
    assert [process.pid for process in server.workers()] != [worker.pid]


def test_a_server_that_stood_still_does_not_take_its_workers_for_hung(server: Any) -> None:
    server.until(server.is_ready)
    worker, restarts = server.workers()[0].pid, server.counter("onepass_worker_restarts")
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)  # longer than a worker may be silent
    server.process.send_signal(signal.SIGCONT)
    assert server.predict("goal")[0] == 200
    time.sleep(0.5)
    assert [process.pid for process in server.workers()] == [worker]
    assert server.counter("onepass_worker_restarts") == restarts


def test_a_text_that_breaks_the_model_does_not_break_its_neighbours(server: Any) -> None:
    texts = ["goal", "fault:raise", "senate vote", "fault:nan", "late match", "fault:slow"]
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(server.predict, texts * 2))
    assert [status for status, _ in answers] == [200, 500, 200, 500, 200, 200] * 2
    status, body = server.predict(texts)
    assert status == 200
    assert ["error" in result for result in body["results"]] == [False, True, False, True, False, False]
    assert body["results"][3]["error"]["code"] == "not_finite"


def test_a_worker_on_which_every_text_fails_is_replaced(server: Any) -> None:
    before = {name: server.counter(name, **labels) for name, labels in COUNTED.items()}
    (worker,) = server.workers()
    assert server.predict("fault:break")[0] == 500  # as a device that needs a new process
    server.until(lambda: server.predict("goal")[0] == 200, 60)
    server.until(server.is_ready)
    assert [process.pid for process in server.workers()] != [worker.pid]
    assert all(server.counter(name, **labels) > before[name] for name, labels in COUNTED.items())


def test_a_text_that_ends_the_worker_does_not_take_its_neighbours_along(server: Any) -> None:
    with ThreadPoolExecutor(3) as threads:
        slow = threads.submit(server.predict, "fault:slow")  # so that the next ones share a batch
        server.until(lambda: server.counter("onepass_queue_texts") >= 0)
        answers = list(threads.map(server.predict, ["goal", "fault:kill"]))
    assert slow.result()[0] == 200
    assert [status for status, _ in answers] == [200, 500]
    assert answers[1][1]["error"]["code"] == "ended_worker"
    server.until(server.is_ready)


@pytest.mark.slow
def test_a_text_that_hangs_the_worker_does_not_take_its_neighbours_along(server: Any) -> None:
    with ThreadPoolExecutor(4) as threads:
        slow = threads.submit(server.predict, "fault:slow")  # so that the next ones share a batch
        answers = list(threads.map(server.predict, ["goal", "fault:hang", "senate vote"]))
    assert slow.result()[0] == 200
    assert [status for status, _ in answers] == [200, 500, 200]
    server.until(server.is_ready)


@pytest.mark.slow
def test_two_workers_share_the_work_and_one_goes_on_alone(start: Callable[..., Any], served: Any) -> None:
    server = start(served, workers=2, environment={"ONEPASS_SERVER_FAULTS": "1"}).wait()
    server.until(lambda: len(server.get("/info")[1]["workers"]) == 2)  # the second one comes when the first serves
    with ThreadPoolExecutor(16) as threads:
        asked = [threads.submit(server.predict, "fault:slow") for _ in range(16)]
        server.workers()[0].kill()
        assert {answer.result()[0] for answer in asked} == {200}
    assert server.is_ready()
    server.until(lambda: len(server.workers()) == 2)


def test_a_model_that_cannot_be_loaded_is_the_users_to_mend(start: Callable[..., Any], tmp_path: Any) -> None:
    server = start(tmp_path)
    assert server.process.wait(60) == 2
    assert "is no model folder" in server.log.read_text()
    assert "Traceback" not in server.log.read_text()


def test_where_nothing_that_runs_a_model_is_installed_the_server_says_what_to_install(
    start: Callable[..., Any], served: Path, model: Path
) -> None:
    for folder, extra in ((served, "engine"), (model, "train")):
        server = start(folder, {"ONEPASS_WITHOUT": "openvino torch"})
        assert server.process.wait(60) == 2
        assert f"needs extra packages: pip install 'onepass[{extra}]'" in server.log.read_text()
        assert "Traceback" not in server.log.read_text()


def test_an_exported_model_is_served_by_torch_where_there_is_no_openvino(
    start: Callable[..., Any], served: Path
) -> None:
    server = start(served, {"ONEPASS_WITHOUT": "openvino"}).wait()
    assert server.predict(["late goal"])[0] == 200


def test_a_server_that_ends_while_it_loads_has_no_error_to_tell(start: Callable[..., Any]) -> None:
    server = start()
    server.until(lambda: "Loading" in server.log.read_text() and server.workers())
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert "error" not in server.log.read_text()
