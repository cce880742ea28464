"""MR, CR, MPQA and SUBJ: one file, or one a label, without splits; here 60 / 20 / 20."""

from collections.abc import Iterator
from pathlib import Path

from onepass.data.examples import text_hash
from onepass.errors import DataError
from onepass.recipes.originals import old_lines
from onepass.recipes.recipe import KnownSet, Part, Recipe, Row

FIFTHS = {"train": (0, 1, 2), "validation": (3,), "test": (4,)}
"""Which fifths of the texts, by their hashes, a split has: the same text is never in two"""


def _part(split: str, name: str, both: str, files: tuple[str, str], labels: tuple[str, str]) -> Part:
    """The whole file of a set (a digit and the text in each line), or one file a label."""

    def sentences(folder: Path) -> Iterator[Row]:
        if (folder / both).is_file():
            for number, line in enumerate(old_lines(folder / both), 1):
                digit, _, text = line.partition(" ")
                if digit not in ("0", "1"):
                    raise DataError(f"{folder / both}, line {number}: a line begins with 0 or 1.")
                yield {"text": text, "label": labels[int(digit)]}
        else:
            for file, label in zip(files, labels, strict=True):
                if not (folder / file).is_file():
                    raise DataError(f"{folder} has neither {both} nor {' and '.join(files)}.")
                yield from ({"text": line, "label": label} for line in old_lines(folder / file))

    def read(folder: Path) -> Iterator[Row]:
        for row in sentences(folder):
            if row["text"].strip() and text_hash((row["text"],)) % 5 in FIFTHS[split]:
                yield row

    return Part((f"{name}/", "./"), read)


def _set(name: str, about: str, both: str, files: tuple[str, str], labels: tuple[str, str]) -> KnownSet:
    return KnownSet(
        name,
        about,
        {"text": "text", "label": "label", "labels": list(labels), "metric": "accuracy"},
        {split: _part(split, name.upper(), both, files, labels) for split in FIFTHS},
    )


_FEELING = ("negative", "positive")
SENTENCES = Recipe(
    "sentences",
    "MR, CR, MPQA and SUBJ, from the folders of SentEval (MR/rt-polarity.pos ...) or from files with a digit in\n"
    "each line (rt-polarity.all ...). They have no splits: texts go to train, validation and test 60 / 20 / 20 by\n"
    "their hashes, as the sizes in the paper on task prefixes suggest.",
    (
        _set("mr", "Is the review positive?", "rt-polarity.all", ("rt-polarity.neg", "rt-polarity.pos"), _FEELING),
        _set("cr", "Is the customer content?", "custrev.all", ("custrev.neg", "custrev.pos"), _FEELING),
        _set("mpqa", "Is the opinion positive?", "mpqa.all", ("mpqa.neg", "mpqa.pos"), _FEELING),
        _set(
            "subj",
            "Is the sentence an opinion or a fact?",
            "subj.all",
            ("subj.subjective", "subj.objective"),
            ("subjective", "objective"),
        ),
    ),
)
