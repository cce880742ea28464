"""Kinds of task that columns are clear about."""

import json
from pathlib import Path
from typing import Any

import pytest

from onepass.data.guess import guess_task_file
from onepass.heads import KINDS, check_kinds
from onepass.tasks import Task, read_task_file

ROWS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "tagging": (
        [{"id": i, "tokens": ["a", f"b{i}"], "ner_tags": ["O", "B-x"]} for i in range(30)],
        {"text": ("tokens",), "label": "ner_tags", "options": {}},
    ),
    "extraction": (
        [
            {"question": f"who is {i}?", "context": f"he is {i} today", "answers": ["today"], "answer_start": [8]}
            for i in range(30)
        ],
        {"text": ("question", "context"), "label": "answers", "options": {"starts": "answer_start"}},
    ),
    "choice": (
        [
            {
                "premise": f"it was {i} then",
                "choice1": f"a {i}",
                "choice2": f"b {i}",
                "question": "cause",
                "label": 1 + i % 2,
            }
            for i in range(30)
        ],
        {
            "text": ("premise", "question"),
            "label": "label",
            "options": {"choices": ["choice1", "choice2"], "numbered_from": 1},
        },
    ),
    "words": (
        [
            {"word": "begin", "sentence1": f"we begin {i}", "sentence2": f"it began {i}", "label": "TF"[i % 2]}
            for i in range(30)
        ],
        {"text": ("sentence1", "sentence2"), "label": "label", "options": {"words": "word", "match": "form"}},
    ),
}


def guessed(folder: Path, rows: list[dict[str, Any]]) -> Task:
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "tasks.yaml").write_text(guess_task_file([folder / "rows.jsonl"], base=folder, kinds=KINDS))
    return read_task_file(folder / "tasks.yaml", checks=[check_kinds]).tasks["rows"]


@pytest.mark.parametrize("kind", ROWS)
def test_the_kind_and_its_options_are_guessed(kind: str, tmp_path: Path) -> None:
    rows, wanted = ROWS[kind]
    task = guessed(tmp_path, rows)
    assert task.kind == kind
    assert {key: getattr(task, key) for key in wanted} == wanted


def test_squads_own_answers_and_blanks_are_known(tmp_path: Path) -> None:
    answers = {"text": ["today"], "answer_start": [8]}
    rows = [{"question": f"who is {i}?", "context": f"he is {i} today", "answers": answers} for i in range(30)]
    assert guessed(tmp_path, rows).options == {}
    rows = [{"sentence": f"the _ was {i}", "option1": "x", "option2": "y", "answer": 1 + i % 2} for i in range(30)]
    assert guessed(tmp_path, rows).options == {"choices": ["option1", "option2"], "blank": "_", "numbered_from": 1}


def test_lists_of_other_lengths_are_no_tags(tmp_path: Path) -> None:
    rows = [{"text": f"text number {i}", "tokens": ["a"], "labels": ["x", "y"][: i % 3]} for i in range(30)]
    assert guessed(tmp_path, rows).kind == "multilabel"
