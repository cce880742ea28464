"""SuperGLUE: nested files to rows, and answers back into the leaderboard's nesting."""

import json

import pytest

import onepass
from onepass.errors import DataError
from onepass.heads import check_kinds
from onepass.recipes import RECIPES, write_recipe
from onepass.recipes.superglue import multirc_answers
from onepass.tasks import read_task_file


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


def paragraph(number, labelled):
    def answer(index):
        return {"text": f"late {index}", "idx": index} | ({"label": index % 2} if labelled else {})

    questions = [
        {"question": f"why is goal {index} ?", "idx": 2 * number + index, "answers": [answer(0), answer(1)]}
        for index in range(2)
    ]
    return {"idx": number, "version": 1.1, "passage": {"text": f"the goal {number} is late", "questions": questions}}


@pytest.fixture
def superglue(lay):
    files = {}
    for split in ("train", "val", "test"):
        labelled = split != "test"
        labels = {"BoolQ": [False, True], "CB": ["neutral", "contradiction"], "RTE": ["entailment", "not_entailment"]}
        for name, pair in {"BoolQ": ("question", "passage"), "CB": ("premise", "hypothesis")}.items():
            rows = [{pair[0]: f"why {n}", pair[1]: f"goal {n}", "idx": n} for n in range(6)]
            if labelled:
                rows = [row | {"label": labels[name][n % 2]} for n, row in enumerate(rows)]
            files[f"{name}/{split}.jsonl"] = lines(*rows)
        files[f"RTE/{split}.jsonl"] = files[f"CB/{split}.jsonl"]
        for old, new in zip(labels["CB"], labels["RTE"], strict=True):
            files[f"RTE/{split}.jsonl"] = files[f"RTE/{split}.jsonl"].replace(f'"{old}"', f'"{new}"')
        files[f"MultiRC/{split}.jsonl"] = lines(*(paragraph(n, labelled) for n in range(3)))
    files["AX-b/AX-b.jsonl"] = lines({"sentence1": "goal", "sentence2": "match", "label": "entailment", "idx": 0})
    return lay(files)


def test_multirc_has_a_row_for_each_answer(superglue, tmp_path, rows):
    made = write_recipe(RECIPES["superglue"], tmp_path / "tasks.yaml", superglue)
    found = rows(made.folder / "multirc-validation.jsonl")
    assert len(found) == 12
    assert found[5] == {
        "index": {"paragraph": 1, "question": 2, "answer": 1},
        "paragraph": "the goal 1 is late",
        "question_answer": "why is goal 0 ? late 1",
        "label": "true",
    }
    tasks = read_task_file(made.task_file, checks=[check_kinds]).tasks
    assert tasks["multirc"].metric == "f1" and tasks["multirc"].labels[1] == "true"
    assert tasks["boolq"].text == ("question", "passage")
    assert rows(made.folder / "boolq-train.jsonl")[1]["label"] == "true"


def test_answers_are_nested_again():
    rows = [
        {"index": {"paragraph": 7, "question": question, "answer": answer}} for question in (3, 4) for answer in (0, 1)
    ]
    assert json.loads(multirc_answers(rows, ["true", "false", "false", "true"])) == {
        "idx": 7,
        "passage": {
            "questions": [
                {"idx": 3, "answers": [{"idx": 0, "label": 1}, {"idx": 1, "label": 0}]},
                {"idx": 4, "answers": [{"idx": 0, "label": 0}, {"idx": 1, "label": 1}]},
            ]
        },
    }


def test_a_file_of_another_form_is_told(superglue, tmp_path):
    (superglue / "MultiRC" / "val.jsonl").write_text('{"idx": 0, "text": "flat"}\n')
    with pytest.raises(DataError, match=r"val.jsonl, line 1 is not as expected: there is no 'passage'"):
        write_recipe(RECIPES["superglue"], tmp_path / "tasks.yaml", superglue)


def test_a_model_is_handed_in_with_the_original_names(superglue, tmp_path, encoder, run):
    made = write_recipe(RECIPES["superglue"], tmp_path / "tasks.yaml", superglue)
    small = [f"encoder={encoder}", "train.epochs=1", "train.max_length=32"]
    onepass.train(made.task_file, tmp_path / "model", overrides=small, progress=False)
    result = run("evaluate", tmp_path / "model", "--submission", tmp_path / "answers")
    assert result.exit_code == 0, result.stderr
    assert "AX-g.jsonl is not written" in result.stderr
    found = {
        path.name: [json.loads(line) for line in path.read_text().splitlines()]
        for path in (tmp_path / "answers").iterdir()
    }
    assert sorted(found) == ["AX-b.jsonl", "BoolQ.jsonl", "CB.jsonl", "MultiRC.jsonl", "RTE.jsonl"]
    assert [line["idx"] for line in found["BoolQ.jsonl"]] == list(range(6))
    assert {line["label"] for line in found["BoolQ.jsonl"]} <= {"false", "true"}
    assert found["RTE.jsonl"][0]["label"] in ("entailment", "not_entailment")
    assert len(found["MultiRC.jsonl"]) == 3
