"""The routes in other servers' shapes."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onepass import living
from onepass.errors import ConfigError
from onepass.server.compatible import flagged_labels
from onepass.server.replies import Refused
from onepass.server.run import serve
from onepass.server.served import Served
from onepass.server.settings import Settings
from onepass.tasks import Task


def test_classify_answers_as_vllm_does(server: Any) -> None:
    status, body = server.post("/classify", {"input": ["late goal", "senate vote"], "model": "topic"})
    assert status == 200
    assert [item["index"] for item in body["data"]] == [0, 1]
    assert body["data"][0]["num_classes"] == 2 and sum(body["data"][0]["probs"]) > 0.999
    assert body["usage"]["prompt_tokens"] == 8
    assert server.post("/classify", {"input": "goal", "model": "model/topic"})[0] == 200
    assert "Known" in server.post("/classify", {"input": "goal", "task": "tone"})[1]["error"]["message"]


def test_moderations_answer_as_openai_does(server: Any) -> None:
    status, body = server.post("/v1/moderations", {"input": "late goal", "model": "any"})
    assert status == 200
    (result,) = body["results"]
    score = server.predict("late goal")[1]["results"][0]["tasks"]["topic"]["scores"]["sport"]
    assert result["category_scores"] == pytest.approx({"topic": score}, abs=1e-6)
    assert result["flagged"] is result["categories"]["topic"] is (score > 0.5)


def test_parts_of_an_input_are_one_text_as_at_openai(server: Any) -> None:
    parts = [{"type": "text", "text": "late"}, {"type": "text", "text": "goal"}]
    status, body = server.post("/v1/moderations", {"input": parts, "model": "omni-moderation-latest"})
    assert status == 200
    assert body["results"] == server.post("/v1/moderations", {"input": "late\ngoal"})[1]["results"]
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    assert server.post("/v1/moderations", {"input": [*parts, image]})[0] == 422


def test_the_model_is_listed_as_by_openai_and_vllm(server: Any) -> None:
    status, body = server.get("/v1/models")
    assert status == 200 and body["object"] == "list"
    assert [(one["id"], one["object"]) for one in body["data"]] == [("model", "model")]


def test_a_label_that_should_flag_and_is_gone_is_said(served: Path) -> None:
    model = Served(served)
    service: Any = SimpleNamespace(
        settings=Settings(moderation="topic=sport, mood=sad,"), generation=lambda: SimpleNamespace(tasks=model.tasks)
    )
    with pytest.raises(Refused, match="There is no mood=sad any more, which --moderation names"):
        flagged_labels(service)
    service.settings = Settings(moderation="topic=sport,")
    assert flagged_labels(service) == {"topic": ["sport"]}
    with pytest.raises(ConfigError, match="Unknown task and label 'same=no'"):  # which reads pairs of texts
        serve(served, Settings(moderation="same=no"), print)


def test_tags_of_words_flag_no_text(start: Any, served: Path, tmp_path: Path) -> None:
    names = "the O\nsenate B-org\nvote I-org\n\nlate O\ngoal O\n\n" * 4
    (tmp_path / "names.conll").write_text(names)
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    data = {"train": tmp_path / "names.conll", "text": "tokens", "label": "tags"}
    living.add_tasks(folder, [Task(name="names", kind="tagging", **data)])
    status, body = start(folder).wait().post("/v1/moderations", {"input": "the senate vote"})
    assert status == 200 and set(body["results"][0]["categories"]) == {"topic"}
    with pytest.raises(ConfigError, match=r"Unknown task and label 'names=O'"):
        serve(folder, Settings(moderation="names=O"), print)


def test_every_label_of_a_multilabel_task_flags_even_of_two(served: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(
        '{"text": "late goal", "label": ["x", "z"]}\n{"text": "vote", "label": ["z"]}\n' * 4
    )
    folder = Path(shutil.copytree(served, tmp_path / "model"))
    living.add_tasks(
        folder, [Task(name="tags", kind="multilabel", train=tmp_path / "rows.jsonl", text="text", label="label")]
    )
    model = Served(folder)
    model.warm_up()
    service: Any = SimpleNamespace(settings=Settings(), generation=lambda: SimpleNamespace(tasks=model.tasks))
    assert flagged_labels(service) == {"topic": ["sport"], "tags": ["x", "z"]}


def test_infer_answers_as_kserve_does(server: Any) -> None:
    text = {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["late goal", "vote"]}
    status, body = server.post("/v2/models/model/infer", {"id": "7", "inputs": [text], "outputs": [{"name": "topic"}]})
    assert status == 200 and body["id"] == "7"
    assert [(item["name"], item["shape"], item["datatype"]) for item in body["outputs"]] == [("topic", [2], "BYTES")]
    pair = [text, {**text, "name": "second"}]
    names = [item["name"] for item in server.post("/v2/models/model/infer", {"inputs": pair})[1]["outputs"]]
    assert names == ["same", "same.score"]
    assert server.get("/v2/health/ready") == (200, {"ready": True})
    assert server.get("/v2/models/model")[1]["outputs"][0] == {"name": "topic", "datatype": "BYTES", "shape": [-1]}


def test_infer_says_what_is_wrong(server: Any) -> None:
    wrong = {"name": "text", "shape": [3], "datatype": "BYTES", "data": ["a"]}
    assert server.post("/v2/models/model/infer", {"inputs": [wrong]})[0] == 422
    status, body = server.post("/v2/models/model/infer", {"inputs": [{**wrong, "datatype": "FP32"}]})
    assert status == 422 and body["error"].startswith("inputs[0]: needed:")  # a text, as the protocol has it
    assert server.post("/v2/models/other/infer", {"inputs": [{**wrong, "shape": [1]}]})[0] == 404
    assert server.get("/v2/nothing") == (404, {"error": "Not Found"})


def test_infer_takes_what_tritons_client_sends(server: Any) -> None:
    """Without a Content-Type, which a page of another site could do too; and by default in a form of its own."""
    text = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["late goal"]}
    body = json.dumps({"inputs": [text], "parameters": {"binary_data_output": True}}).encode()
    assert server.request("POST", "/v2/models/model/infer", body)[0] == 200
    assert server.request("POST", "/v2/models/model/infer", body, {"Origin": "http://a.example"})[0] == 415
    status, told, _ = server.request("POST", "/v2/models/model/infer", body, {"Inference-Header-Content-Length": "9"})
    assert status == 415 and "binary_data=False" in json.loads(told)["error"]


def test_outputs_are_those_that_tasks_have(server: Any) -> None:
    listed = [item["name"] for item in server.get("/v2/models/model")[1]["outputs"]]
    assert "topic.score" in listed and "tone" in listed and "tone.score" not in listed
    text = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["late goal"]}
    status, body = server.post("/v2/models/model/infer", {"inputs": [text], "outputs": [{"name": "tone.score"}]})
    assert status == 422 and "have no probability" in body["error"]
