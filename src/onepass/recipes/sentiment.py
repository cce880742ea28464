"""IMDB, Yelp polarity and Rotten Tomatoes: is a review positive?"""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

from onepass.data.delimited import csv_reader
from onepass.errors import DataError
from onepass.recipes.originals import lines, old_lines
from onepass.recipes.recipe import Hub, KnownSet, Part, Recipe, Row

LABELS = ["negative", "positive"]
NEG_POS = ("neg", "pos")
KEYS = {"text": "text", "label": "label", "labels": LABELS, "metric": "accuracy"}


def _from_hub(names: tuple[str, str], clean: Callable[[str], str] = str) -> Callable[[Iterator[Row]], Iterator[Row]]:
    """The hub's rows; `names`: what it calls our labels, `clean`: what is done to the originals' texts, too."""
    labels = dict(zip(names, LABELS, strict=True))

    def read(rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            yield {"text": clean(row["text"]), "label": labels[row["label"]]}

    return read


def _without_breaks(text: str) -> str:
    return text.replace("<br />", " ")


def _with_line_ends(text: str) -> str:
    return text.replace("\\n", "\n")


def _unquoted(text: str) -> str:
    """A text of Yelp on the hub, which cut the lines of the csv file without reading their quotes."""
    return _with_line_ends(text.replace('""', '"'))


def _imdb(folder: Path) -> Iterator[Row]:
    for name, label in zip(("neg", "pos"), LABELS, strict=True):
        files = sorted((folder / name).glob("*.txt"))
        if not files:
            raise DataError(f"{folder / name} has no .txt files.")
        for file in files:
            text = "\n".join(line for _, line in lines(file))
            yield {"text": _without_breaks(text), "label": label}


def _yelp(path: Path) -> Iterator[Row]:
    """Lines of "1","text" and "2","text"; line ends inside a text are written \\n."""
    for number, line in lines(path):
        try:
            (fields,) = csv_reader([line], ",")
        except (csv.Error, ValueError):
            fields = []
        if len(fields) != 2 or fields[0] not in ("1", "2"):
            raise DataError(f'{path}, line {number} is not as expected: a line is "1" or "2", and a text.')
        yield {"text": _with_line_ends(fields[1]), "label": LABELS[int(fields[0]) - 1]}


def _tomatoes(first: int, end: int | None) -> Part:
    """So many sentences of each of the two files."""

    def read(folder: Path) -> Iterator[Row]:
        for name, label in zip(("neg", "pos"), LABELS, strict=True):
            sentences = old_lines(folder / f"rt-polarity.{name}")
            yield from ({"text": sentence, "label": label} for sentence in sentences[first:end])

    return Part(("rt-polaritydata/", "./"), read)


def _imdb_part(split: str) -> Part:
    return Part((f"aclImdb/{split}/", f"{split}/"), _imdb)


def _yelp_part(split: str) -> Part:
    return Part((f"yelp_review_polarity_csv/{split}.csv", f"{split}.csv"), _yelp)


IMDB = Recipe(
    "imdb",
    "IMDB (Maas et al. 2011). Validation is a share of the training reviews, since the set has none.",
    (
        KnownSet(
            "imdb",
            "Is the review positive?",
            KEYS,
            {"train": _imdb_part("train"), "test": _imdb_part("test")},
            Hub("stanfordnlp/imdb", None, {"train": "train", "test": "test"}, _from_hub(NEG_POS, _without_breaks)),
        ),
    ),
    {"max_length": 256},
)
YELP = Recipe(
    "yelp",
    "Yelp polarity (Zhang et al. 2015). Validation is a share of the training reviews, since the set has none.",
    (
        KnownSet(
            "yelp",
            "Is the review positive?",
            KEYS | {"validation": 0.01},
            {"train": _yelp_part("train"), "test": _yelp_part("test")},
            Hub("fancyzhx/yelp_polarity", None, {"train": "train", "test": "test"}, _from_hub(("1", "2"), _unquoted)),
        ),
    ),
    {"max_length": 256},
)
TOMATOES = Recipe(
    "rotten_tomatoes",
    "Rotten Tomatoes (Pang and Lee 2005) with the hub's split: of each label 4,265 sentences to train, 533 to\n"
    "validate and 533 to test, in the order of the files. Most of SST-2's sentences are among them.",
    (
        KnownSet(
            "rotten_tomatoes",
            "Is the review's sentence positive?",
            KEYS,
            {"train": _tomatoes(0, 4265), "validation": _tomatoes(4265, 4798), "test": _tomatoes(4798, None)},
            Hub(
                "cornell-movie-review-data/rotten_tomatoes",
                None,
                {"train": "train", "validation": "validation", "test": "test"},
                _from_hub(NEG_POS),
            ),
        ),
    ),
)
