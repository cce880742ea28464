"""Everything about the data of a task file that a user should know before training.

Each file is read once, row by row, however many tasks read it. Nothing stops at the first fault: a file that cannot be
read is one finding among the others.
"""

import unicodedata
from collections.abc import Container, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from onepass.data.columns import SEPARATORS
from onepass.data.files import column_names, read_chunks
from onepass.data.findings import Counts, Finding, Report, counted, enumerated, numbered, short
from onepass.data.leakage import leak, leaks_between_tasks
from onepass.data.reading import Reader
from onepass.data.seen import MAX_LABELS, SHOWN, SHOWN_FAULTS, BrokenRows, SplitRows
from onepass.errors import DataError, did_you_mean
from onepass.tasks import Task, TaskFile

FEW_ROWS = 8  # of a label in train
FEW_VALIDATION_ROWS = 20
IMBALANCE = 20  # rows of the largest label for one of the smallest
MISSING = (
    "nan",
    "NaN",
    "NaT",
    "null",
    "NULL",
    "None",
    "n/a",
    "NA",
    "N/A",
    "#N/A",
    "<NA>",
)  # as programs write a missing value


def check_data(file: TaskFile, kinds: Mapping[str, Reader]) -> Report:
    """Reads all data of a task file and reports what is in them; faults are reported, never raised.

    kinds: the reader of each task, by the task's name.
    """
    longest = file.train.get("max_length", 128)
    max_characters = 16 * longest if isinstance(longest, int) else 2048  # what the tokenizer looks at
    splits: dict[str, list[SplitRows]] = {name: [] for name in file.tasks}
    by_path: dict[Path, list[SplitRows]] = {}
    findings: list[Finding] = []
    for task in file.tasks.values():
        for name in ("train", "validation", "test"):
            source = getattr(task, name)
            if isinstance(source, Path):
                split = SplitRows(task, name, source, kinds[task.name], max_characters)
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
    findings += leaks_between_tasks(splits)
    order = {name: place for place, name in enumerate(file.tasks)}
    findings.sort(key=lambda finding: (finding.severity, order[finding.task]))
    return Report(str(file.path), tasks, findings)


def _read(path: Path, splits: list[SplitRows]) -> list[Finding]:
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
            found = f"reads the column {name!r}, which is not there"
            advice = f"Columns: {enumerated(names or ())}.{did_you_mean(name, names or ())}"
            findings.append(split.finding("fault", "missing column", found, advice))
        split.complete = not missing
        if split.complete:
            useful.append(split)
    task = splits[0].task.name
    others = dict.fromkeys(split.task.name for split in splits if split.task.name != task)
    also = f"(and {enumerated(others)}) " if others else ""
    broken = BrokenRows(path)
    columns = dict.fromkeys(column for split in useful for column in split.kind.columns(split.task))
    try:
        for chunk in read_chunks(path, list(columns), faults=broken) if useful else ():
            for number, row in chunk.rows():
                for split in useful:
                    split.add(number, row)
    except DataError as error:
        broken.broke_off = True
        found = f"{also}has a file that cannot be used: {str(error).rstrip('.')}"
        findings.append(Finding("fault", task, "unreadable file", found, ""))
    for split in useful:
        split.complete = not broken.broke_off
    findings += broken.findings(task, "broken row", f"{also}has a row that cannot be read: ")
    for split in splits:
        split.freeze()
    return findings


def _check_task(task: Task, splits: dict[str, SplitRows]) -> Iterator[Finding]:
    train = splits.get("train")
    labels = task.labels
    if not labels and train is not None and train.complete and len(train.labels) < MAX_LABELS:
        labels = tuple(train.labels)
    for split in splits.values():
        yield from _check_rows(split, labels)
    if train is None:
        return
    if labels:
        for fault in train.kind.named_faults(task.model_copy(update={"labels": labels})):
            yield train.finding("fault", "option", f"has an option that does not fit: {fault.rstrip('.')}", "")
    if train.complete and len(train):
        yield from _check_labels(task, train)
        yield from _check_validation(task, train, splits.get("validation"))
    for name in ("validation", "test"):
        if name in splits:
            yield from leak(train, splits[name])


def _check_validation(task: Task, train: SplitRows, validation: SplitRows | None) -> Iterator[Finding]:
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


def _check_rows(split: SplitRows, labels: tuple[str, ...]) -> Iterator[Finding]:
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
    if split.without_label and split.kind.blank_advice and len(split):
        found = (
            f"passes over {numbered(split.without_label, 'row')} of {split.name} with a blank cell in {task.label!r}"
        )
        yield split.warning("blank labels", found, split.kind.blank_advice)
    if split.blank.count:
        found = f"has {numbered(split.blank.count, 'row')} with a label and a blank text in {split.name}"
        yield split.warning("blank text", found, "They are passed over: fill or remove them.", split.blank)
    if split.long.count:
        texts = numbered(split.long.count, "text")
        found = f"has {texts} of more than {split.max_characters:,} characters in {split.name}"
        advice = "Their ends are not read: cut them yourself, or raise train.max_length."
        yield split.warning("long text", found, advice, split.long)
    order = np.lexsort((split.rows, split.questions))
    repeated = order[1:][split.questions[order][1:] == split.questions[order][:-1]]
    if len(repeated):
        times = numbered(len(repeated), "row")
        found = f"repeats the text of an earlier row, case and space aside, in {times} of {split.name}"
        yield split.warning("duplicates", found, "Keep one of each.", split.rows[repeated])
    order = np.lexsort((split.answers, split.questions))
    questions, answers = split.questions[order], split.answers[order]
    conflicts = np.unique(questions[1:][(questions[1:] == questions[:-1]) & (answers[1:] != answers[:-1])])
    if len(conflicts):
        found = f"labels {numbered(len(conflicts), 'text')} differently from row to row in {split.name}"
        rows = split.rows[np.isin(split.questions, conflicts)]
        yield split.warning("conflicts", found, "Decide on one label for each, or remove them.", rows)


def _unknown_labels(split: SplitRows, labels: tuple[str, ...]) -> Iterator[Finding]:
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


def _check_labels(task: Task, train: SplitRows) -> Iterator[Finding]:
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
    if len(counts) >= MAX_LABELS or (len(counts) >= 20 and 2 * len(counts) > len(train)):
        found = f"has {len(counts):,} different labels in {numbered(len(train), 'row')}"
        yield train.warning("many labels", found, f"Is {task.label!r} the column of the label?")
    if missing := {label: counts[label] for label in MISSING if label in counts}:
        found = f"has labels that look like missing values: {counted(missing, SHOWN)}"
        yield train.warning("missing values", found, "They are learned as labels: leave the cells of such rows blank.")
    if (outside := train.kind.outside) and outside not in counts and all(map(str.isdecimal, counts)):
        found = f"has tags that are numbers, and no {outside!r}: {counted(counts, SHOWN)}"
        yield train.warning("numbered tags", found, "Each word is a span then: write the names the numbers stand for.")
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
    if absent := [label for label in task.labels if label not in counts]:
        found = f"has {numbered(len(absent), 'label')} without a row in train: {enumerated(absent)}"
        yield train.warning("label not in train", found, "It cannot be learned: add rows, or take it off `labels`.")
    if few := {label: count for label, count in counts.items() if count < FEW_ROWS}:
        found = f"has {numbered(len(few), 'label')} with fewer than {FEW_ROWS} rows in train: {counted(few, SHOWN)}"
        yield train.warning("rare labels", found, "Add rows, or join labels.")
    if counts := {label: count for label, count in counts.items() if count < len(train)}:  # O is a tag of every text
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        if counts[most] > IMBALANCE * counts[least]:
            found = f"is uneven: {counts[most]:,} rows in train are {short(most)!r}, {counts[least]:,} {short(least)!r}"
            yield train.warning("imbalance", found, "Add rows of the small labels; accuracy alone would hide them.")


def _counts(task: Task, splits: dict[str, SplitRows]) -> Counts:
    counts = Counts(task.kind, validation_share=task.validation if isinstance(task.validation, float) else None)
    for name, split in splits.items():
        counts.rows[name] = len(split)
        by_count = sorted(split.labels.items(), key=lambda item: (-item[1].count, item[0]))
        counts.labels[name] = {label: rows.count for label, rows in by_count}
    return counts


def _is_of_others(label: str, labels: Container[str]) -> bool:
    """Whether a label is other ones with a separator between them."""
    parts = [label.split(mark) for mark in SEPARATORS if mark in label]
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
