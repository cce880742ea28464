"""A label for each word of a text, answered as spans: WNUT-17, parts of speech."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from onepass.data.examples import Ragged
from onepass.data.items import Item, Reading
from onepass.data.spans import spans_in, tags_of
from onepass.errors import first_of
from onepass.heads import scaling
from onepass.heads.base import NO_TEXTS, Kind, Row, blank, label_cell
from onepass.heads.cells import listed_cell, shown, written_list
from onepass.heads.options import checked_windows
from onepass.prediction import Prediction, Span
from onepass.tasks import Task

if TYPE_CHECKING:
    from torch import Tensor

OUTSIDE = "O"
ADVICE = 'Write them as a JSON list, ["O", "B-place"], or with spaces between them.'
_MARK = "\0"  # stands for any accent, vowel sign or joiner: they belong to what is before them
_WORD = re.compile(rf"\w[\w{_MARK}]*(?:['\u2019\-][\w{_MARK}]+)*|[^\w\s]{_MARK}*")
_SIGN = re.compile(r"[^\w\s\x00-\x7f]")
_JOINERS = "\u200c\u200d"  # inside of Persian and Indian words
_PREFIX = re.compile(r"([BIELSU])-(.+)", re.DOTALL)


def spans_of(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The spans that tags mark: label, first word, end. A tag without B- or I- is a span of one word, O is none.

    As usual in scoring, I- after another label or after nothing begins a span too. E-, L- (last), S- and U- (single)
    are understood.

    >>> spans_of(["B-person", "I-person", "O", "I-place", "B-place"])
    [('person', 0, 2), ('place', 3, 4), ('place', 4, 5)]
    """
    spans: list[tuple[str, int, int]] = []
    open_label: str | None = None
    for place, tag in enumerate(tags):
        match = _PREFIX.fullmatch(tag)
        if match is None:
            open_label = None
            if tag != OUTSIDE:
                spans.append((tag, place, place + 1))
            continue
        prefix, label = match.groups()
        if prefix in "IEL" and open_label == label:
            spans[-1] = (label, spans[-1][1], place + 1)
        else:
            spans.append((label, place, place + 1))
        open_label = label if prefix in "BI" else None
    return spans


def words_of(cell: Any, count: int | None = None) -> tuple[str, list[tuple[int, int]]]:
    """The text of a cell, and the characters of its words.

    A list of words is joined by spaces; written out it is one if it holds words and numbers alone. A text is
    cut at white space if that gives `count` words, else into words and signs.

    >>> words_of(["Late", "goal"])
    ('Late goal', [(0, 4), (5, 9)])
    >>> words_of("Late goal!")[1]
    [(0, 4), (5, 9), (9, 10)]
    """
    if isinstance(cell, str) and not _is_written_list(cell, count is not None):
        by_space = [match.span() for match in re.finditer(r"\S+", cell)]
        if len(by_space) == count:
            return cell, by_space
        return cell, [match.span() for match in _WORD.finditer(_with_plain_marks(cell))]
    given = listed_cell(cell)
    for word in given:
        if word is None or type(word) in NO_TEXTS:
            raise ValueError(f"has {NO_TEXTS.get(type(word), 'nothing')} among its words, where a text is needed.")
    words = [str(word) for word in given]
    text = " ".join(words)
    ends = np.cumsum([len(word) + 1 for word in words]).tolist()
    return text, [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]


def _is_written_list(cell: str, is_tagged: bool) -> bool:
    """Whether a cell is a list of words that is written out."""
    words = written_list(cell)
    if words is None or is_tagged:
        return words is not None
    # Of a text that nobody tagged, such as [[1, 2]], the brackets are a part.
    return bool(words) and all(type(word) in (str, int, float) for word in words)


def _with_plain_marks(text: str) -> str:
    """The text with the same mark for each accent, vowel sign or joiner, which `re` counts to no word."""
    return _SIGN.sub(lambda found: _MARK if _joins(found.group()) else found.group(), text)


def _joins(sign: str) -> bool:
    return sign in _JOINERS or unicodedata.category(sign).startswith("M")


def tag_names(task: Task) -> tuple[str, ...]:
    """The tags of a task; B, I and the like alone mark the one thing that it looks for, and get its name.

    >>> tag_names(Task(name="phrase", kind="tagging", text="text", label="tags", labels=["B", "I", "O"]))
    ('B-phrase', 'I-phrase', 'O')
    """
    if not {"B", "I"} <= set(task.labels) <= set("BIELSU" + OUTSIDE):
        return task.labels
    return tuple(tag if tag == OUTSIDE else f"{tag}-{task.name}" for tag in task.labels)


Tags = Sequence[Sequence[str]]


def _counts(answers: Tags, targets: Tags) -> tuple[int, int, int]:
    """Spans that are right, answered, and wanted."""
    pairs = [(set(spans_of(answer)), set(spans_of(target))) for answer, target in zip(answers, targets, strict=True)]
    right = sum(len(answer & target) for answer, target in pairs)
    return right, sum(len(answer) for answer, _ in pairs), sum(len(target) for _, target in pairs)


def span_f1(answers: Any, targets: Any) -> float:
    """F1 over the spans of all rows; a span is right if its words and its label are."""
    right, answered, wanted = _counts(answers, targets)
    return 2.0 * right / (answered + wanted) if answered + wanted else 1.0


def precision(answers: Any, targets: Any) -> float:
    """The share of the answered spans that are right."""
    right, answered, _ = _counts(answers, targets)
    return right / answered if answered else 0.0


def recall(answers: Any, targets: Any) -> float:
    """The share of the wanted spans that were found."""
    right, _, wanted = _counts(answers, targets)
    return right / wanted if wanted else 0.0


def word_accuracy(answers: Any, targets: Any) -> float:
    """The share of words whose tag is right."""
    pairs = [pair for rows in zip(answers, targets, strict=True) for pair in zip(*rows, strict=True)]
    return sum(one == other for one, other in pairs) / len(pairs) if pairs else 0.0


class Tagging(Kind):
    """A tag for each word, read from the word's first token; cross-entropy, the mean over a row's words.

    windows: how many windows of a long text are read at most; words behind them are answered with O.
    overlap: the share of a window that the next one reads again; a word is read where most is seen around it.
    """

    metrics = {"span_f1": span_f1, "precision": precision, "recall": recall, "word_accuracy": word_accuracy}
    outside = OUTSIDE
    points = "words"
    reads_tokens = True
    ragged = True
    reads_lists = True
    filler = -100

    def __init__(self, *, windows: int = 8, overlap: float = 0.25):
        self.windows = checked_windows(windows, overlap)

    def tags(self, task: Task, row: Row) -> list[str]:
        cell = row[task.label]
        tags = listed_cell(cell)
        if isinstance(cell, str) and cell.lstrip().startswith("[") and written_list(cell) is None:
            raise ValueError(f"has {shown(cell)}, which does not parse, where tags are needed. {ADVICE}")
        if any(blank(tag) for tag in tags):
            raise ValueError("has a word without a tag. Give each word one; O is the tag of words that have no other.")
        return [label_cell(tag) for tag in tags]

    def spans(self, task: Task, row: Row) -> list[tuple[int, int, str]] | None:
        """The spans of a text that are given by their characters; None where there are tags instead."""
        cell, text = row.get(task.label), row[task.text[0]]
        if blank(cell) or not isinstance(text, str) or written_list(text) is not None:
            return None
        return spans_in(written_list(cell) if isinstance(cell, str) else cell)

    def read(self, task: Task, row: Row) -> tuple[str, list[tuple[int, int]], list[str] | None]:
        """The text of a row, the characters of its words, and their tags, if it has some."""
        if (spans := self.spans(task, row)) is not None:
            text, words = words_of(row[task.text[0]])
            return text, words, tags_of(spans, words, OUTSIDE)
        tags = None if blank(row.get(task.label)) else self.tags(task, row)
        return *words_of(row[task.text[0]], None if tags is None else len(tags)), tags

    def item(self, task: Task, row: Row) -> Item | None:
        if blank(row[task.text[0]]):
            return None
        text, words, _ = self.read(task, row)
        return Item([(text,)], [(0, start, end) for start, end in words]) if words else None

    def labels_in(self, task: Task, row: Row) -> Iterable[str]:
        return () if self.blank(task, row) else self.read(task, row)[2] or ()

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> Ragged:
        text, words, tags = self.read(task, row)
        assert tags is not None  # rows without are passed over
        if len(tags) != len(words):
            raise ValueError(
                f"has {len(words)} words but {len(tags)} tags (words: {text[:60]!r}). Give one tag for each word."
            )
        number = {label: place for place, label in enumerate(labels)}
        if strange := [tag for tag in dict.fromkeys(tags) if tag not in number]:
            raise ValueError(f"has tag {', '.join(map(repr, strange))}. Labels: {first_of(labels)}.")
        return Ragged(np.array([number[tag] for tag in tags], np.int64))

    def said(self, task: Task, row: Row, target: Any) -> str:
        return " ".join(self.read(task, row)[2] or ())

    def faults(self, task: Task, targets: np.ndarray) -> list[str]:
        seen = set(np.concatenate(list(targets)).tolist()) if len(targets) else set()
        if len(seen) > 1:
            return []
        only = f"only {task.labels[seen.pop()]!r}" if seen else "none"
        return [f"Task {task.name!r} needs at least two tags to learn from; its training rows have {only}."]

    def outputs(self, task: Task) -> int:
        return len(task.labels)

    def scale_targets(self, task: Task, targets: np.ndarray, readings: Sequence[Reading] | None = None) -> Any:
        """The tags of the words that are read; words that were cut off are not learned from."""
        assert readings is not None
        return [target[reading.numbers] for target, reading in zip(targets, readings, strict=True)]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        real = targets >= 0
        log_p = logits.float().masked_fill(~real.unsqueeze(-1), 0.0).log_softmax(-1)
        own = log_p.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return -(own * real).sum(-1) / real.sum(-1).clamp(min=1)

    def entropy(self, logits: Tensor) -> Tensor:
        """The mean over a row's words."""
        real = logits[..., 0].isfinite()
        log_p = logits.float().masked_fill(~real.unsqueeze(-1), 0.0).log_softmax(-1)
        own = -(log_p.exp() * log_p).sum(-1) / math.log(logits.shape[-1])
        return (own * real).sum(-1) / real.sum(-1).clamp(min=1)

    def decode(self, task: Task, logits: Any, readings: Sequence[Reading] | None = None) -> list[Prediction]:
        """The spans of each row. The score is the smallest of their scores, or without one the smallest of a word."""
        assert readings is not None
        predictions = []
        for row, reading in zip(logits, readings, strict=True):
            sure = np.ones(len(reading.marks))
            if len(row):
                sure[reading.numbers] = np.exp(self.log_probabilities(task, row)).max(-1)
            spans = []
            for label, first, end in spans_of(self.row_tags(task, row, reading)):
                start, stop = int(reading.marks[first, 0]), int(reading.marks[end - 1, 1])
                score = float(sure[first:end].min())
                spans.append(Span(label, start, stop, reading.text[start:stop], score))
            score = min([span.score for span in spans] or [float(sure.min(initial=1.0))])
            predictions.append(Prediction([[span.text, span.label] for span in spans], score, spans=tuple(spans)))
        return predictions

    def log_probabilities(self, task: Task, logits: np.ndarray) -> np.ndarray:
        """Of the tags of words (P, C), calibrated; the likeliest tag of a word stays the likeliest."""
        return scaling.log_softmax(logits / scaling.temperatures(task, logits.dtype)[logits.argmax(-1), None])

    def cells(self, task: Task) -> dict[str, Any]:
        span = asdict(Span("label", 0, 1, "text", 1.0))
        return {"label": [["text", "label"]], "score": 1.0, "spans": [span]}

    def row_tags(self, task: Task, logits: np.ndarray, reading: Reading) -> list[str]:
        """The tag of every word of a row."""
        tags, names = [OUTSIDE] * len(reading.marks), tag_names(task)
        for word, best in zip(reading.numbers.tolist(), logits.argmax(-1).tolist(), strict=True):
            tags[word] = names[best]
        return tags

    def score(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        assert readings is not None
        answers = [self.row_tags(task, row, reading) for row, reading in zip(logits, readings, strict=True)]
        names = tag_names(task)
        wanted = [[names[tag] for tag in target] for target in targets]
        return {name: 100.0 * self.metrics[name](answers, wanted) for name in self.metric_names(task)}

    def baseline(self, task: Task, known: Any, targets: Any, readings: Sequence[Reading] | None = None) -> float | None:
        """Of no tag for any word."""
        names = tag_names(task)
        answers, wanted = [[OUTSIDE] * len(row) for row in targets], [[names[tag] for tag in row] for row in targets]
        return 100.0 * self.metrics[self.metric_names(task)[0]](answers, wanted)

    # --- trust: of the words that are read ------------------------------------------------------------------------

    def calibrate(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, Any]:
        rows = np.repeat(np.arange(len(logits)), [len(row) for row in logits])
        wanted = np.concatenate(self.scale_targets(task, targets, readings))
        return scaling.fit_labels(np.concatenate(logits), wanted, rows, task.labels)

    def reliability(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        wanted = np.concatenate(self.scale_targets(task, targets, readings))
        return scaling.label_reliability(self.log_probabilities(task, np.concatenate(logits)), wanted)
