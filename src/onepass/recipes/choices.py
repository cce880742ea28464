"""WinoGrande and CosmosQA: which of several candidates is right?"""

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from onepass.errors import DataError
from onepass.recipes.originals import json_lines, lines
from onepass.recipes.recipe import Hub, KnownSet, Part, Recipe, Row

_HUB_SPLITS = {"train": "train", "validation": "validation"}


def _wino_row(row: Row) -> Row:
    if "_" not in row["sentence"]:
        raise ValueError("the sentence has no blank (_)")
    return {column: row[column] for column in ("sentence", "option1", "option2", "answer")}


def cosmos_row(row: Row) -> Row:
    """The context, and the question with each answer."""
    candidates = [f"{row['question']} {row[f'answer{number}']}" for number in range(4)]
    return {"context": row["context"], "candidates": candidates, "label": int(row["label"])}


def _cosmos(path: Path) -> Iterator[Row]:
    if path.suffix == ".jsonl":
        yield from json_lines(cosmos_row)(path)
        return
    for number, row in enumerate(csv.DictReader(line + "\n" for _, line in lines(path)), 1):
        try:
            yield cosmos_row(row)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}, row {number} is not as expected: {error}.") from None


def _wino_part(*names: str) -> Part:
    return Part((*names, *(f"winogrande_1.1/{name}" for name in names)), json_lines(_wino_row))


def _cosmos_part(name: str) -> Part:
    return Part((f"{name}.csv", f"data/{name}.csv", f"{name}.jsonl", f"data/{name}.jsonl"), _cosmos)


WINOGRANDE = Recipe(
    "winogrande",
    "WinoGrande (Sakaguchi et al. 2020), the largest training set that is there; chance is 50.",
    (
        KnownSet(
            "winogrande",
            "Which of two words fills the blank?",
            {
                "kind": "choice",
                "text": "sentence",
                "choices": ["option1", "option2"],
                "blank": "_",
                "label": "answer",
                "numbered_from": 1,
                "metric": "accuracy",
            },
            {
                "train": _wino_part(*(f"train_{size}.jsonl" for size in ("xl", "l", "m", "s", "xs"))),
                "validation": _wino_part("dev.jsonl"),
            },
            Hub("allenai/winogrande", "winogrande_xl", _HUB_SPLITS, partial(map, _wino_row)),
        ),
    ),
)
COSMOSQA = Recipe(
    "cosmosqa",
    "CosmosQA (Huang et al. 2019), four answers to each question.",
    (
        KnownSet(
            "cosmosqa",
            "Which answer is right, going by the context?",
            {
                "kind": "choice",
                "text": "context",
                "choices": "candidates",
                "label": "label",
                "numbered_from": 0,
                "metric": "accuracy",
            },
            {"train": _cosmos_part("train"), "validation": _cosmos_part("valid")},
        ),
    ),
    {"max_length": 256},
)
