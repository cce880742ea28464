"""onepass predict: texts, pairs, stdin and files."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from subprocess import PIPE
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from onepass.cli.given import _lines
from onepass.cli.predict import shown
from onepass.filejob.journal import FORMAT
from onepass.prediction import Prediction


def test_a_text_gets_an_answer_for_every_task_on_single_texts(run, model):
    result = run("predict", model, "late goal wins the match", "--json")
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert list(answer) == ["text", "tasks", "truncated"]
    assert list(answer["tasks"]) == ["topic", "tone"]
    assert list(answer["tasks"]["topic"]["scores"]) == ["politics", "sport"]
    assert sum(answer["tasks"]["topic"]["scores"].values()) == pytest.approx(1.0)
    assert answer["tasks"]["tone"]["score"] is None


def test_answers_come_in_the_order_of_the_texts(run, model):
    texts = ["goal", "the senate vote is late", "match"]
    result = run("predict", model, *texts, "--json", "--tasks", "topic")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["text"] for line in lines] == texts
    assert [list(line["tasks"]) for line in lines] == [["topic"]] * 3


def test_tasks_may_be_given_one_by_one(run, model):
    result = run("predict", model, "goal", "--json", "--tasks", "tone", "--tasks", "topic")
    assert set(json.loads(result.stdout)["tasks"]) == {"topic", "tone"}


def test_without_json_the_answers_can_be_read(run, model):
    result = run("predict", model, "late goal")
    assert result.stdout.startswith("late goal\n  topic  ") and "%" in result.stdout


def test_a_long_text_is_not_shown_whole_and_tasks_that_were_not_asked_are_named(run, model):
    result = run("predict", model, "goal " * 1000)
    assert result.stdout.splitlines()[0] == ("goal " * 60)[:297] + "...   (cut: too long)"
    assert result.stderr == "Not asked, because they read something else than these texts: same. See --pair, --rows.\n"
    assert run("predict", model, "goal", "--tasks", "topic").stderr == ""


def test_a_row_that_is_nested_without_end_is_told(run, model):
    result = run("predict", model, "--rows", "[" * 100_000)
    assert result.exit_code == 2 and "is not valid JSON" in result.stderr


def test_several_labels_are_shown_as_words():
    assert shown(Prediction(["calm", "late"], 0.5)) == "calm, late"
    assert shown(Prediction([], 0.5)) == "-"


def test_pairs_come_in_twos(run, model):
    result = run("predict", model, "goal", "late goal", "goal", "vote", "--pair", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["text"] for line in lines] == [["goal", "late goal"], ["goal", "vote"]]
    assert [list(line["tasks"]) for line in lines] == [["same"], ["same"]]


def test_stdin_is_read_line_by_line_without_blank_lines(run, model):
    result = run("predict", model, "-", "--json", stdin="late goal\n\nsenate vote\r\n")
    assert result.stderr.endswith("1 blank line of stdin was passed over.\n")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["late goal", "senate vote"]


def test_no_text_on_stdin_is_said(run, model):
    result = run("predict", model, "-", stdin="\n")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Nothing to label: stdin has no text.\n"


def test_pairs_on_stdin_have_a_tab_between_them(run, model):
    result = run("predict", model, "-", "--pair", "--json", stdin="goal\tlate goal\n")
    assert json.loads(result.stdout)["text"] == ["goal", "late goal"]
    result = run("predict", model, "-", "--pair", "--json", stdin="goal\n")
    assert result.exit_code == 2 and "stdin, line 1" in result.stderr


def test_a_text_of_stdin_is_answered_before_the_next_is_there(model):
    command = [sys.executable, "-m", "onepass", "predict", str(model), "-", "--json"]
    # Without PYTHONUNBUFFERED, which would hide that an answer is held back.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, env=environment, text=True) as process:
        for text in ("late goal", "senate vote"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["text"] == text
        process.stdin.write("no end of line")
        process.stdin.close()
        assert json.loads(process.stdout.readline())["text"] == "no end of line"


def test_stdin_that_is_not_utf8_is_told(run, model):
    result = run("predict", model, "-", "--json", stdin=b"goal\ncaf\xe9\n")
    assert result.exit_code == 2 and "stdin, line 2: byte 0xe9 is not UTF-8" in result.stderr


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": ["late"]}', "line 4: task 'topic' has a list in 'text' where a text is needed."),
        ('{"title": "late"}', "line 4: a row with 'title' cannot answer: topic (text)."),
        ("{late}", "line 4: '{late}' is not valid JSON"),
    ],
)
def test_a_row_of_stdin_that_cannot_be_answered_is_named_with_its_line(run, model, monkeypatch, row, message):
    monkeypatch.setattr("onepass.cli.given.ROWS", 2)  # read at a time
    lines = ['{"text": "goal"}', "", '{"text": "vote"}', row, '{"text": "match"}']
    result = run("predict", model, "-", "--rows", "--json", "--tasks", "topic", stdin="\n".join(lines))
    assert result.exit_code == 2 and f"stdin, {message}" in result.stderr
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == [{"text": "goal"}, {"text": "vote"}]


@pytest.mark.parametrize(
    ("rows", "stdin"), [([], b"goal\nvote\ncaf\xe9\n"), (["--rows"], b'{"text": "goal"}\n{"text": "vote"}\n{late}\n')]
)
def test_what_stands_before_a_line_that_cannot_be_read_is_answered(run, model, rows, stdin):
    result = run("predict", model, "-", *rows, "--json", "--tasks", "topic", stdin=stdin)
    assert result.exit_code == 2 and "stdin, line 3: " in result.stderr
    assert len(result.stdout.splitlines()) == 2


class Piece(bytes):
    def __radd__(self, before):
        raise AssertionError("what came before is copied at each piece: a line of 64 MB in a pipe took 40 seconds")


def test_a_line_that_comes_in_pieces_is_joined_once():
    pieces = map(Piece, [b"go", b"al\n\nla", b"te", b" vote\r", b"\n\n", b"end", b""])
    found = _lines(SimpleNamespace(read1=lambda size: next(pieces)))
    assert [line for line in found if line is not None] == [b"goal", b"", b"late vote\r", b"", b"end"]


def test_what_stands_before_a_row_that_cannot_be_answered_is_answered(run, model):
    stdin = '{"text": "goal"}\n{"text": 5}\n{"text": {}}\n'
    result = run("predict", model, "-", "--rows", "--json", "--tasks", "topic", stdin=stdin)
    assert result.exit_code == 2 and result.stderr.startswith("stdin, line 3: task 'topic' has an object")
    assert len(result.stdout.splitlines()) == 2


def test_a_pair_of_stdin_is_named_with_its_line_among_blank_ones(run, model):
    result = run("predict", model, "-", "--pair", stdin="\n\ngoal\n")
    assert result.exit_code == 2 and "stdin, line 3: 1 texts" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Nothing to label"),
        (["goal", "--tasks", "topics"], "Did you mean 'topic'?"),
        (["goal", "--tasks", "same"], "cannot answer"),
        (["goal", "--pair"], "in twos"),
        (["goal", "--output", "x.csv"], "--input"),
        (["goal", "--input", "x.csv"], "not both"),
        (["--input", "x.csv"], "--output"),
        (["goal", "--rejects", "x.jsonl"], "--rejects"),
        (["--input", "x.csv", "--output", "y.jsonl", "--spreadsheet-safe"], ".csv and .tsv"),
        (["--input", "x.txt", "--json"], "onepass predict MODEL - < x.txt"),
        (["--input", "nowhere.csv", "--json"], "There is no file nowhere.csv"),
        (["--input", "x.csv", "--output", "x.xlsx"], ".parquet"),
        (["--input", "x.csv", "--output", "nowhere/x.csv"], "There is no folder nowhere"),
    ],
)
def test_wrong_questions_get_a_message_and_exit_2(run, model, arguments, message):
    result = run("predict", model, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_damaged_model_is_refused(process, model, tmp_path):
    damaged = tmp_path / "model"
    shutil.copytree(model, damaged)
    weights = damaged / "tasks" / "topic" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00\x01")
    result = process("predict", damaged, "goal", "--json")
    assert (result.returncode, result.stdout) == (2, "")
    assert "tasks/topic/weights.safetensors was changed" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_model_is_told(run, tmp_path):
    result = run("predict", tmp_path / "nowhere", "goal")
    assert result.exit_code == 2 and "There is no model folder" in result.stderr


@pytest.fixture
def mails(tmp_path):
    path = tmp_path / "mails.csv"
    path.write_text('id,text\n1,late goal\n2,\n3,"senate vote, ""why"" ?"\n')
    return path


def test_a_file_of_another_encoding_is_refused_as_a_whole(run, model, mails, tmp_path):
    mails.write_bytes(("id,text\n" + "1,café\n2,goal\n" * 3).encode("cp1252"))
    result = run("predict", model, "--input", mails, "--output", tmp_path / "out.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "line 2: byte 13 of the file (0xe9) is not UTF-8" in result.stderr and "iconv" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [mails.name]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_a_file_comes_back_with_a_column_for_each_answer(run, model, mails, tmp_path, ending):
    output = tmp_path / f"out.{ending}"
    result = run("predict", model, "--input", mails, "--output", output, "--tasks", "topic,tone")
    assert result.exit_code == 0, result.stderr
    rows = read(output)
    assert [list(row) for row in rows] == [["id", "text", "topic", "topic_score", "tone", "truncated"]] * 2
    assert [row["text"] for row in rows] == ["late goal", 'senate vote, "why" ?']
    assert "Rows labelled: 2," in result.stderr and "Rows that could not be labelled: 1," in result.stderr
    (reject,) = read(tmp_path / f"out.{ending}.rejects.jsonl")
    assert reject == {"row": 2, "line": 3, "reason": "there is no text in 'text'.", "start": "2"}

    alone = json.loads(run("predict", model, "late goal", "--json").stdout)["tasks"]
    assert rows[0]["topic"] == alone["topic"]["label"]
    assert float(rows[0]["topic_score"]) == pytest.approx(alone["topic"]["score"], abs=1e-6)
    assert float(rows[0]["tone"]) == pytest.approx(alone["tone"]["label"], abs=1e-6)


def read(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    text = path.read_text()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))


def test_pair_tasks_find_their_columns_in_a_file(run, model, tmp_path):
    source = tmp_path / "pairs.jsonl"
    source.write_text('{"first": "goal", "second": "late goal"}\n{"first": "goal", "second": "vote"}\n')
    result = run("predict", model, "--input", source, "--output", tmp_path / "out.parquet", "--tasks", "same")
    assert result.exit_code == 0, result.stderr
    names = pq.read_table(tmp_path / "out.parquet").column_names
    assert names == ["first", "second", "same", "same_score", "truncated"]


def test_a_job_is_told_as_json(run, model, tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text\nlate goal\n\ngoal,vote\n")
    result = run("predict", model, "--input", source, "--output", output, "--json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["rows"], told["rejected"], told["truncated"], told["not_asked"]) == (1, 1, 0, ["same"])
    assert told["output"] == str(output) and told["rejects"] == f"{output}.rejects.jsonl"
    source.write_text("text\nlate goal\n")
    files = "--output", tmp_path / "other.csv", "--rejects", tmp_path / "bad.jsonl"
    assert json.loads(run("predict", model, "--input", source, *files, "--json").stdout)["rejects"] == str(files[-1])
    result = run("predict", model, "--input", source, "--output", output, "--json", "--tasks", "topic")
    assert result.exit_code == 2 and result.stdout == "" and "exists already" in result.stderr


def test_another_column_can_hold_the_text(run, model, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("headline\nlate goal\n")
    result = run("predict", model, "--input", source, "--output", tmp_path / "out.csv")
    assert result.exit_code == 2
    assert "no column 'text'" in result.stderr and "headline" in result.stderr and "--text" in result.stderr
    result = run("predict", model, "--input", source, "--output", tmp_path / "out.csv", "--text", "headline")
    assert result.exit_code == 0, result.stderr
    assert list(read(tmp_path / "out.csv")[0]) == ["headline", "topic", "topic_score", "tone", "truncated"]


def test_a_file_is_asked_the_tasks_whose_columns_it_has(run, model, mails, tmp_path):
    result = run("predict", model, "--input", mails, "--output", tmp_path / "out.csv")
    assert result.exit_code == 0, result.stderr
    assert list(read(tmp_path / "out.csv")[0])[2:] == ["topic", "topic_score", "tone", "truncated"]
    assert "Not asked, because" in result.stderr and "lacks columns that they read: same." in result.stderr
    assert "With --text COLUMN all tasks on single texts read that column." in result.stderr
    assert json.loads(run("predict", model, "--input", mails, "--json").stdout.splitlines()[0])["tasks"].keys() == {
        "topic",
        "tone",
    }
    named = run("predict", model, "--input", mails, "--output", tmp_path / "b.csv", "--tasks", "topic,same")
    assert named.exit_code == 2 and "no column 'first', which same reads" in named.stderr


def test_answers_on_stdout_are_no_columns_that_could_be_there_already(run, model, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("text,topic\nlate goal,sport\n")
    result = run("predict", model, "--input", source, "--tasks", "topic", "--json")
    assert result.exit_code == 0 and set(json.loads(result.stdout)["tasks"]) == {"topic"}


def test_columns_that_are_there_already_are_not_written_over(run, model, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("text,topic\nlate goal,sport\n")
    arguments = ["predict", model, "--input", source, "--output", tmp_path / "out.csv", "--text", "text"]
    result = run(*arguments)
    assert result.exit_code == 2 and "topic" in result.stderr and "--prefix" in result.stderr
    assert run(*arguments, "--prefix", "predicted_").exit_code == 0
    assert list(read(tmp_path / "out.csv")[0])[:3] == ["text", "topic", "predicted_topic"]


def test_an_existing_output_is_replaced_only_by_force(run, model, mails, tmp_path):
    output = tmp_path / "out.csv"
    output.write_text("mine")
    arguments = ["predict", model, "--input", mails, "--output", output, "--text", "text"]
    result = run(*arguments)
    assert result.exit_code == 2 and "exists already" in result.stderr
    assert output.read_text() == "mine"
    assert run(*arguments, "--force").exit_code == 0
    assert output.read_text().startswith("id,text,topic,")


def test_bad_rows_go_to_the_reject_file(run, model, tmp_path):
    source, rejects = tmp_path / "in.csv", tmp_path / "bad.csv"
    source.write_bytes(b"id,text\n1,goal\n2,goal,match,vote\n3,caf\xe9\n4,a\0b\n5,vote\n")
    arguments = ["predict", model, "--input", source, "--text", "text", "--rejects", rejects]
    result = run(*arguments, "--output", tmp_path / "out.csv")
    assert result.exit_code == 0, result.stderr
    assert [row["id"] for row in read(tmp_path / "out.csv")] == ["1", "5"]
    assert [row["line"] for row in read(rejects)] == ["3", "4", "5"]
    assert "Rows that could not be labelled: 3," in result.stderr


def test_a_file_without_a_good_row_is_told(run, model, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("id,text\n1,\n2,\n")
    result = run("predict", model, "--input", source, "--output", tmp_path / "out.csv", "--text", "text")
    assert result.exit_code == 2 and "No row of" in result.stderr


def test_a_text_of_a_megabyte_is_cut_and_reported(run, model, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("text\n" + "goal " * 200_000 + "\nlate goal\n")
    result = run("predict", model, "--input", source, "--output", tmp_path / "out.csv", "--text", "text")
    assert result.exit_code == 0 and "longer than the model reads: 1" in result.stderr
    assert [line.rpartition(",")[2] for line in (tmp_path / "out.csv").read_text().splitlines()] == [
        "truncated",
        "True",
        "False",
    ]


def test_a_killed_job_goes_on_when_the_command_is_run_again(run, model, tmp_path):
    source, clean = tmp_path / "in.csv", tmp_path / "clean.csv"
    source.write_text("text\n" + "".join(f"late goal {n % 700} wins the match\n" for n in range(4000)))
    assert run("predict", model, "--input", source, "--output", clean, "--text", "text").exit_code == 0
    arguments = ["predict", model, "--input", source, "--output", tmp_path / "out.csv", "--text", "text"]
    journal = tmp_path / ".out.csv.job" / "journal.json"
    killed = subprocess.Popen([sys.executable, "-m", "onepass", *map(str, arguments)], stderr=subprocess.PIPE)
    while not journal.exists() and killed.poll() is None:
        time.sleep(0.005)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL, killed.stderr.read()
    assert not (tmp_path / "out.csv").exists()
    result = run(*arguments)
    assert result.exit_code == 0 and "where an earlier one had stopped" in result.stderr
    assert (tmp_path / "out.csv").read_bytes() == clean.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean.csv", "in.csv", "out.csv"]


def test_another_model_does_not_go_on_with_the_job(run, model, tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text\ngoal\n")
    folder = tmp_path / ".out.csv.job"
    folder.mkdir()
    state = {"format": FORMAT, "settings": {"model": "another"}, "columns": {"text": "text"}}
    (folder / "journal.json").write_text(json.dumps(state))
    arguments = ["predict", model, "--input", source, "--output", output, "--text", "text"]
    result = run(*arguments)
    assert result.exit_code == 2 and "differs in:" in result.stderr and "--force" in result.stderr
    assert run(*arguments, "--force").exit_code == 0


def test_a_file_can_be_labelled_to_stdout(run, model, mails):
    result = run("predict", model, "--input", mails, "--json", "--text", "text")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["text"] for line in lines] == ["late goal", 'senate vote, "why" ?']
    assert list(lines[0]["tasks"]) == ["topic", "tone"]
    assert "row 2 (line 3): there is no text in 'text'." in result.stderr


def test_a_device_and_a_precision_can_be_chosen(run, model):
    result = run("predict", model, "late goal", "--json", "--device", "cpu", "--precision", "bf16")
    assert result.exit_code == 0, result.stderr
    assert list(json.loads(result.stdout)["tasks"]) == ["topic", "tone"]
    result = run("predict", model, "late goal", "--precision", "bf16")
    assert result.exit_code == 2 and "needs --device" in result.stderr


def test_a_file_of_which_no_row_could_be_answered_is_an_error_on_stdout_too(run, model, tmp_path):
    source = tmp_path / "in.csv"
    for content, message in (('text\n \n" "\n', "No row of"), ("text\n", "has no rows")):
        source.write_text(content)
        result = run("predict", model, "--input", source, "--tasks", "topic", "--json")
        assert result.exit_code == 2 and message in result.stderr and result.stdout == "", result.stderr


def test_stdin_and_texts_do_not_go_together(run, model):
    result = run("predict", model, "-", "goal", stdin="vote\n")
    assert result.exit_code == 2 and "stdin" in result.stderr and result.stdout == ""
