"""GoEmotions: which of 28 emotions does a comment show?"""

from onepass.recipes.originals import table
from onepass.recipes.recipe import Hub, KnownSet, Part, Recipe, Row

_NAMES = (
    "admiration amusement anger annoyance approval caring confusion curiosity desire disappointment disapproval "
    "disgust embarrassment excitement fear gratitude grief joy love nervousness optimism pride realization relief "
    "remorse sadness surprise neutral"
)
EMOTIONS = _NAMES.split()


def _row(row: Row) -> Row:
    return {"text": row["text"], "labels": [EMOTIONS[int(number)] for number in row["numbers"].split(",")]}


def _part(split: str) -> Part:
    read = table("text", "numbers", "id", header=False, make=_row)
    return Part((f"{split}.tsv", f"data/{split}.tsv"), read)


GOEMOTIONS = Recipe(
    "goemotions",
    "GoEmotions (Demszky et al. 2020), 27 emotions and neutral; macro F1 as in the paper.",
    (
        KnownSet(
            "goemotions",
            "Which emotions does the comment show?",
            {"kind": "multilabel", "text": "text", "label": "labels", "labels": EMOTIONS, "metric": "macro_f1"},
            {"train": _part("train"), "validation": _part("dev"), "test": _part("test")},
            Hub(
                "google-research-datasets/go_emotions",
                "simplified",
                {"train": "train", "validation": "validation", "test": "test"},
            ),
        ),
    ),
)
