"""SuperGLUE: tasks of the Wang et al. 2019 benchmark, from the folders of its download."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from onepass.recipes.originals import json_lines
from onepass.recipes.recipe import Answers, Hub, KnownSet, Part, Recipe, Row

HUB_SPLITS = {"train": "train", "validation": "validation", "unlabelled": "test"}
FALSE_TRUE = ["false", "true"]
ENTAILED = ["entailment", "not_entailment"]
Rows = Row | Sequence[Row]


def _parts(folder: str, make: Callable[[Row], Rows]) -> dict[str, Part]:
    read = json_lines(make)
    return {
        "train": Part((f"{folder}/train.jsonl",), read),
        "validation": Part((f"{folder}/val.jsonl",), read),
        "unlabelled": Part((f"{folder}/test.jsonl",), read, optional=True),
    }


def _from_hub(make: Callable[[Row], Rows]) -> Callable[[Iterator[Row]], Iterator[Row]]:
    def read(rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            made = make(row)
            yield from [made] if isinstance(made, dict) else made

    return read


def _copied(*columns: str) -> Callable[[Row], Row]:
    """These columns, the row's number and its label in words; test rows have no label."""

    def make(row: Row) -> Row:
        return {"index": row["idx"], **{column: row[column] for column in columns}} | _label(row)

    return make


def _label(row: Row) -> Row:
    """The label in words, if the row has one: files have true and false, the hub the words False and True."""
    found = row.get("label")
    if found is None:
        return {}
    return {"label": str(found).lower() if str(found).lower() in FALSE_TRUE else found}


def answers_lines(spelling: Mapping[Any, Any] | None = None) -> Callable[[Sequence[Row], Sequence[Any]], str]:
    """One JSON object a row: its number, and the label in the leaderboard's spelling."""

    def write(rows: Sequence[Row], predictions: Sequence[Any]) -> str:
        found = []
        for row, prediction in zip(rows, predictions, strict=True):
            found.append({"idx": row["index"], "label": spelling[prediction] if spelling else prediction})
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in found)

    return write


def multirc_rows(row: Row) -> list[Row]:
    """One row for each answer of each question about a paragraph."""
    made = []
    for question in row["passage"]["questions"]:
        for answer in question["answers"]:
            index = {"paragraph": row["idx"], "question": question["idx"], "answer": answer["idx"]}
            texts = {
                "paragraph": row["passage"]["text"],
                "question_answer": f"{question['question']} {answer['text']}",
            }
            label = {"label": FALSE_TRUE[int(answer["label"])]} if "label" in answer else {}
            made.append({"index": index, **texts, **label})
    return made


def multirc_answers(rows: Sequence[Row], predictions: Sequence[Any]) -> str:
    """The answers nested as the questions are in the original file."""
    nested: dict[int, dict[int, list[Row]]] = {}
    for row, prediction in zip(rows, predictions, strict=True):
        place = row["index"]
        answers = nested.setdefault(place["paragraph"], {}).setdefault(place["question"], [])
        answers.append({"idx": place["answer"], "label": FALSE_TRUE.index(prediction)})
    lines = []
    for paragraph, questions in nested.items():
        listed = [{"idx": question, "answers": answers} for question, answers in questions.items()]
        lines.append(json.dumps({"idx": paragraph, "passage": {"questions": listed}}) + "\n")
    return "".join(lines)


def _multirc_hub(row: Row) -> Row:
    pair = {"paragraph": row["paragraph"], "question_answer": f"{row['question']} {row['answer']}"}
    return {"index": row["idx"]} | pair | _label(row)


def _axb(row: Row) -> Row:
    return {"index": row["idx"], "premise": row["sentence1"], "hypothesis": row["sentence2"]}


def _axg(row: Row) -> Row:
    return {"index": row["idx"], "premise": row["premise"], "hypothesis": row["hypothesis"]}


def _hub(config: str, make: Callable[[Row], Rows]) -> Hub:
    return Hub("aps/super_glue", config, HUB_SPLITS, _from_hub(make))


BOOLQ = KnownSet(
    "boolq",
    "Is the answer to the question yes, going by the passage?",
    {"text": ["question", "passage"], "label": "label", "labels": FALSE_TRUE, "metric": "accuracy"},
    _parts("BoolQ", _copied("question", "passage")),
    _hub("boolq", _copied("question", "passage")),
    {"unlabelled": Answers("BoolQ.jsonl", answers_lines())},
)
CB = KnownSet(
    "cb",
    "Does the premise entail the hypothesis? The leaderboard takes the mean of accuracy and macro F1.",
    {
        "text": ["premise", "hypothesis"],
        "label": "label",
        "labels": ["entailment", "contradiction", "neutral"],
        "metric": "accuracy",
    },
    _parts("CB", _copied("premise", "hypothesis")),
    _hub("cb", _copied("premise", "hypothesis")),
    {"unlabelled": Answers("CB.jsonl", answers_lines())},
)
MULTIRC = KnownSet(
    "multirc",
    "Is this an answer to the question about the paragraph? F1a: the F1 of the label true over all answers.",
    {"text": ["paragraph", "question_answer"], "label": "label", "labels": FALSE_TRUE, "metric": "f1"},
    _parts("MultiRC", multirc_rows),
    _hub("multirc", _multirc_hub),
    {"unlabelled": Answers("MultiRC.jsonl", multirc_answers)},
)
RTE = KnownSet(
    "rte",
    "Does the premise entail the hypothesis?",
    {"text": ["premise", "hypothesis"], "label": "label", "labels": ENTAILED, "metric": "accuracy"},
    _parts("RTE", _copied("premise", "hypothesis"))
    | {
        "unlabelled_axb": Part(("AX-b/AX-b.jsonl",), json_lines(_axb), optional=True),
        "unlabelled_axg": Part(("AX-g/AX-g.jsonl",), json_lines(_axg), optional=True),
    },
    _hub("rte", _copied("premise", "hypothesis")),
    {
        "unlabelled": Answers("RTE.jsonl", answers_lines()),
        "unlabelled_axb": Answers("AX-b.jsonl", answers_lines()),
        "unlabelled_axg": Answers("AX-g.jsonl", answers_lines()),
    },
)

SUPERGLUE = Recipe(
    "superglue",
    "SuperGLUE (Wang et al. 2019): its tasks on pairs of texts. The leaderboard's test sets have no labels: scores\n"
    "are those of the validation sets, and onepass evaluate MODEL tasks.yaml --submission DIR writes the files to\n"
    "hand in. MultiRC reads (paragraph, question and answer), so that a long paragraph is cut and not the question.",
    (BOOLQ, CB, MULTIRC, RTE),
    {"max_length": 256},
)
