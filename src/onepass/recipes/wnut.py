"""WNUT-17: names of persons, places and things that nobody has seen before."""

from collections.abc import Iterator
from pathlib import Path

from onepass.errors import DataError
from onepass.recipes.originals import lines
from onepass.recipes.recipe import Hub, KnownSet, Part, Recipe, Row


def conll(path: Path) -> Iterator[Row]:
    """Lines of a word and its tag with a tab between them; a blank line ends a sentence."""
    tokens: list[str] = []
    tags: list[str] = []
    for number, line in lines(path):
        fields = line.split("\t")
        if not line.strip():
            if tokens:
                yield {"tokens": tokens, "tags": tags}
            tokens, tags = [], []
        elif len(fields) < 2 or not fields[1].strip():
            raise DataError(f"{path}, line {number}: a line has a word and its tag, with a tab between them.")
        elif fields[0].strip():  # a few words of the test file are white space
            tokens.append(fields[0].strip())
            tags.append(fields[1].strip())
    if tokens:
        yield {"tokens": tokens, "tags": tags}


def _part(name: str) -> Part:
    return Part((name, f"emerging_entities_17/{name}"), conll)


def _from_hub(rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        yield {"tokens": row["tokens"], "tags": row["ner_tags"]}


WNUT = Recipe(
    "wnut17",
    "WNUT-17 (Derczynski et al. 2017): spans of six kinds of names, as BIO tags.",
    (
        KnownSet(
            "wnut17",
            "Which names are in the post? F1 over spans.",
            {"kind": "tagging", "text": "tokens", "label": "tags", "metric": "span_f1"},
            {
                "train": _part("wnut17train.conll"),
                "validation": _part("emerging.dev.conll"),
                "test": _part("emerging.test.annotated"),
            },
            Hub("leondz/wnut_17", None, {"train": "train", "validation": "validation", "test": "test"}, _from_hub),
        ),
    ),
)
