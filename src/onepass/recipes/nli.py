"""SNLI and SciTail: does one sentence entail another?"""

from onepass.recipes.glue import NLI, NOT_AGREED
from onepass.recipes.originals import json_lines, table
from onepass.recipes.recipe import Hub, KnownSet, Part, Recipe, Row

_KEYS = {"text": ["premise", "hypothesis"], "label": "label", "metric": "accuracy"}
THREE = {"train": "train", "validation": "validation", "test": "test"}


def _snli(row: Row) -> Row | None:
    if row["gold_label"] == NOT_AGREED:
        return None
    return {"premise": row["sentence1"], "hypothesis": row["sentence2"], "label": row["gold_label"]}


def _scitail(row: Row) -> Row:
    return {"premise": row["premise"], "hypothesis": row["hypothesis"], "label": row["label"]}


def _scitail_snli(row: Row) -> Row:
    label = {"entailment": "entails"}.get(row["gold_label"], row["gold_label"])
    return {"premise": row["sentence1"], "hypothesis": row["sentence2"], "label": label}


_tsv = table("premise", "hypothesis", "label", header=False, make=_scitail)
_snli_format = json_lines(_scitail_snli)


def _scitail_part(split: str) -> Part:
    tsv, snli = f"scitail_1.0_{split}.tsv", f"scitail_1.0_{split}.txt"
    places = (f"tsv_format/{tsv}", tsv, f"SciTailV1.1/tsv_format/{tsv}", f"snli_format/{snli}", snli)
    return Part(places, lambda path: _tsv(path) if path.suffix == ".tsv" else _snli_format(path))


def _snli_part(split: str) -> Part:
    name = f"snli_1.0_{split}.jsonl"
    return Part((name, f"snli_1.0/{name}"), json_lines(_snli))


SNLI = Recipe(
    "snli",
    "SNLI (Bowman et al. 2015). Pairs on which the annotators did not agree are left out.",
    (
        KnownSet(
            "snli",
            "Does the premise entail the hypothesis?",
            _KEYS | {"labels": list(NLI)},
            {"train": _snli_part("train"), "validation": _snli_part("dev"), "test": _snli_part("test")},
            Hub("stanfordnlp/snli", None, THREE),
        ),
    ),
)
SCITAIL = Recipe(
    "scitail",
    "SciTail (Khot et al. 2018). CA-MTL and MT-TaG train on shares of it, after GLUE.",
    (
        KnownSet(
            "scitail",
            "Does the premise entail the hypothesis?",
            _KEYS | {"labels": ["neutral", "entails"]},
            {"train": _scitail_part("train"), "validation": _scitail_part("dev"), "test": _scitail_part("test")},
            Hub("allenai/scitail", "tsv_format", THREE),
        ),
    ),
)
