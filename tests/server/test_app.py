"""The routes, asked over a real socket."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import onepass

TEXTS = ["late goal wins the match", "senate vote", "why is it bad ?", "good", "the the the"]


@pytest.fixture(scope="module")
def expected(model: Path) -> dict[str, Any]:
    """What the model itself says of each text."""
    loaded = onepass.load(model)
    return dict(zip(TEXTS, loaded.predict(TEXTS), strict=True))


def close(answer: dict[str, Any], prediction: Any) -> bool:
    if prediction.score is None:
        return bool(answer["label"] == pytest.approx(prediction.label, abs=1e-5))
    return bool(answer["label"] == prediction.label and answer["scores"] == pytest.approx(prediction.scores, abs=1e-6))


def test_a_text_is_answered_for_all_tasks_that_read_one(server: Any, expected: dict[str, Any]) -> None:
    status, body = server.predict(TEXTS[0])
    assert status == 200
    (result,) = body["results"]
    assert result["tasks"].keys() == expected[TEXTS[0]].keys() == {"topic", "tone"}
    assert all(close(result["tasks"][name], prediction) for name, prediction in expected[TEXTS[0]].items())
    assert result["tasks"]["topic"]["version"] == 1 and not result["tasks"]["topic"]["abstained"]
    assert not result["truncated"] and result["tokens"] == 7
    assert body["revision"] == server.get("/info")[1]["revision"]


def test_whoever_asks_for_the_head_alone_gets_that_of_the_answer(server: Any) -> None:
    for path in ("/", "/livez", "/readyz", "/tasks", "/nothing"):
        status, body, headers = server.request("HEAD", path)
        expected = server.request("GET", path)
        assert (status, body, headers["content-length"]) == (expected[0], b"", expected[2]["content-length"])


def test_requests_for_different_tasks_share_batches_and_get_their_own_answers(
    server: Any, expected: dict[str, Any]
) -> None:
    wanted = [(text, tasks) for text in TEXTS for tasks in (["topic"], ["tone"], None)] * 4
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda pair: server.predict(*pair), wanted))
    for (text, tasks), (status, body) in zip(wanted, answers, strict=True):
        assert status == 200
        found = body["results"][0]["tasks"]
        assert set(found) == set(tasks or ["topic", "tone"])
        assert all(close(found[name], expected[text][name]) for name in found)


def test_a_list_comes_back_in_order_with_pairs_and_texts_mixed(server: Any) -> None:
    status, body = server.predict([TEXTS[0], ["goal", "late goal"], TEXTS[1]])
    assert status == 200
    assert [set(result["tasks"]) for result in body["results"]] == [{"topic", "tone"}, {"same"}, {"topic", "tone"}]


def test_a_row_is_asked_the_tasks_whose_columns_it_has(server: Any, expected: dict[str, Any]) -> None:
    row = {"text": TEXTS[0], "first": "goal", "second": "late goal", "number": 7}
    status, body = server.predict([row, {"text": TEXTS[1]}, TEXTS[2]])
    assert status == 200
    assert [set(result["tasks"]) for result in body["results"]] == [
        {"topic", "tone", "same"},
        {"topic", "tone"},
        {"topic", "tone"},
    ]
    assert close(body["results"][0]["tasks"]["topic"], expected[TEXTS[0]]["topic"])


def test_a_long_text_is_cut_and_says_so(server: Any) -> None:
    status, body = server.predict(["goal " * 2000, "goal"])
    assert status == 200
    assert [result["truncated"] for result in body["results"]] == [True, False]
    assert body["results"][0]["tokens"] == 32


@pytest.mark.parametrize("text", ["", "\x00goal", "\ufeff\u0301", "\ud800 goal", "🙂" * 50, " \n\t"])
def test_strange_texts_are_answered(server: Any, text: str) -> None:
    assert server.predict(text)[0] == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "inputs is missing"),
        ({"inputs": []}, "an empty list"),
        ({"inputs": [1]}, r"inputs[0] is a number"),
        ({"inputs": [["a", "b", "c"]]}, "a pair"),
        ({"inputs": "goal", "tasks": []}, "0 names"),
        ({"inputs": "goal", "tasks": ["topc"]}, "Did you mean 'topic'?"),
        ({"inputs": "goal", "tasks": ["same"]}, "reads first and second, not a single text"),
        ({"inputs": {"nothing": "goal"}}, "No task reads a row with these columns"),
        ({"inputs": {"text": {"deep": 1}}}, "is an object"),
        ({"inputs": {}}, "is an empty object"),
        ({"inputs": "goal", "task": ["topic"]}, "Did you mean 'tasks'?"),
        ([], "an empty list"),
    ],
)
def test_what_is_wrong_is_said(server: Any, body: Any, words: str) -> None:
    status, answer = server.post("/predict", body)
    assert status == 422
    assert words in answer["error"]["message"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"inputs": "a"', "application/json", 400),
        (b"\xff\xfe{}", "application/json", 400),
        (b'{"inputs": NaN}', "application/json", 400),
        (b'{"inputs": ' + b"9" * 10000 + b"}", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"inputs": "a"}', "text/plain", 415),
        (json.dumps({"inputs": ["a"] * 65}).encode(), "application/json", 413),
        (json.dumps({"inputs": "a" * 200_001}).encode(), "application/json", 413),
        (b" " * 2_000_001, "application/json", 413),
    ],
)
def test_bodies_out_of_bounds_are_refused(server: Any, body: bytes, kind: str, status: int) -> None:
    found, answer, _ = server.request("POST", "/predict", body, {"Content-Type": kind})
    assert found == status
    assert json.loads(answer)["error"]["code"]


def test_the_tasks_and_the_model_are_described(server: Any) -> None:
    tasks = server.get("/tasks")[1]["tasks"]
    assert [(task["name"], task["kind"]) for task in tasks][:2] == [("topic", "classification"), ("tone", "regression")]
    assert tasks[0]["labels"] == ["politics", "sport"]
    info = server.get("/info")[1]
    assert info["tasks"] == 3 and info["pass_ms"] > 0 and info["admin"] is False


def test_counters_add_up(server: Any) -> None:
    server.predict("goal", ["topic"])
    server.predict("goal", **{"X-Deadline-Ms": "0"})
    outcomes = {
        name: server.counter("onepass_asks_total", outcome=name)
        for name in ("received", "answered", "failed", "rejected", "expired", "left")
    }
    assert outcomes["received"] == sum(outcomes.values()) - outcomes["received"] > 0
    labels = [server.counter("onepass_labels_total", task="topic", label=label) for label in ("politics", "sport")]
    assert sum(labels) > 0
    padding = server.counter("onepass_padding_tokens_total")
    server.predict(["goal", "late goal wins the match"], ["topic"])  # 3 and 7 tokens, computed as 12
    assert server.counter("onepass_padding_tokens_total") - padding == 2


def test_other_sites_names_do_not_lead_here(server: Any) -> None:
    status, told = server.get("/tasks", Host="evil.example:80")
    assert status == 403 and "such as Host: localhost. Give it keys (--keys), or" in told["error"]["message"]
    assert server.get("/tasks", Host=f"localhost:{server.port}")[0] == 200


def test_unknown_paths_and_verbs_are_told_in_our_shape(server: Any) -> None:
    assert server.get("/nothing")[1]["error"]["code"] == "http"
    assert server.request("DELETE", "/predict")[0] == 405
    # Nor a way to the right path: behind a proxy with TLS it would lead a client to send all once more without.
    assert server.request("POST", "/predict/", b"{}", {"Content-Type": "application/json"})[0] == 404


@pytest.mark.parametrize("image", ["Dockerfile", "Dockerfile.cuda"])
def test_the_images_ask_for_their_health_at_the_port_that_was_set(server: Any, image: str) -> None:
    server.until(server.is_ready)
    text = (Path(__file__).parents[2] / "deploy" / image).read_text().replace("\\\n", "")
    (command,) = re.findall(r"^HEALTHCHECK .* CMD (.*)$", text, re.MULTILINE)
    here = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "no_proxy": "*"}
    for port, well in ((server.port, True), (1, False)):
        environment = os.environ | here | {"ONEPASS_PORT": str(port)}
        asked = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, check=False)
        assert (asked.returncode == 0) == well, asked.stderr


def test_neither_the_server_nor_a_worker_with_an_engine_imports_torch(server: Any) -> None:
    code = "import sys, onepass.server.run, onepass.server.worker; sys.exit('torch' in sys.modules)"
    source = str(Path(onepass.__file__).parents[1])
    assert (
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": source}, check=False).returncode
        == 0
    )
    mapped = [Path(f"/proc/{process.pid}/maps") for process in server.workers()]
    if mapped[0].exists():
        assert "libtorch" not in mapped[0].read_text()
