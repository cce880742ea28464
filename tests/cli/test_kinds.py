"""Kinds of task that read more than a text, through the whole product."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import onepass
from onepass.cli.app import app

TASKS = """
encoder: {encoder}
tasks:
  topic: {{train: topic.jsonl, validation: topic.jsonl, text: post, label: topic}}
  cause: {{kind: choice, train: cause.jsonl, validation: cause.jsonl, text: premise, label: label, choices: [one, two]}}
  sense: {{kind: words, train: sense.csv, validation: sense.csv, text: [first, second], label: same, words: word}}
  answer: {{kind: extraction, train: qa.jsonl, validation: qa.jsonl, text: [question, text], label: answers}}
  names: {{kind: tagging, train: names.conll, validation: names.conll, text: tokens, label: tags}}
train: {{epochs: 12, batch_size: 8, max_length: 32, encoder_rate: 0.003, head_rate: 0.02, average: 0}}
"""


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, encoder: Path) -> Path:
    """A folder with a task file, its data and a model trained on them."""
    folder = tmp_path_factory.mktemp("kinds")
    texts = [("the late goal wins", "sport"), ("the senate vote", "politics")] * 10
    (folder / "topic.jsonl").write_text("\n".join(json.dumps({"post": text, "topic": topic}) for text, topic in texts))
    (folder / "names.conll").write_text("the O\nsenate B-org\nvote I-org\nwins O\n\nlate O\ngoal O\n\n" * 12)
    causes = [{"premise": "late goal", "one": "it wins", "two": "bad vote", "label": n % 2} for n in range(8)]
    causes = [row | {"one": row["two"], "two": row["one"]} if row["label"] else row for row in causes]
    (folder / "cause.jsonl").write_text("\n".join(map(json.dumps, causes)))
    senses = "goal,late goal,the goal wins,yes\nvote,senate vote,bad vote,no\n" * 6
    (folder / "sense.csv").write_text(f"word,first,second,same\n{senses}")
    questions = [
        {"question": "why ?", "text": "the senate wins it", "answers": {"text": ["senate"], "answer_start": [4]}},
        {"question": "is it ?", "text": "the goal is late", "answers": {"text": [], "answer_start": []}},
    ] * 6
    (folder / "qa.jsonl").write_text("\n".join(map(json.dumps, questions)))
    (folder / "tasks.yaml").write_text(TASKS.format(encoder=encoder))
    onepass.train(folder / "tasks.yaml", folder / "model", progress=False)
    return folder


def test_a_text_is_answered_by_tasks_of_all_kinds(folder: Path) -> None:
    result = run("predict", folder / "model", "the  senate vote wins", "--json")
    assert result.exit_code == 0, result.output
    answers = json.loads(result.stdout)["tasks"]
    assert set(answers) == {"topic", "names"}
    assert answers["names"]["label"] == [["senate vote", "org"]]
    (span,) = answers["names"]["spans"]
    assert (span["start"], span["end"], span["label"]) == (5, 16, "org")


def test_rows_are_asked_the_tasks_whose_columns_they_have(folder: Path) -> None:
    model = onepass.load(folder / "model")
    (cause,) = model.predict({"premise": "late goal", "one": "bad vote", "two": "it wins"}).items()
    assert cause[0] == "cause" and set(cause[1].scores) == {"bad vote", "it wins"}
    (sense,) = model.predict({"word": "goal", "first": "late goal", "second": "the goal wins"}).items()
    assert sense[0] == "sense" and sense[1].label in ("yes", "no")
    pair = model.predict(("why ?", "the senate wins it"))
    assert pair == model.predict({"question": "why ?", "text": "the senate wins it"}, tasks=["answer"])
    assert set(pair) == {"answer"} and pair["answer"].spans is not None
    with pytest.raises(onepass.ConfigError, match=r"a single text cannot answer: cause \(premise and one and two\)"):
        model.predict("late goal", tasks=["cause"])
    row = {"word": "vote", "first": "late goal", "second": "vote"}
    with pytest.raises(onepass.DataError, match=r"Text 2: task 'sense' marks 'vote', which is not in 'late goal'"):
        model.predict([row | {"first": "vote"}, row], tasks=["sense"])


def test_a_mixed_list_is_answered_in_order(folder: Path) -> None:
    model = onepass.load(folder / "model")
    inputs = ["late goal", ("why ?", "the goal"), {"premise": "late goal", "one": "bad vote", "two": "it wins"}]
    answers = model.predict(inputs * 2)
    assert [set(one) for one in answers] == [{"topic", "names"}, {"answer"}, {"cause"}] * 2
    assert answers[:3] == answers[3:]


def test_words_can_be_given(folder: Path) -> None:
    result = run("predict", folder / "model", "--rows", '{"tokens": ["the", "senate", "vote", "wins"]}', "--json")
    assert json.loads(result.stdout)["tasks"]["names"]["label"] == [["senate vote", "org"]]
    readable = run("predict", folder / "model", "the senate vote wins", "--tasks", "names")
    assert "names  senate vote (org)" in readable.stdout


def test_files_are_labelled_with_spans(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"tokens": ["the", "senate", "vote", "wins"]}\n{"tokens": null}\n{"tokens": "the senate vote wins"}\n'
    )
    result = run(
        "predict", folder / "model", "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", "--tasks", "names"
    )
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["names"] for row in rows] == [[["senate vote", "org"]]] * 2
    assert rows[1]["names_spans"][0]["start"] == 4
    (reject,) = (tmp_path / "out.rejects.jsonl").read_text().splitlines()
    assert "there is no text in 'tokens'" in reject


def test_evaluate_and_info_know_the_kinds(folder: Path) -> None:
    result = run("evaluate", folder / "model", "--json")
    tasks = json.loads(result.stdout)["tasks"]
    assert tasks["names"]["metric"] == "span_f1" and tasks["names"]["score"] == 100.0
    assert json.loads(run("info", folder / "model", "--json").stdout)["tasks"][4]["kind"] == "tagging"


def test_tasks_are_added_and_removed(folder: Path, tmp_path: Path) -> None:
    model = onepass.load(folder / "model")
    model.add_task(
        "more", kind="tagging", train=folder / "names.conll", text="tokens", label="tags", options={"epochs": 2}
    )
    assert set(model.predict("the senate vote")) == {"topic", "names", "more"}
    model.remove_task("names")
    model.save(tmp_path / "other")
    assert set(onepass.load(tmp_path / "other").predict("the senate vote")) == {"topic", "more"}
