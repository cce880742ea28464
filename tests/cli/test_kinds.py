"""Kinds of task that read more than a text, through the whole product."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import onepass
from onepass.cli.app import app
from onepass.loading import load_fastest

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


def test_blank_texts_are_answered_or_said(folder: Path) -> None:
    model = onepass.load(folder / "model")
    assert model.predict({"tokens": []})["names"].spans == ()
    assert model.predict("")["names"].label == []
    assert model.predict(("why ?", ""))["answer"].spans == ()
    with pytest.raises(onepass.DataError, match=r"Text 1: task 'cause' has a blank text in 'premise'"):
        model.predict({"premise": " ", "one": "a", "two": "b"})
    with pytest.raises(onepass.DataError, match=r"task 'sense' has a blank text in 'first' or 'second'"):
        model.predict({"word": "a", "first": "a", "second": None})


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
    (reject,) = (tmp_path / "out.jsonl.rejects.jsonl").read_text().splitlines()
    assert "there is no text in 'tokens'" in reject


def test_a_conll_file_is_labelled(folder: Path, tmp_path: Path) -> None:
    result = run(
        "predict", folder / "model", "-i", folder / "names.conll", "-o", tmp_path / "out.csv", "--tasks", "names"
    )
    assert result.exit_code == 0, result.output
    header, first, *_ = (tmp_path / "out.csv").read_text().splitlines()
    assert header.startswith("tokens,tags,names") and "org" in first


def test_evaluate_and_info_know_the_kinds(folder: Path) -> None:
    result = run("evaluate", folder / "model", "--json")
    tasks = json.loads(result.stdout)["tasks"]
    assert tasks["names"]["metric"] == "span_f1"
    assert {name: result["score"] for name, result in tasks.items()} == dict.fromkeys(tasks, 100.0)
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


def test_a_folder_of_all_kinds_is_changed_with_proof(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "model", tmp_path / "model")
    keys = f"kind: choice, train: {folder / 'cause.jsonl'}, text: premise, label: label, choices: [one, two]"
    (tmp_path / "more.yaml").write_text(f"tasks:\n  more: {{{keys}}}\n")
    added = run("add", tmp_path / "model", tmp_path / "more.yaml", "epochs=2")
    assert added.exit_code == 0 and "of 5 kept tasks" in added.output, added.output
    removed = run("remove", tmp_path / "model", "names")
    assert removed.exit_code == 0, removed.output
    assert onepass.load(tmp_path / "model").names == ["topic", "cause", "sense", "answer", "more"]


def test_a_task_about_words_can_have_a_threshold(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "model", tmp_path / "model")
    changed = run("threshold", tmp_path / "model", "--target-recall", 0.9)
    assert changed.exit_code == 0 and "topic, sense: changed." in changed.output, changed.output
    row = {"word": "goal", "first": "late goal", "second": "the goal wins"}
    assert onepass.load(tmp_path / "model").predict(row)["sense"].threshold is not None


def test_the_engine_answers_all_kinds_alike(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    model = onepass.load(folder / "model")
    model.save(tmp_path / "model")
    assert run("export", tmp_path / "model").exit_code == 0
    inputs: list[Any] = [
        "the senate vote wins",
        ("why ?", "the senate wins it"),
        {"premise": "late goal", "one": "bad vote", "two": "it wins"},
        {"word": "goal", "first": "late goal", "second": "the goal wins"},
    ]
    for one, two in zip(load_fastest(tmp_path / "model").predict(inputs), model.predict(inputs), strict=True):
        assert one.keys() == two.keys()
        for name, answer in two.items():
            assert one[name].label == answer.label
            assert one[name].score == pytest.approx(answer.score, abs=1e-3)


BROKEN: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[int, str]]] = {
    "names": (
        {"kind": "tagging", "text": "tokens", "label": "tags"},
        [
            {"tokens": ["a", "b"], "tags": ["O", "B-x"]},
            {"tokens": ["a", "b"], "tags": ["O"]},
            {"tokens": ["a"], "tags": ["O", "O", "O"]},
        ],
        {2: "has 2 words but 1 tags", 3: "has 1 words but 3 tags"},
    ),
    "answer": (
        {"kind": "extraction", "text": ["question", "text"], "label": "answers"},
        [
            {"question": "q", "text": "late goal", "answers": {"text": ["goal"], "answer_start": [5]}},
            {"question": "q", "text": "late goal", "answers": {"text": ["goal"], "answer_start": [7]}},
            {"question": "q", "text": "late goal", "answers": ["vote"]},
        ],
        {2: "from character 7 to 11, outside of its text, which has 9", 3: "has the answer 'vote', which is not in"},
    ),
    "cause": (
        {"kind": "choice", "text": "premise", "label": "label", "choices": ["one", "two"]},
        [
            {"premise": "a", "one": "b", "two": "c", "label": 0},
            {"premise": "a", "one": None, "two": "", "label": 0},
            {"premise": "a", "one": "b", "two": "c", "label": 2},
        ],
        {2: "has no candidate in 'one', 'two'", 3: "has the answer 2, which is none of its candidates"},
    ),
    "sense": (
        {"kind": "words", "text": "text", "label": "label", "words": "word"},
        [
            {"text": "late goal", "word": "goal", "label": "yes"},
            {"text": "late goal", "word": "vote", "label": "no"},
            {"text": "late goal", "word": [3, 30], "label": "no"},
        ],
        {2: "marks 'vote', which is not in 'late goal'", 3: "marks the characters 3 to 30"},
    ),
    "moods": (
        {"kind": "multilabel", "text": "text", "label": "label"},
        [
            {"text": "a", "label": ["x"]},
            {"text": "b", "label": "['x', 'y'"},
            {"text": "c", "label": {"x": 1}},
        ],
        {2: "which does not parse, where labels are needed", 3: "where a list of labels is needed"},
    ),
}


def test_rows_that_cannot_be_read_are_listed_all_at_once(tmp_path: Path, encoder: Path) -> None:
    tasks = {}
    for name, (keys, rows, _) in BROKEN.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
        tasks[name] = keys | {"train": f"{name}.jsonl"}
    (tmp_path / "tasks.yaml").write_text(
        json.dumps({"encoder": str(encoder), "tasks": tasks, "train": {"max_length": 32}})
    )
    checked = run("check", tmp_path / "tasks.yaml", "--json")
    assert checked.exit_code == 2
    found = [
        (fault["task"], *fault["rows"], fault["found"])
        for fault in json.loads(checked.stdout)["faults"]
        if fault["sort"] == "bad row"
    ]
    with pytest.raises(onepass.DataError) as error:
        onepass.train(tmp_path / "tasks.yaml", progress=False)
    for name, (_, _, wrong) in BROKEN.items():
        for row, message in wrong.items():
            assert any(f[:2] == (name, row) and message in f[2] for f in found), (name, row, found)
            lines = [line for line in str(error.value).splitlines() if f"{name}.jsonl, row {row} (line {row})" in line]
            assert any(message in line for line in lines), (name, row, str(error.value))
    assert len(found) == sum(len(wrong) for _, _, wrong in BROKEN.values())
