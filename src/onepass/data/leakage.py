"""Texts that a model is trained on and tested on: of one task, or of one task here and another there."""

from collections.abc import Iterator, Mapping

import numpy as np

from onepass.data.findings import Finding, counted, numbered
from onepass.data.seen import SHOWN, SplitRows


def leak(train: SplitRows, other: SplitRows) -> Iterator[Finding]:
    """Texts of a task's own training data in its validation or test data."""
    if train.path == other.path:
        advice = f"Its scores will mean nothing. Give another file, or leave {other.name} out."
        yield other.warning("leakage", f"has the same file as train and as {other.name}", advice)
        return
    known = np.isin(other.hashes, train.hashes)
    if not known.any():
        return
    # A hash of question and answer together; the factor is odd, so no bit of the answer is lost.
    one, two = (split.questions ^ (split.answers * np.uint64(0x9E3779B97F4A7C15)) for split in (other, train))
    changed = int((np.isin(other.questions, train.questions) & ~np.isin(one, two)).sum())
    found = f"has {int(known.sum()):,} of {numbered(len(other), 'row')} of {other.name} in train too"
    if changed:
        found += f", {changed:,} of them with another label"
    yield other.warning("leakage", found, "Scores will be too good: remove them from train.", other.rows[known])


def leaks_between_tasks(splits: Mapping[str, list[SplitRows]]) -> Iterator[Finding]:
    """Texts of one task's test data in the training data of other tasks: the shared encoder has learned from them."""
    trains = [split for own in splits.values() for split in own if split.name == "train"]
    if len(trains) < 2:
        return
    texts = [np.unique(split.hashes) for split in trains]
    hashes = np.concatenate(texts)
    owners = np.repeat(np.arange(len(trains)), [len(part) for part in texts])
    order = np.argsort(hashes, kind="stable")
    hashes, owners = hashes[order], owners[order]
    for name, own in splits.items():
        for test in (split for split in own if split.name == "test"):
            trained = [part for split, part in zip(trains, texts, strict=True) if split.task.name == name]
            foreign = np.setdiff1d(test.hashes, trained[0] if trained else np.zeros(0, np.uint64))
            start, end = np.searchsorted(hashes, foreign, "left"), np.searchsorted(hashes, foreign, "right")
            leaked = foreign[end > start]
            if not len(leaked):
                continue
            places = np.concatenate([np.arange(a, b) for a, b in zip(start, end, strict=True) if b > a])
            found = np.bincount(owners[places], minlength=len(trains))
            tasks = {split.task.name: int(n) for split, n in zip(trains, found, strict=True) if n}
            rows = test.rows[np.isin(test.hashes, leaked)]
            message = f"has {numbered(len(rows), 'row')} of test in the train of other tasks: {counted(tasks, SHOWN)}"
            advice = "The shared encoder has learned from these texts: remove them there."
            yield test.warning("leakage between tasks", message, advice, rows)
