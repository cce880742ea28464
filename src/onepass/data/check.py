"""Everything about the data of a task file that a user should know before training.

Each file is read once, row by row, however many tasks read it. Nothing stops at the first fault: a file that cannot be
read is one finding among the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from onepass.data.files import column_names, read_chunks
from onepass.data.findings import Counts, Finding, Report, counted, enumerated, numbered
from onepass.data.labels import label_findings, unknown_labels
from onepass.data.leakage import leak, leaks_between_tasks
from onepass.data.reading import Reader
from onepass.data.seen import SHOWN, BrokenRows, SplitRows
from onepass.errors import DataError, did_you_mean
from onepass.tasks import Task, TaskFile

FEW_VALIDATION_ROWS = 20


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
    for split in splits:
        missing = [] if names is None else list(_missing_columns(split, names))
        findings += missing
        split.complete = not missing
    useful = [split for split in splits if split.complete]
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


def _missing_columns(split: SplitRows, names: Sequence[str]) -> Iterator[Finding]:
    for name in split.kind.columns(split.task):
        if name not in names:
            found = f"reads the column {name!r}, which is not there"
            advice = f"Columns: {enumerated(names)}.{did_you_mean(name, names)}"
            yield split.finding("fault", "missing column", found, advice)


def _check_task(task: Task, splits: dict[str, SplitRows]) -> Iterator[Finding]:
    train = splits.get("train")
    labels = task.labels
    if not labels and train is not None and train.complete and train.has_all_labels:
        labels = tuple(train.labels)
    for split in splits.values():
        yield from _check_rows(split, labels)
    if train is None:
        return
    if labels:
        for fault in train.kind.named_faults(task.model_copy(update={"labels": labels})):
            yield train.finding("fault", "option", f"has an option that does not fit: {fault.rstrip('.')}", "")
    if train.complete and len(train):
        yield from label_findings(task, train)
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
    """What is wrong with rows."""
    task = split.task
    yield from split.broken.findings(task.name, "bad row")
    if labels:
        yield from unknown_labels(split, labels)
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
    yield from _repeated(split)


def _repeated(split: SplitRows) -> Iterator[Finding]:
    """Texts that stand in several rows, with the same label or with others."""
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


def _counts(task: Task, splits: dict[str, SplitRows]) -> Counts:
    counts = Counts(task.kind, validation_share=task.validation if isinstance(task.validation, float) else None)
    for name, split in splits.items():
        counts.rows[name] = len(split)
        by_count = sorted(split.labels.items(), key=lambda item: (-item[1].count, item[0]))
        counts.labels[name] = {label: rows.count for label, rows in by_count}
    return counts
