"""GLUE: from the download's folders to a task file, a model, its means and the leaderboard's files."""

import json

import pytest
import yaml

import onepass
from onepass.errors import DataError
from onepass.heads import check_kinds
from onepass.recipes import RECIPES, write_answers, write_recipe
from onepass.recipes.glue import averages
from onepass.tasks import read_task_file


def test_the_task_file_is_valid_and_names_the_papers_metrics(glue, tmp_path):
    made = write_recipe(RECIPES["glue"], tmp_path / "tasks.yaml", glue)
    file = read_task_file(made.task_file, checks=[check_kinds])
    metrics = {name: task.metric for name, task in file.tasks.items()}
    assert metrics == {
        "cola": "matthews",
        "sst2": "accuracy",
        "mrpc": "f1",
        "stsb": "spearman",
        "qqp": "f1",
        "mnli": "accuracy",
        "qnli": "accuracy",
        "rte": "accuracy",
        "wnli": "accuracy",
    }
    # F1 is that of the second label
    assert file.tasks["mrpc"].labels[1] == "equivalent" and file.tasks["qqp"].labels[1] == "duplicate"
    assert file.tasks["qnli"].text == ("question", "sentence")
    assert file.tasks["mnli"].text == ("premise", "hypothesis")
    assert file.tasks["stsb"].kind == "regression"
    assert file.tasks["mnli"].test is not None and file.tasks["rte"].test is None


def test_rows_keep_their_quotes_and_get_labels_in_words(glue, tmp_path, rows):
    made = write_recipe(RECIPES["glue"], tmp_path / "tasks.yaml", glue)
    assert rows(made.folder / "cola-train.jsonl")[1] == {"sentence": 'the "goal 1 is late', "label": "acceptable"}
    assert rows(made.folder / "mrpc-train.jsonl")[0] == {
        "sentence1": 'the "goal" 0',
        "sentence2": "late goal 0",
        "label": "not_equivalent",
    }
    assert rows(made.folder / "stsb-validation.jsonl")[3]["label"] == 1.5
    assert rows(made.folder / "wnli-train.jsonl")[1]["label"] == "entailment"
    assert rows(made.folder / "qqp-unlabelled.jsonl") == [
        {"index": "0", "question1": "why ?", "question2": "why is it ?"}
    ]
    # the cut line of QQP and the MNLI row without a label are left out
    assert made.rows["qqp"]["train"] == 8 and made.rows["mnli"]["train"] == 9


def test_all_missing_files_are_told_at_once(glue, tmp_path):
    (glue / "CoLA" / "dev.tsv").unlink()
    (glue / "MNLI" / "train.tsv").unlink()
    (glue / "MRPC" / "test.tsv").unlink()  # may be missing: it is only for the leaderboard
    with pytest.raises(DataError) as raised:
        write_recipe(RECIPES["glue"], tmp_path / "tasks.yaml", glue)
    message = str(raised.value)
    assert "cola, validation: CoLA/dev.tsv" in message and "mnli, train: MNLI/train.tsv" in message
    assert "--tasks" in message and "MRPC" not in message
    assert not (tmp_path / "tasks.yaml").exists() and not (tmp_path / "glue").exists()
    made = write_recipe(RECIPES["glue"], tmp_path / "tasks.yaml", glue, only=["rte", "sst2"])
    assert list(yaml.safe_load(made.task_file.read_text())["tasks"]) == ["sst2", "rte"]


def test_a_label_that_nobody_knows_is_a_fault_and_no_row_to_leave_out(glue, tmp_path):
    file = glue / "RTE" / "train.tsv"
    file.write_text(file.read_text().replace("not_entailment", "contradiction"))
    with pytest.raises(DataError, match=r"RTE/train\.tsv, line 3 .*label is 'contradiction'.*entailment"):
        write_recipe(RECIPES["glue"], tmp_path / "tasks.yaml", glue, only=["rte"])


def test_mrpc_can_be_built_from_microsofts_own_file(glue, tmp_path, rows):
    (glue / "MRPC" / "train.tsv").unlink()
    (glue / "MRPC" / "dev.tsv").unlink()
    lines = [f"{n % 2}\t{n}\t{n + 100}\tgoal {n}\tmatch {n}" for n in range(6)]
    text = "\n".join(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *lines])
    (glue / "MRPC" / "msr_paraphrase_train.txt").write_text(text)
    with pytest.raises(DataError, match=r"dev_ids\.tsv"):
        write_recipe(RECIPES["glue"], tmp_path / "tasks.yaml", glue, only=["mrpc"])
    (glue / "MRPC" / "dev_ids.tsv").write_text("1\t101\n4\t104\n")
    made = write_recipe(RECIPES["glue"], tmp_path / "tasks.yaml", glue, only=["mrpc"])
    assert [row["sentence1"] for row in rows(made.folder / "mrpc-validation.jsonl")] == ["goal 1", "goal 4"]
    assert made.rows["mrpc"]["train"] == 4


def test_the_means_are_those_of_the_papers():
    validation = {name: {"accuracy": 80.0, "f1": 90.0} for name in ("sst2", "mrpc", "qqp", "qnli", "rte")}
    validation |= {"cola": {"matthews": 60.0}, "stsb": {"pearson": 88.0, "spearman": 86.0}}
    validation |= {"mnli": {"accuracy": 84.0}}
    found = averages(validation, {"mnli": {"accuracy": 86.0}})
    assert found["mtop"] == pytest.approx((60 + 3 * 80 + 2 * 90 + 86 + 84 + 86) / 9)
    assert found["mtop_dev"] == pytest.approx((60 + 3 * 80 + 2 * 80 + 87 + 84 + 86) / 9)
    assert found["mttag"] == pytest.approx((60 + 3 * 80 + 2 * 80 + 86 + 85) / 8)
    assert found["mttag_small"] == pytest.approx((80 + 80 + 86 + 60) / 4)
    assert averages({"rte": {"accuracy": 1.0}}, {}) == {}


def test_a_model_of_a_recipe_is_scored_and_handed_in(glue, tmp_path, encoder, run):
    task_file = tmp_path / "tasks.yaml"
    result = run("init", "--recipe", "glue", "--from", glue, "-o", task_file)
    assert result.exit_code == 0, result.stderr
    small = [f"encoder={encoder}", "train.epochs=1", "train.max_length=32"]
    onepass.train(task_file, tmp_path / "model", overrides=small, progress=False)

    result = run("evaluate", tmp_path / "model", task_file, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["tasks"]["mnli"]["rows"] == 3 and found["tasks"]["mnli"]["split"] == "test"
    assert set(found["averages"]) == {"mtop", "mtop_dev", "mttag", "mttag_small"}

    answers = tmp_path / "answers"
    result = run("evaluate", tmp_path / "model", task_file, "--submission", answers)
    assert result.exit_code == 0, result.stderr
    names = ["AX", "CoLA", "MNLI-m", "MNLI-mm", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B", "WNLI"]
    assert sorted(path.name for path in answers.iterdir()) == [f"{name}.tsv" for name in names]
    tables = {path.stem: [line.split("\t") for line in path.read_text().splitlines()] for path in answers.iterdir()}
    assert all(table[0] == ["index", "prediction"] for table in tables.values())
    assert [row[0] for row in tables["MNLI-m"][1:]] == ["0", "1", "2"]
    assert {row[1] for row in tables["CoLA"][1:]} <= {"0", "1"}
    assert tables["QNLI"][1][1] in ("entailment", "not_entailment")
    assert tables["AX"][1][1] in ("entailment", "neutral", "contradiction")
    assert 0 <= float(tables["STS-B"][1][1]) <= 5
    model = onepass.load(tmp_path / "model")
    (alone,) = model.predict([("why ?", "it is")], tasks=["qnli"])
    assert tables["QNLI"][1][1] == alone["qnli"].label

    result = run("evaluate", tmp_path / "model", task_file, "--submission", answers)
    assert result.exit_code == 2 and "not empty" in result.stderr
    (tmp_path / "glue" / "cola-unlabelled.jsonl").unlink()
    handed = write_answers(model, RECIPES["glue"], read_task_file(task_file).tasks, tmp_path / "more")
    assert "CoLA.tsv" in handed.missing and "cola-unlabelled.jsonl" in handed.missing["CoLA.tsv"]


def test_a_submission_needs_a_recipe(model, run, tmp_path):
    result = run("evaluate", model, "--submission", tmp_path / "answers")
    assert result.exit_code == 2 and "onepass init --recipe" in result.stderr


def test_scores_are_kept_within_the_scale_of_stsb():
    write = next(known for known in RECIPES["glue"].sets if known.name == "stsb").answers["unlabelled"].write
    assert write([{"index": 4}, {"index": 5}], [5.7, -0.25]) == "index\tprediction\n4\t5.000\n5\t0.000\n"
