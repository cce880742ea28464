"""Everything about the data of a task file that a user should know before training.

Each file is read once, row by row, however many tasks read it. Of a row two 64-bit hashes and its number are kept, 24
bytes in all. Nothing stops at the first fault: a file that cannot be read is one finding among the others.
"""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onepass.data.examples import Reader, Row, text_hash
from onepass.data.files import RowFaults, column_names, read_chunks
from onepass.data.findings import Counts, Finding, Report, counted, enumerated, numbered, short
from onepass.errors import DataError
from onepass.tasks import Task, TaskFile

FEW_ROWS = 8  # of a label in train
FEW_VALIDATION_ROWS = 20
IMBALANCE = 20  # rows of the largest label for one of the smallest
MAX_LABELS = 10_000  # different labels kept of a split: a column of texts, taken for labels, must not fill the memory
SHOWN = 5
SHOWN_FAULTS = 20

Hashes = NDArray[np.uint64]


def check_data(file: TaskFile, kinds: Mapping[str, Reader]) -> Report:
    """Reads all data of a task file and reports what is in them; faults are reported, never raised.

    kinds: the reader of each task, by the task's name.
    """
    longest = file.train.get("max_length", 128)
    max_characters = 16 * longest if isinstance(longest, int) else 2048  # what the tokenizer looks at
    splits: dict[str, list[_Split]] = {name: [] for name in file.tasks}
    by_path: dict[Path, list[_Split]] = {}
    findings: list[Finding] = []
    for task in file.tasks.values():
        for name in ("train", "validation", "test"):
            source = getattr(task, name)
            if isinstance(source, Path):
                split = _Split(task, name, source, kinds[task.name], max_characters)
                splits[task.name].append(split)
                by_path.setdefault(source, []).append(split)
            elif isinstance(source, str):
                found, advice = f"reads {source} as {name}, which is not checked", "Only files on this disk are."
                findings.append(Finding("warning", task.name, "not checked", found, advice))
    for path, readers in by_path.items():
        findings += _read(path, readers)
    tasks = {}
    for task in file.tasks.values():
        own = {split.name: split for split in splits[task.name]}
        findings += _check_task(task, own)
        tasks[task.name] = _counts(task, own)
    findings += _leaks_between_tasks(splits)
    order = {name: place for place, name in enumerate(file.tasks)}
    findings.sort(key=lambda finding: (finding.severity, order[finding.task]))
    return Report(str(file.path), tasks, findings)


class _Rows:
    """How many rows there are of a sort, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[int] = []

    def add(self, row: int) -> None:
        self.count += 1
        if len(self.first) < SHOWN:
            self.first.append(row)


class _Broken(RowFaults):
    """Rows that cannot be used, by what is wrong with them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sorts: dict[str, _Rows] = {}

    def add(self, row: int, what: str, line: int | None = None) -> None:
        self.count += 1
        what = what.rstrip(".")
        if what not in self.sorts and len(self.sorts) >= SHOWN_FAULTS:
            what = "has faults of other sorts"
        self.sorts.setdefault(what, _Rows()).add(row)

    def findings(self, task: str, sort: str, start: str = "") -> Iterator[Finding]:
        for what, rows in self.sorts.items():
            advice = "Correct or remove " + ("the row." if rows.count == 1 else f"these {rows.count:,} rows.")
            file = str(self.path)
            yield Finding("fault", task, sort, f"{start}{what}", advice, file, tuple(rows.first), rows.count)


class _Split:
    """What is kept of the rows of one task in one file."""

    def __init__(self, task: Task, name: str, path: Path, kind: Reader, max_characters: int) -> None:
        self.task = task
        self.name = name
        self.path = path
        self.kind = kind
        self.max_characters = max_characters * kind.windows.most
        self.complete = True  # False: a fault kept the file from being read to its end
        self.without_label = 0
        self.blank = _Rows()
        self.long = _Rows()
        self.broken = _Broken(path)
        self.labels: dict[str, _Rows] = {}
        self.answer = ""  # of the first row
        self._hashes, self._answers, self._rows = array("Q"), array("Q"), array("Q")

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, number: int, row: Row) -> None:
        task, kind = self.task, self.kind
        try:
            if kind.blank(task, row):
                self.without_label += 1
                return
            item = kind.item(task, row)
            if item is None or item.blank:
                self.blank.add(number)
                return
            # Which labels are possible is known when all files are read; until then a row's own are.
            named = tuple(sorted(set(kind.labels_in(task, row))))
            target = kind.target(row, task, named)
        except ValueError as error:
            self.broken.add(number, str(error))
            return
        answer = kind.said(task, row, target)
        self.answer = self.answer or answer
        for label in named:
            if label in self.labels or len(self.labels) < MAX_LABELS:
                self.labels.setdefault(label, _Rows()).add(number)
        if any(len(text) > self.max_characters for text in item.texts):
            self.long.add(number)
        self._hashes.append(text_hash(item.texts))
        self._answers.append(hash(answer) % 2**64)
        self._rows.append(number)

    def freeze(self) -> None:
        """Makes arrays of what was gathered, when the last row is read."""
        self.hashes: Hashes = np.array(self._hashes, np.uint64)  # (N,)
        self.answers: Hashes = np.array(self._answers, np.uint64)  # (N,) equal for equal labels or numbers
        self.rows: Hashes = np.array(self._rows, np.uint64)  # (N,)
        self._hashes, self._answers, self._rows = array("Q"), array("Q"), array("Q")

    def finding(
        self,
        severity: Literal["fault", "warning"],
        sort: str,
        found: str,
        advice: str,
        rows: Iterable[int] = (),
        count: int = 0,
    ) -> Finding:
        return Finding(severity, self.task.name, sort, found, advice, str(self.path), tuple(map(int, rows)), count)

    def warning(self, sort: str, found: str, advice: str, rows: Hashes | _Rows | None = None) -> Finding:
        if rows is None:
            return self.finding("warning", sort, found, advice)
        if isinstance(rows, _Rows):
            return self.finding("warning", sort, found, advice, rows.first, rows.count)
        return self.finding("warning", sort, found, advice, np.sort(rows)[:SHOWN], len(rows))


def _read(path: Path, splits: list[_Split]) -> list[Finding]:
    """Reads a file once for all the tasks that use it; what is wrong with the file itself is told once."""
    findings = []
    try:
        names: list[str] | None = column_names(path)
    except DataError:
        names = None  # reading the rows meets the same fault, and perhaps gets further
    useful = []
    for split in splits:
        missing = [] if names is None else [name for name in split.kind.columns(split.task) if name not in names]
        for name in missing:
            near = get_close_matches(name, names or (), n=1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            found = f"reads the column {name!r}, which is not there"
            advice = f"Columns: {enumerated(names or ())}.{guess}"
            findings.append(split.finding("fault", "missing column", found, advice))
        split.complete = not missing
        if split.complete:
            useful.append(split)
    task = splits[0].task.name
    others = dict.fromkeys(split.task.name for split in splits if split.task.name != task)
    also = f"(and {enumerated(others)}) " if others else ""
    broken = _Broken(path)
    columns = dict.fromkeys(column for split in useful for column in split.kind.columns(split.task))
    try:
        for chunk in read_chunks(path, list(columns), faults=broken) if useful else ():
            for number, row in chunk.rows():
                for split in useful:
                    split.add(number, row)
    except DataError as error:
        for split in useful:
            split.complete = False
        found = f"{also}has a file that cannot be used: {str(error).rstrip('.')}"
        findings.append(Finding("fault", task, "unreadable file", found, ""))
    findings += broken.findings(task, "broken row", f"{also}has a row that cannot be read: ")
    for split in splits:
        split.freeze()
    return findings


def _check_task(task: Task, splits: dict[str, _Split]) -> Iterator[Finding]:
    train = splits.get("train")
    labels = task.labels
    if not labels and train is not None and train.complete and len(train.labels) < MAX_LABELS:
        labels = tuple(train.labels)
    for split in splits.values():
        yield from _check_rows(split, labels)
    if train is None:
        return
    if train.complete and len(train):
        yield from _check_labels(task, train)
        yield from _check_validation(task, train, splits.get("validation"))
    for name in ("validation", "test"):
        if name in splits:
            yield from _leak(train, splits[name])


def _check_validation(task: Task, train: _Split, validation: _Split | None) -> Iterator[Finding]:
    jumpy = "Scores will jump from run to run: "
    if isinstance(task.validation, float):
        rows = round(task.validation * len(train))
        if rows < FEW_VALIDATION_ROWS:
            found = f"validates on {task.validation} of {numbered(len(train), 'row')}, about {rows}"
            yield train.warning("short validation", found, f"{jumpy}give a validation file, or add rows.")
    elif validation is not None and validation.complete and len(validation):
        if len(validation) < FEW_VALIDATION_ROWS:
            found = f"has {numbered(len(validation), 'row')} in validation"
            yield validation.warning("short validation", found, f"{jumpy}add rows.")
        if unseen := {label: rows.count for label, rows in train.labels.items() if label not in validation.labels}:
            found = f"has {numbered(len(unseen), 'label')} in train without a row in validation: "
            advice = "Validation says nothing about them: add rows."
            yield validation.warning("label not in validation", found + counted(unseen, SHOWN), advice)


def _check_rows(split: _Split, labels: tuple[str, ...]) -> Iterator[Finding]:
    """What is wrong with single rows, and which texts stand there twice."""
    task = split.task
    yield from split.broken.findings(task.name, "bad row")
    if labels:
        yield from _unknown_labels(split, labels)
    if split.complete and not len(split) and not split.broken:
        found = f"has no row to use in {split.name}"
        if split.without_label:
            found += f"; the column {task.label!r} is blank in {numbered(split.without_label, 'row')}"
        advice = "Give the columns that hold its text and its labels as `text` and `label`."
        yield split.finding("fault", "no rows", found, advice)
    if split.blank.count:
        found = f"has {numbered(split.blank.count, 'row')} with a label and a blank text in {split.name}"
        yield split.warning("blank text", found, "They are passed over: fill or remove them.", split.blank)
    if split.long.count:
        texts = numbered(split.long.count, "text")
        found = f"has {texts} of more than {split.max_characters:,} characters in {split.name}"
        advice = "Their ends are not read: cut them yourself, or raise train.max_length."
        yield split.warning("long text", found, advice, split.long)
    order = np.lexsort((split.rows, split.hashes))
    repeated = order[1:][split.hashes[order][1:] == split.hashes[order][:-1]]
    if len(repeated):
        times = numbered(len(repeated), "row")
        found = f"repeats the text of an earlier row, case and space aside, in {times} of {split.name}"
        yield split.warning("duplicates", found, "Keep one of each.", split.rows[repeated])
    order = np.lexsort((split.answers, split.hashes))
    hashes, answers = split.hashes[order], split.answers[order]
    conflicts = np.unique(hashes[1:][(hashes[1:] == hashes[:-1]) & (answers[1:] != answers[:-1])])
    if len(conflicts):
        found = f"labels {numbered(len(conflicts), 'text')} differently from row to row in {split.name}"
        rows = split.rows[np.isin(split.hashes, conflicts)]
        yield split.warning("conflicts", found, "Decide on one label for each, or remove them.", rows)


def _unknown_labels(split: _Split, labels: tuple[str, ...]) -> Iterator[Finding]:
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


def _check_labels(task: Task, train: _Split) -> Iterator[Finding]:
    """What the labels of the training rows say about the task."""
    counts = {label: rows.count for label, rows in train.labels.items()}
    if len(np.unique(train.answers)) == 1:
        found = f"has nothing to learn: every training row says {short(train.answer)}"
        advice = "Add rows that say something else, or leave the task out."
        yield train.finding("fault", "single label", found, advice)
        return
    if len(counts) >= MAX_LABELS or (len(counts) >= 20 and 2 * len(counts) > len(train)):
        found = f"has {len(counts):,} different labels in {numbered(len(train), 'row')}"
        yield train.warning("many labels", found, f"Is {task.label!r} the column of the label?")
    variants: dict[str, list[str]] = {}
    for label in dict.fromkeys([*task.labels, *counts]):
        variants.setdefault(_folded(label), []).append(label)
    for labels in variants.values():
        if len(labels) > 1:
            found = f"has labels that differ only in case, space or digits: {enumerated(map(repr, labels))}"
            yield train.warning("label variants", found, "They are learned as different labels: choose one spelling.")
    if absent := [label for label in task.labels if label not in counts]:
        found = f"has {numbered(len(absent), 'label')} without a row in train: {enumerated(absent)}"
        yield train.warning("label not in train", found, "It cannot be learned: add rows, or take it off `labels`.")
    if few := {label: count for label, count in counts.items() if count < FEW_ROWS}:
        found = f"has {numbered(len(few), 'label')} with fewer than {FEW_ROWS} rows in train: {counted(few, SHOWN)}"
        yield train.warning("rare labels", found, "Add rows, or join labels.")
    if counts:
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        if counts[most] > IMBALANCE * counts[least]:
            found = f"is uneven: {counts[most]:,} rows in train are {short(most)!r}, {counts[least]:,} {short(least)!r}"
            yield train.warning("imbalance", found, "Add rows of the small labels; look at macro_f1, not accuracy.")


def _leak(train: _Split, other: _Split) -> Iterator[Finding]:
    """Texts of a task's own training data in its validation or test data."""
    if train.path == other.path:
        advice = f"Its scores will mean nothing. Give another file, or leave {other.name} out."
        yield other.warning("leakage", f"has the same file as train and as {other.name}", advice)
        return
    known = np.isin(other.hashes, train.hashes)
    if not known.any():
        return
    # A hash of text and answer together; the factor is odd, so no bit of the answer is lost.
    one, two = (split.hashes ^ (split.answers * np.uint64(0x9E3779B97F4A7C15)) for split in (other, train))
    changed = int((known & ~np.isin(one, two)).sum())
    found = f"has {int(known.sum()):,} of {numbered(len(other), 'row')} of {other.name} in train too"
    if changed:
        found += f", {changed:,} of them with another label"
    yield other.warning("leakage", found, "Scores will be too good: remove them from train.", other.rows[known])


def _leaks_between_tasks(splits: Mapping[str, list[_Split]]) -> Iterator[Finding]:
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


def _counts(task: Task, splits: dict[str, _Split]) -> Counts:
    counts = Counts(task.kind, validation_share=task.validation if isinstance(task.validation, float) else None)
    for name, split in splits.items():
        counts.rows[name] = len(split)
        by_count = sorted(split.labels.items(), key=lambda item: (-item[1].count, item[0]))
        counts.labels[name] = {label: rows.count for label, rows in by_count}
    return counts


def _folded(label: str) -> str:
    """The same for labels that were probably meant to be one: 'No' and 'no', '1' and '1.0'."""
    folded = "".join(label.casefold().split())
    try:
        number = float(folded)
    except ValueError:
        return folded
    return repr(number) if math.isfinite(number) else folded
