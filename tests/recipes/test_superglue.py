"""SuperGLUE: nested files to rows, and answers back into the leaderboard's nesting."""

import json

import pytest

import onepass
from onepass.errors import DataError
from onepass.heads import check_kinds, make_kind
from onepass.recipes import RECIPES, write_recipe
from onepass.recipes.superglue import averages, multirc_answers
from onepass.tasks import make_task, read_task_file


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


def labelled_rows(split, rows, labels):
    if split != "test":
        rows = [row | {"label": labels[n % len(labels)]} for n, row in enumerate(rows)]
    return lines(*rows)


@pytest.fixture
def superglue(lay):
    files = {}
    for split in ("train", "val", "test"):
        pairs = [{"premise": f"why {n}", "hypothesis": f"goal {n}", "idx": n} for n in range(6)]
        questions = [{"question": f"why {n}", "passage": f"goal {n}", "idx": n} for n in range(6)]
        events = [
            {"premise": f"goal {n}.", "choice1": f"late {n}", "choice2": f" match {n} ", "question": "cause", "idx": n}
            for n in range(4)
        ]
        words = [
            {"word": "goal", "sentence1": f"a goal {n}", "sentence2": "goals wins", "idx": n, "version": 1.1}
            | {"start1": 2, "end1": 6, "start2": 0, "end2": 5}
            for n in range(4)
        ]
        target = {"span1_index": 0, "span1_text": "The match", "span2_index": 4, "span2_text": "it"}
        names = [{"text": f"the match is late , It wins {n}", "target": target, "idx": n} for n in range(4)]
        files[f"BoolQ/{split}.jsonl"] = labelled_rows(split, questions, [False, True])
        files[f"CB/{split}.jsonl"] = labelled_rows(split, pairs, ["neutral", "contradiction", "entailment"])
        files[f"RTE/{split}.jsonl"] = labelled_rows(split, pairs, ["entailment", "not_entailment"])
        files[f"COPA/{split}.jsonl"] = labelled_rows(split, events, [0, 1])
        files[f"WiC/{split}.jsonl"] = labelled_rows(split, words, [False, True])
        files[f"WSC/{split}.jsonl"] = labelled_rows(split, names, [False, True])
        files[f"MultiRC/{split}.jsonl"] = lines(*(paragraph(n, split != "test") for n in range(3)))
        files[f"ReCoRD/{split}.jsonl"] = lines(*(passage(n, split != "test") for n in range(3)))
    files["AX-b/AX-b.jsonl"] = lines({"sentence1": "goal", "sentence2": "match", "label": "entailment", "idx": 0})
    return lay(files)


def passage(number, labelled):
    text = f"Ann wins {number}\n@highlight\nBob is late with Ann"
    entities = [{"start": 0, "end": 2}, {"start": 22, "end": 24}, {"start": 39, "end": 41}]
    answers = {"answers": [{"start": 22, "end": 24, "text": "Bob"}, {"start": 0, "end": 2, "text": "Nobody"}]}
    query = {"query": "It is @placeholder .", "idx": 10 + number} | (answers if labelled else {})
    lost = {"query": "@placeholder ?", "idx": 20, "answers": [{"start": 0, "end": 0, "text": "Nobody"}]}
    queries = [query, lost] if labelled else [query]
    return {"idx": number, "source": "x", "passage": {"text": text, "entities": entities}, "qas": queries}


def test_multirc_has_a_row_for_each_answer(superglue, tmp_path, rows):
    made = write_recipe(RECIPES["superglue"], tmp_path / "tasks.yaml", superglue)
    found = rows(made.folder / "multirc-validation.jsonl")
    assert len(found) == 12
    assert found[5] == {
        "index": {"paragraph": 1, "question": 2, "answer": 1},
        "question_number": "1 2",
        "paragraph": "the goal 1 is late",
        "question_answer": "why is goal 0 ? late 1",
        "label": "true",
    }
    tasks = read_task_file(made.task_file, checks=[check_kinds]).tasks
    assert tasks["multirc"].metric == "f1a" and tasks["multirc"].options == {"group_by": "question_number"}
    assert tasks["multirc"].labels[1] == "true"
    assert tasks["boolq"].text == ("question", "passage")
    assert rows(made.folder / "boolq-train.jsonl")[1]["label"] == "true"


def test_words_are_marked_by_their_characters(superglue, tmp_path, rows):
    made = write_recipe(RECIPES["superglue"], tmp_path / "tasks.yaml", superglue)
    wic, wsc = (rows(made.folder / f"{name}-train.jsonl")[1] for name in ("wic", "wsc"))
    assert (wic["span1"], wic["span2"], wic["label"]) == ([2, 6], [0, 5], "true")
    assert [wsc["text"][slice(*wsc[name])] for name in ("span1", "span2")] == ["the match", "It"]


def test_the_queries_of_record_have_the_passages_entities(superglue, tmp_path, rows):
    made = write_recipe(RECIPES["superglue"], tmp_path / "tasks.yaml", superglue)
    found = rows(made.folder / "record-train.jsonl")
    assert len(found) == 3  # the query whose answer is no entity is left out
    assert found[0] == {
        "index": 10,
        "passage": "Ann wins 0\n- Bob is late with Ann",
        "query": "It is @placeholder .",
        "entities": ["Ann", "Bob"],
        "label": ["Bob"],
    }
    assert "label" not in rows(made.folder / "record-unlabelled.jsonl")[0]


def test_the_mean_is_the_leaderboards():
    scores = {known.name: {known.keys["metric"]: 70.0} for known in RECIPES["superglue"].sets}
    scores["cb"] |= {"accuracy": 90.0, "macro_f1": 60.0}
    scores["multirc"] = {"f1a": 60.0, "group_match": 20.0}
    assert averages(scores, {})["superglue"] == pytest.approx((6 * 70 + 75 + 40) / 8)
    assert averages({"cb": scores["cb"]}, {}) == {}


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
    names = ["AX-b", "BoolQ", "CB", "COPA", "MultiRC", "RTE", "ReCoRD", "WSC", "WiC"]
    assert sorted(found) == [f"{name}.jsonl" for name in names]
    assert [line["idx"] for line in found["BoolQ.jsonl"]] == list(range(6))
    assert {line["label"] for line in found["BoolQ.jsonl"]} <= {"false", "true"}
    assert {line["label"] for line in found["WSC.jsonl"]} <= {"False", "True"}
    assert {line["label"] for line in found["COPA.jsonl"]} <= {0, 1}
    assert found["ReCoRD.jsonl"][0]["idx"] == 10 and found["ReCoRD.jsonl"][0]["label"] in ("Ann", "Bob")
    assert found["RTE.jsonl"][0]["label"] in ("entailment", "not_entailment")
    assert len(found["MultiRC.jsonl"]) == 3
    result = run("evaluate", tmp_path / "model", made.task_file, "--json")
    assert {"f1a", "f1m", "group_match"} <= set(json.loads(result.stdout)["tasks"]["multirc"])
    assert list(json.loads(result.stdout)["averages"]) == ["superglue"]


def test_copas_labels_of_the_hub_are_numbers_of_candidates():
    """There they are called as the candidates' columns are."""
    (copa,) = [known for known in RECIPES["superglue"].sets if known.name == "copa"]
    row = {"premise": "a goal", "choice1": "late", "choice2": "a match", "question": "cause", "idx": 0}
    (made,) = copa.hub.read(iter([row | {"label": "choice2"}]))
    task = make_task("copa", {**copa.keys, "train": __file__})
    assert make_kind(task).target(made, task, ()).value.tolist() == [0, 1]
