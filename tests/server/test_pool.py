"""What happens when a worker is killed, stops, or reads a text that breaks it."""

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest


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


def test_a_server_that_ends_while_it_loads_has_no_error_to_tell(start: Callable[..., Any]) -> None:
    server = start()
    server.until(lambda: "Loading" in server.log.read_text() and server.workers())
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert "error" not in server.log.read_text()
