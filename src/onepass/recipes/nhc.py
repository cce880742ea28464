"""NHC: news headlines in seven categories, each a task of its own, built from the HuffPost file as MTOP did.

The paper draws 2,000 headlines of a category and 2,000 others for each task and parts them 80 / 20. Here a headline is
first given a side by its hash, then drawn: so no headline is trained on in one task and scored in another.
"""

import random
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

from onepass.data.examples import text_hash
from onepass.errors import DataError
from onepass.recipes.originals import json_lines
from onepass.recipes.recipe import KnownSet, Part, Recipe, Row
from onepass.tasks import spelling

CATEGORIES = ("POLITICS", "WELLNESS", "ENTERTAINMENT", "TRAVEL", "STYLE & BEAUTY", "PARENTING", "HEALTHY LIVING")
FILES = ("News_Category_Dataset_v2.json", "News_Category_Dataset_v3.json", "News_Category_Dataset.json")
LAST_DAY = "2018-05-31"
"""The paper's version of the file ends here; later ones go on"""
SIDES = {"train": 1600, "test": 400}
"""Headlines of the category, and as many others, on each side"""


@lru_cache(maxsize=1)  # every task draws from the same
def headlines(path: Path) -> list[tuple[int, Row, str]]:
    """Every headline once: its hash, its texts and its category."""
    found: dict[int, tuple[Row, str]] = {}
    for row in json_lines(_row)(path):
        if row["date"] <= LAST_DAY and row["headline"].strip():
            texts = {column: row[column].strip() for column in ("headline", "short_description")}
            found.setdefault(text_hash((row["headline"],)), (texts, row["category"]))
    return [(key, *found[key]) for key in sorted(found)]


def _row(row: Row) -> Row:
    description = str(row.get("short_description") or "")
    kept = {"headline": row["headline"], "category": row["category"], "date": str(row["date"])[:10]}
    return kept | {"short_description": description}


def is_test(key: int) -> bool:
    """The side of a headline: one in five is for testing, in every task."""
    return key // 7 % 5 == 4  # not the low bits alone: other splits look at them


def _drawn(category: str, side: str, path: Path) -> Iterator[Row]:
    here = [(text, found == category) for key, text, found in headlines(path) if is_test(key) == (side == "test")]
    if not any(is_one for _, is_one in here):
        raise DataError(f"{path} has no headline of category {category!r} until {LAST_DAY}.")
    chance = random.Random(f"{category} {side}")
    own = chance.sample(texts := [text for text, is_one in here if is_one], min(SIDES[side], len(texts)))
    others = chance.sample(texts := [text for text, is_one in here if not is_one], min(len(own), len(texts)))
    rows = [{**texts, "label": "yes"} for texts in own] + [{**texts, "label": "no"} for texts in others]
    chance.shuffle(rows)
    yield from rows


def _set(category: str) -> KnownSet:
    return KnownSet(
        spelling(category),
        f"Is the headline of category {category}?",
        {"text": "headline", "label": "label", "labels": ["no", "yes"], "metric": "accuracy"},
        {side: Part(FILES, partial(_drawn, category, side)) for side in SIDES},
    )


NHC = Recipe(
    "nhc",
    "NHC (MTOP): seven categories of HuffPost headlines until May 2018, one task each: 1,600 headlines of the\n"
    "category and 1,600 others to train, 400 and 400 to test, where the file has as many. No headline is trained\n"
    "on in one task and tested in another. The paper's eighth task, opinion, was not released.\n"
    "With text: [headline, short_description] the description is read too.\n"
    "Source: News_Category_Dataset, https://www.kaggle.com/datasets/rmisra/news-category-dataset",
    tuple(_set(category) for category in CATEGORIES),
)
