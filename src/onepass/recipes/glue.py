"""GLUE: nine tasks of the Wang et al. 2018 benchmark, from the folders that its download script makes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from onepass.recipes.originals import table
from onepass.recipes.recipe import Answers, Hub, KnownSet, Part, Recipe, Results, Row

Make = Callable[[Row], Row | None]
NLI = ("entailment", "neutral", "contradiction")
NOT_AGREED = "-"  # what MNLI and SNLI write where the annotators did not agree


def _renamed(columns: Mapping[str, str], label: str | None, names: Mapping[str, str]) -> Make:
    """Our row: the columns under our names, and the label in words; rows on whose label nobody agreed are left out."""

    def make(row: Row) -> Row | None:
        made: Row = {ours: row[theirs] for ours, theirs in columns.items()}
        if label is not None:
            if row[label] == NOT_AGREED:
                return None
            if row[label] not in names:
                raise ValueError(f"{label} is {row[label]!r}, and only {', '.join(names)} are known")
            made["label"] = names[row[label]]
        return made

    return make


def _score(row: Row) -> Row:
    return {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "label": float(row["score"])}


def answers_table(spelling: Mapping[Any, str] | None) -> Callable[[Sequence[Row], Sequence[Any]], str]:
    """The tab-separated file of the leaderboard: labels in its spelling, or numbers between 0 and 5."""

    def write(rows: Sequence[Row], predictions: Sequence[Any]) -> str:
        found = ["index\tprediction"]
        for row, prediction in zip(rows, predictions, strict=True):
            answer = f"{min(5.0, max(0.0, prediction)):.3f}" if spelling is None else spelling[prediction]
            found.append(f"{row['index']}\t{answer}")
        return "\n".join(found) + "\n"

    return write


def _set(
    name: str,
    folder: str,
    about: str,
    texts: Mapping[str, str],
    names: Mapping[str, str],
    label: str,
    metric: str,
    *,
    index: str = "index",
) -> KnownSet:
    """A set of two labels with the usual train.tsv, dev.tsv and test.tsv."""
    # A few lines of QQP are cut short; everybody leaves them out.
    labelled = table(*texts.values(), label, make=_renamed(texts, label, names), short_lines=name == "qqp")
    plain = table(index, *texts.values(), make=_renamed({"index": index, **texts}, None, {}))
    text = list(texts) if len(texts) > 1 else next(iter(texts))
    return KnownSet(
        name,
        about,
        {"text": text, "label": "label", "labels": list(names.values()), "metric": metric},
        {
            "train": Part((f"{folder}/train.tsv",), labelled),
            "validation": Part((f"{folder}/dev.tsv",), labelled),
            "unlabelled": Part((f"{folder}/test.tsv",), plain, optional=True),
        },
        Hub("nyu-mll/glue", name, HUB_SPLITS, indexed),
        {"unlabelled": Answers(f"{folder}.tsv", answers_table({ours: theirs for theirs, ours in names.items()}))},
    )


HUB_SPLITS = {"train": "train", "validation": "validation", "unlabelled": "test"}


def indexed(rows: Any) -> Any:
    """The hub's rows, whose number is called idx there."""
    for row in rows:
        yield {("index" if key == "idx" else key): value for key, value in row.items()}


_COLA_NAMES = {"0": "unacceptable", "1": "acceptable"}
_cola_row = _renamed({"sentence": "sentence"}, "label", _COLA_NAMES)
_cola = table("source", "label", "star", "sentence", header=False, make=_cola_row)
COLA = KnownSet(
    "cola",
    "Is the sentence acceptable English? Matthews correlation. The files have no header.",
    {"text": "sentence", "label": "label", "labels": ["unacceptable", "acceptable"], "metric": "matthews"},
    {
        "train": Part(("CoLA/train.tsv",), _cola),
        "validation": Part(("CoLA/dev.tsv",), _cola),
        "unlabelled": Part(("CoLA/test.tsv",), table("index", "sentence"), optional=True),
    },
    Hub("nyu-mll/glue", "cola", HUB_SPLITS, indexed),
    {"unlabelled": Answers("CoLA.tsv", answers_table({"unacceptable": "0", "acceptable": "1"}))},
)

_MRPC_TEXTS = {"sentence1": "#1 String", "sentence2": "#2 String"}
_MRPC_NAMES = {"0": "not_equivalent", "1": "equivalent"}
_mrpc = table(*_MRPC_TEXTS.values(), "Quality", make=_renamed(_MRPC_TEXTS, "Quality", _MRPC_NAMES))


def _msr(dev: bool, path: Path) -> Iterator[Row]:
    """The file of a split, or its rows among those of Microsoft's own file, of which dev_ids.tsv names the dev set."""
    if path.suffix == ".tsv":
        yield from _mrpc(path)
        return
    named = table("first", "second", header=False)(path.with_name("dev_ids.tsv"))
    ids = {(row["first"], row["second"]) for row in named}
    for row in table(*_MRPC_TEXTS.values(), "Quality", "#1 ID", "#2 ID")(path):
        if ((row["#1 ID"], row["#2 ID"]) in ids) == dev:
            made = _renamed(_MRPC_TEXTS, "Quality", _MRPC_NAMES)(row)
            if made is not None:
                yield made


def _mrpc_rows(row: Row) -> Row:
    return {"index": row["index"], **{ours: row[theirs] for ours, theirs in _MRPC_TEXTS.items()}}


MRPC = KnownSet(
    "mrpc",
    "Do two sentences say the same? F1 of the label equivalent (MTOP, CA-MTL); MT-TaG reports accuracy.",
    {"text": ["sentence1", "sentence2"], "label": "label", "labels": list(_MRPC_NAMES.values()), "metric": "f1"},
    {
        "train": Part(("MRPC/train.tsv", "MRPC/msr_paraphrase_train.txt"), partial(_msr, False)),
        "validation": Part(("MRPC/dev.tsv", "MRPC/msr_paraphrase_train.txt"), partial(_msr, True)),
        "unlabelled": Part(("MRPC/test.tsv",), table("index", *_MRPC_TEXTS.values(), make=_mrpc_rows), optional=True),
    },
    Hub("nyu-mll/glue", "mrpc", HUB_SPLITS, indexed),
    {"unlabelled": Answers("MRPC.tsv", answers_table({"not_equivalent": "0", "equivalent": "1"}))},
)

_PAIR = {"sentence1": "sentence1", "sentence2": "sentence2"}
_pairs = table("index", "sentence1", "sentence2", make=_renamed({"index": "index", **_PAIR}, None, {}))
STSB = KnownSet(
    "stsb",
    "How similar are two sentences, from 0 to 5? Spearman correlation.",
    {"kind": "regression", "text": ["sentence1", "sentence2"], "label": "label", "metric": "spearman"},
    {
        "train": Part(("STS-B/train.tsv",), table("sentence1", "sentence2", "score", make=_score)),
        "validation": Part(("STS-B/dev.tsv",), table("sentence1", "sentence2", "score", make=_score)),
        "unlabelled": Part(("STS-B/test.tsv",), _pairs, optional=True),
    },
    Hub("nyu-mll/glue", "stsb", HUB_SPLITS, indexed),
    {"unlabelled": Answers("STS-B.tsv", answers_table(None))},
)

_NLI_NAMES = {name: name for name in NLI}
_MNLI_TEXTS = {"premise": "sentence1", "hypothesis": "sentence2"}
_mnli = table("sentence1", "sentence2", "gold_label", make=_renamed(_MNLI_TEXTS, "gold_label", _NLI_NAMES))
_mnli_plain = table("index", "sentence1", "sentence2", make=_renamed({"index": "index", **_MNLI_TEXTS}, None, {}))
MNLI = KnownSet(
    "mnli",
    "Does the premise entail the hypothesis? Validation is the matched set (m), test the mismatched one (mm).",
    {"text": ["premise", "hypothesis"], "label": "label", "labels": list(NLI), "metric": "accuracy"},
    {
        "train": Part(("MNLI/train.tsv",), _mnli),
        "validation": Part(("MNLI/dev_matched.tsv",), _mnli),
        "test": Part(("MNLI/dev_mismatched.tsv",), _mnli),
        "unlabelled": Part(("MNLI/test_matched.tsv",), _mnli_plain, optional=True),
        "unlabelled_mm": Part(("MNLI/test_mismatched.tsv",), _mnli_plain, optional=True),
        "unlabelled_ax": Part(("diagnostic/diagnostic.tsv", "AX/AX.tsv"), _mnli_plain, optional=True),
    },
    Hub(
        "nyu-mll/glue",
        "mnli",
        {
            "train": "train",
            "validation": "validation_matched",
            "test": "validation_mismatched",
            "unlabelled": "test_matched",
            "unlabelled_mm": "test_mismatched",
        },
        indexed,
    ),
    {
        "unlabelled": Answers("MNLI-m.tsv", answers_table(_NLI_NAMES)),
        "unlabelled_mm": Answers("MNLI-mm.tsv", answers_table(_NLI_NAMES)),
        "unlabelled_ax": Answers("AX.tsv", answers_table(_NLI_NAMES)),
    },
)

_ENTAILED = {"entailment": "entailment", "not_entailment": "not_entailment"}
SETS = (
    COLA,
    _set(
        "sst2",
        "SST-2",
        "Is the review's sentence positive?",
        {"sentence": "sentence"},
        {"0": "negative", "1": "positive"},
        "label",
        "accuracy",
    ),
    MRPC,
    STSB,
    _set(
        "qqp",
        "QQP",
        "Do two questions ask the same? F1 of the label duplicate (MTOP, CA-MTL); MT-TaG reports accuracy.",
        {"question1": "question1", "question2": "question2"},
        {"0": "not_duplicate", "1": "duplicate"},
        "is_duplicate",
        "f1",
        index="id",
    ),
    MNLI,
    _set(
        "qnli",
        "QNLI",
        "Does the sentence answer the question?",
        {"question": "question", "sentence": "sentence"},
        _ENTAILED,
        "label",
        "accuracy",
    ),
    _set("rte", "RTE", "Does the first sentence entail the second?", _PAIR, _ENTAILED, "label", "accuracy"),
    _set(
        "wnli",
        "WNLI",
        "Does the sentence entail the one with its pronoun resolved? Papers leave it out; CA-MTL trains on it.",
        _PAIR,
        {"0": "not_entailment", "1": "entailment"},
        "label",
        "accuracy",
    ),
)
SMALL = ("rte", "mrpc", "stsb", "cola")


def averages(validation: Results, test: Results) -> dict[str, float]:
    """The papers' means over the eight tasks without WNLI; the test rows of MNLI are the mismatched ones."""
    if not {s.name for s in SETS} - {"wnli"} <= set(validation) or "mnli" not in test:
        return {}
    v = {**validation, **test, "mnli": validation["mnli"]}
    mm = test["mnli"]["accuracy"]
    same = [v["cola"]["matthews"], *(v[name]["accuracy"] for name in ("sst2", "qnli", "rte"))]
    m = v["mnli"]["accuracy"]
    both = mean([v["stsb"]["pearson"], v["stsb"]["spearman"]])
    accuracies = [v["mrpc"]["accuracy"], v["qqp"]["accuracy"]]
    mttag = {"rte": "accuracy", "mrpc": "accuracy", "stsb": "spearman", "cola": "matthews"}
    return {
        "mtop": mean([*same, v["mrpc"]["f1"], v["qqp"]["f1"], v["stsb"]["spearman"], m, mm]),
        "mtop_dev": mean([*same, *accuracies, both, m, mm]),
        "mttag": mean([*same, *accuracies, v["stsb"]["spearman"], mean([m, mm])]),
        "mttag_small": mean(v[name][metric] for name, metric in mttag.items()),
    }


GLUE = Recipe(
    "glue",
    "GLUE (Wang et al. 2018), nine tasks; pairs in the order of the files.\n"
    "The leaderboard's test sets have no labels: scores are those of the dev sets, and\n"
    "onepass evaluate MODEL tasks.yaml --submission DIR writes the files to hand in.\n"
    "Means: MTOP and CA-MTL take nine numbers (MNLI m and mm apart, without WNLI), MT-TaG eight (mean of m and mm).",
    SETS,
    averages=averages,
)
