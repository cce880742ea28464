"""What the labels in a task's rows say about it: unknown, misspelt, rare, or nothing to learn from."""

import unicodedata
from collections.abc import Container, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches

import numpy as np

from onepass.data.findings import Finding, counted, enumerated, numbered, short
from onepass.data.seen import SHOWN, SHOWN_FAULTS, SplitRows
from onepass.tasks import SEPARATORS, Task

FEW_ROWS = 8  # of a label in train
IMBALANCE = 20  # rows of the largest label for one of the smallest
MISSING = ("nan", "NaN", "NaT", "null", "NULL", "\\N", "None", "n/a", "NA", "N/A", "#N/A", "<NA>")
"""As programs write a missing value"""
JOINING = (*SEPARATORS, "/", "+", "&", "#", "\n", " ")
"""What programs and people write between several labels of a cell"""


def unknown_labels(split: SplitRows, labels: tuple[str, ...]) -> Iterator[Finding]:
    """Labels that are not among those of the task."""
    known = set(labels)
    unknown = [label for label in split.labels if label not in known]
    advice = f"Labels: {enumerated(labels, 20)}."
    for label in unknown[:SHOWN_FAULTS]:
        near = [name for name in labels if _folded(name) == _folded(label)] or get_close_matches(label, labels, 1)
        guess = f" Did you mean {short(near[0])!r}?" if near else ""
        found = f"has the label {short(label)!r} in {split.name}, which is not among its labels"
        rows = split.labels[label]
        yield split.finding("fault", "unknown label", found, advice + guess, rows.first, rows.count)
    if len(unknown) > SHOWN_FAULTS:
        rest = [split.labels[label] for label in unknown[SHOWN_FAULTS:]]
        found = f"has {len(rest):,} other labels in {split.name} that are not among its labels"
        count = sum(rows.count for rows in rest)
        yield split.finding("fault", "unknown label", found, advice, rest[0].first, count)


def label_findings(task: Task, train: SplitRows) -> Iterator[Finding]:
    """What the labels of the training rows say about the task."""
    counts = {label: rows.count for label, rows in train.labels.items()}
    alike = len(np.unique(train.answers)) == 1
    one_label = list(counts.values()) == [len(train)]  # texts of one tag differ in length
    if one_label or (alike and train.kind.teaches_nothing(train.answer)):
        found = f"has nothing to learn: every training row says {short(train.answer)}"
        advice = "Add rows that say something else, or leave the task out."
        yield train.finding("fault", "single label", found, advice)
        return
    if alike:
        found = f"has the same answer in every training row: {short(train.answer)}"
        yield train.warning("one answer", found, "Is that what is meant? It may not learn to give another one.")
    yield from _doubtful(task, train, counts)
    yield from _scarce(task, train, counts)


def _doubtful(task: Task, train: SplitRows, counts: Mapping[str, int]) -> Iterator[Finding]:
    """Labels that may not be what was meant."""
    if not train.has_all_labels or (len(counts) >= 20 and 2 * len(counts) > len(train)):
        found = f"has {len(counts):,} different labels in {numbered(len(train), 'row')}"
        yield train.warning("many labels", found, f"Is {task.label!r} the column of the label?")
    if missing := {label: counts[label] for label in MISSING if label in counts}:
        found = f"has labels that look like missing values: {counted(missing, SHOWN)}"
        yield train.warning("missing values", found, "They are learned as labels: leave the cells of such rows blank.")
    if (outside := train.kind.outside) and outside not in counts and all(map(str.isdecimal, counts)):
        found = f"has tags that are numbers, and no {outside!r}: {counted(counts, SHOWN)}"
        yield train.warning("numbered tags", found, "Each word is a span then: write the names the numbers stand for.")
    if task.label in counts and len(task.text[0].split()) > 3:
        found = f"has {short(task.label)!r} for a column and for a label: the first line of its file looks like a row"
        yield train.warning("no header", found, "It is not learned. The first line must name the columns.")
    variants: dict[str, list[str]] = {}
    for label in dict.fromkeys([*task.labels, *counts]):
        variants.setdefault(_folded(label), []).append(label)
    for labels in variants.values():
        if len(labels) > 1:
            found = f"has labels that look alike: {enumerated(map(repr, labels))}"
            if len({_plain(label) for label in labels}) < len(labels):  # not to be told apart on a screen
                found += f", written {enumerated(map(ascii, labels))}"
            yield train.warning("label variants", found, "They are learned as different labels: choose one spelling.")
    if joined := {label: counts[label] for label in counts if _is_of_others(label, counts)}:
        found = f"has labels that are made of its other labels: {counted(joined, SHOWN)}"
        advice = (
            "If each is several labels in one cell: kind: multilabel, with what stands between them as `separator`."
        )
        yield train.warning("joined labels", found, advice)


def _scarce(task: Task, train: SplitRows, counts: Mapping[str, int]) -> Iterator[Finding]:
    """Labels with too few rows to be learned well."""
    if absent := [label for label in task.labels if label not in counts]:
        found = f"has {numbered(len(absent), 'label')} without a row in train: {enumerated(absent)}"
        yield train.warning("label not in train", found, "It cannot be learned: add rows, or take it off `labels`.")
    if few := {label: count for label, count in counts.items() if count < FEW_ROWS}:
        found = f"has {numbered(len(few), 'label')} with fewer than {FEW_ROWS} rows in train: {counted(few, SHOWN)}"
        yield train.warning("rare labels", found, "Add rows, or join labels.")
    if in_some := {label: count for label, count in counts.items() if count < len(train)}:  # O is a tag of every text
        most, least = max(in_some, key=in_some.__getitem__), min(in_some, key=in_some.__getitem__)
        if counts[most] > IMBALANCE * counts[least]:
            found = f"is uneven: {counts[most]:,} rows in train are {short(most)!r}, {counts[least]:,} {short(least)!r}"
            yield train.warning("imbalance", found, "Add rows of the small labels; accuracy alone would hide them.")


def _is_of_others(label: str, labels: Container[str]) -> bool:
    """Whether a label is other ones with a separator between them."""
    parts = [label.split(mark) for mark in JOINING if mark in label]
    return any(all(part.strip() in labels for part in some) for some in parts)


def _plain(label: str) -> str:
    """A label without what is not seen: marks of direction, joiners, two ways to write an accent."""
    return "".join(c for c in unicodedata.normalize("NFKC", label) if unicodedata.category(c) != "Cf")


def _folded(label: str) -> str:
    """The same for labels that were probably meant to be one: 'No' and 'no', '1' and '1.0', two spellings of an e with
    an accent."""
    folded = "".join(_plain(label).casefold().split())
    try:
        number = Decimal(folded)  # not a float, to which two long numbers may be the same
    except InvalidOperation:
        return folded
    return str(number.normalize()) if number.is_finite() else folded
