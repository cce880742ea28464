"""SuperGLUE: the eight tasks of the Wang et al. 2019 benchmark, from the folders of its download."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from onepass.recipes.originals import json_lines
from onepass.recipes.recipe import Answers, Hub, KnownSet, Part, Recipe, Results, Row

HUB_SPLITS = {"train": "train", "validation": "validation", "unlabelled": "test"}
FALSE_TRUE = ["false", "true"]
CHOICES = ("choice1", "choice2")
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
            made.append({"index": index, "question_number": f"{row['idx']} {question['idx']}", **texts, **label})
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
    number = f"{row['idx']['paragraph']} {row['idx']['question']}"
    return {"index": row["idx"], "question_number": number} | pair | _label(row)


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
    {
        "text": ["paragraph", "question_answer"],
        "label": "label",
        "labels": FALSE_TRUE,
        "group_by": "question_number",
        "metric": "f1a",
    },
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


def copa_row(row: Row) -> Row:
    """A premise and its candidates; the label is a number, where the hub has the name of a column."""
    made = _copied("premise", "question", *CHOICES)(row)
    return made | ({"label": CHOICES.index(made["label"])} if made.get("label") in CHOICES else {})


def copa_answers(rows: Sequence[Row], predictions: Sequence[Any]) -> str:
    """The number of the candidate."""
    numbers = [
        [row["choice1"].strip(), row["choice2"].strip()].index(prediction)
        for row, prediction in zip(rows, predictions, strict=True)
    ]
    return answers_lines()(rows, numbers)


def record_rows(row: Row) -> list[Row]:
    """One row for each query about a passage, with the passage's different entities as candidates."""
    text = row["passage"]["text"]
    # The end of an entity is its last character, not the one behind it.
    found = [text[entity["start"] : entity["end"] + 1].strip() for entity in row["passage"]["entities"]]
    entities = [name for name in dict.fromkeys(found) if name]
    made = []
    for query in row["qas"]:
        index = {"index": query["idx"], "passage": text.replace("@highlight\n", "- "), "query": query["query"]}
        right = {answer["text"].strip(): None for answer in query.get("answers") or []}
        answers = [name for name in right if name in entities]
        # An answer that is none of the entities cannot be chosen.
        if answers or "answers" not in query:
            made.append(index | {"entities": entities} | ({"label": answers} if answers else {}))
    return made


def _record_hub(row: Row) -> Row:
    entities = list(dict.fromkeys(name.strip() for name in row["entities"]))
    answers = [name.strip() for name in row["answers"] if name.strip() in entities]
    passage = row["passage"].replace("@highlight\n", "- ")
    made = {"index": row["idx"]["query"], "passage": passage, "query": row["query"], "entities": entities}
    return made | ({"label": answers} if answers else {})


def wic_row(row: Row) -> Row:
    """Two sentences, and the characters of the word in each."""
    spans = {f"span{n}": [int(row[f"start{n}"]), int(row[f"end{n}"])] for n in (1, 2)}
    return _copied("sentence1", "sentence2")(row) | spans


def wsc_row(row: Row) -> Row:
    """A text, and the characters of the name and of the pronoun in it; the originals count words."""
    target = row.get("target", row)  # the hub's rows are flat
    spans = {f"span{n}": span(row["text"], target[f"span{n}_index"], target[f"span{n}_text"]) for n in (1, 2)}
    return _copied("text")(row) | spans


def span(text: str, word: int, phrase: str) -> list[int]:
    """The characters of a phrase that begins with the so-manieth word: where it stands nearest to that.

    Where the text spells it otherwise, as many words from there as the phrase has.

    >>> span("The dog, said Ann, is hers.", 5, "hers"), span("The dog, said Ann, is hers.", 0, "the  dog")
    ([22, 26], [0, 8])
    """
    words = [match.span() for match in re.finditer(r"\S+", text)]
    first = min(word, len(words) - 1)
    places = [match.start() for match in re.finditer(re.escape(phrase), text, re.IGNORECASE)]
    if not places:
        last = min(first + max(len(phrase.split()), 1), len(words)) - 1
        return [words[first][0], words[last][1]]
    start = min(places, key=lambda place: abs(place - words[first][0]))
    return [start, start + len(phrase)]


COPA = KnownSet(
    "copa",
    "Which of two events is the cause or the effect?",
    {
        "kind": "choice",
        "text": "premise",
        "choices": list(CHOICES),
        "template": "{premise} What was the {question}?",
        "numbered_from": 0,
        "label": "label",
        "metric": "accuracy",
    },
    _parts("COPA", copa_row),
    _hub("copa", copa_row),
    {"unlabelled": Answers("COPA.jsonl", copa_answers)},
)
RECORD = KnownSet(
    "record",
    "Which entity of the passage fills the query's blank? Any of the right ones counts.",
    {
        "kind": "choice",
        "text": ["passage", "query"],
        "choices": "entities",
        "blank": "@placeholder",
        "numbered_from": "none",
        "label": "label",
        "metric": "accuracy",
    },
    _parts("ReCoRD", record_rows),
    _hub("record", _record_hub),
    {"unlabelled": Answers("ReCoRD.jsonl", answers_lines())},
)
WIC = KnownSet(
    "wic",
    "Does the word mean the same in both sentences?",
    {
        "kind": "words",
        "text": ["sentence1", "sentence2"],
        "words": ["span1", "span2"],
        "label": "label",
        "labels": FALSE_TRUE,
        "metric": "accuracy",
    },
    _parts("WiC", wic_row),
    _hub("wic", wic_row),
    {"unlabelled": Answers("WiC.jsonl", answers_lines())},
)
WSC = KnownSet(
    "wsc",
    "Does the pronoun stand for the name?",
    {
        "kind": "words",
        "text": "text",
        "words": ["span1", "span2"],
        "label": "label",
        "labels": FALSE_TRUE,
        "metric": "accuracy",
    },
    _parts("WSC", wsc_row),
    _hub("wsc.fixed", wsc_row),
    {"unlabelled": Answers("WSC.jsonl", answers_lines({"false": "False", "true": "True"}))},
)
SETS = (BOOLQ, CB, COPA, MULTIRC, RECORD, RTE, WIC, WSC)


def averages(validation: Results, test: Results) -> dict[str, float]:
    """The leaderboard's mean over eight tasks, but for ReCoRD, which counts with the share of right entities."""
    if not {known.name for known in SETS} <= set(validation):
        return {}
    scores = {**validation, **test}
    two = {"cb": ("accuracy", "macro_f1"), "multirc": ("f1a", "group_match")}  # tasks with two metrics
    names = {known.name: two.get(known.name, (known.keys["metric"],)) for known in SETS}
    return {"superglue": mean(mean(scores[name][metric] for metric in metrics) for name, metrics in names.items())}


SUPERGLUE = Recipe(
    "superglue",
    "SuperGLUE (Wang et al. 2019), eight tasks. The leaderboard's test sets have no labels: scores are those of the\n"
    "validation sets, and onepass evaluate MODEL tasks.yaml --submission DIR writes the files to hand in.\n"
    "MultiRC reads (paragraph, question and answer), so that a long paragraph is cut and not the question.\n"
    "Mean: CB counts with the mean of accuracy and macro F1, MultiRC with that of F1a and of the questions whose\n"
    "answers are all right (group_match), ReCoRD with accuracy.",
    SETS,
    {"max_length": 256},
    averages,
)
