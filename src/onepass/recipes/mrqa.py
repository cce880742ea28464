"""MRQA: six sets of questions whose answer is a span of a text, in MRQA's own format or in SQuAD's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onepass.recipes.originals import json_file, json_lines
from onepass.recipes.recipe import KnownSet, Part, Recipe, Row


def squad_rows(value: Any) -> Iterator[Row]:
    """One row for each question of a SQuAD file; a question without answers has empty lists."""
    for article in value["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = question.get("answers") or []
                yield {
                    "index": question["id"],
                    "question": question["question"],
                    "context": paragraph["context"],
                    "answers": [answer["text"] for answer in answers],
                    "answer_start": [answer["answer_start"] for answer in answers],
                }


def mrqa_rows(value: Row) -> list[Row]:
    """One row for each question of a line of an MRQA file; the answers are where they were detected."""
    if "header" in value:
        return []
    made = []
    for question in value["qas"]:
        # The end of a span is its last character, not the one behind it.
        spans = [span for answer in question["detected_answers"] for span in answer["char_spans"]]
        made.append(
            {
                "index": question["qid"],
                "question": question["question"],
                "context": value["context"],
                "answers": [value["context"][start : end + 1] for start, end in spans],
                "answer_start": [start for start, _ in spans],
            }
        )
    return made


def _read(path: Path) -> Iterator[Row]:
    return json_file(squad_rows)(path) if path.suffix == ".json" else json_lines(mrqa_rows)(path)


def _set(name: str, about: str, file: str, squad: tuple[str, ...] = ()) -> KnownSet:
    def part(split: str, folder: str) -> Part:
        names = [f"{folder}/{file}.jsonl.gz", f"{folder}/{file}.jsonl", f"{file}/{split}.json"]
        return Part((*names, *(other for other in squad if split in other)), _read)

    return KnownSet(name, about, KEYS, {"train": part("train", "train"), "validation": part("dev", "dev")})


KEYS = {
    "kind": "extraction",
    "text": ["question", "context"],
    "label": "answers",
    "starts": "answer_start",
    "metric": "f1",
}
MRQA = Recipe(
    "mrqa",
    "MRQA 2019 (Fisch et al.), the six sets for training; exact match and F1 of the spans as in SQuAD.\n"
    "From train/SQuAD.jsonl.gz ... as the shared task gives them away, or from files in SQuAD's format.",
    (
        _set("squad", "Wikipedia.", "SQuAD", ("train-v1.1.json", "dev-v1.1.json")),
        _set("newsqa", "CNN's news.", "NewsQA"),
        _set("triviaqa", "Trivia, with pages from the web.", "TriviaQA-web"),
        _set("searchqa", "Jeopardy!, with snippets from a search engine.", "SearchQA"),
        _set("hotpotqa", "Wikipedia, two paragraphs at once.", "HotpotQA"),
        _set("naturalquestions", "Questions asked of a search engine, and Wikipedia.", "NaturalQuestionsShort"),
    ),
    {"max_length": 384},
)
