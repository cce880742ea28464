"""A part of a text that answers a question about it: SQuAD, MRQA."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from onepass.data.examples import Ragged
from onepass.data.items import Reading
from onepass.heads.base import Kind, Row, blank
from onepass.heads.cells import shown, whole_number, written_list
from onepass.heads.options import checked_windows, wrong_option
from onepass.heads.points import choice_entropy, choice_loss, softmax
from onepass.heads.squad import exact_match, f1
from onepass.prediction import Prediction, Span
from onepass.tasks import Task

if TYPE_CHECKING:
    from torch import Tensor

Spans = tuple[tuple[int, int], ...]
ADVICE = 'Write them as {"text": [...], "answer_start": [...]}, or as a list of texts; [] where there is no answer.'


class Extraction(Kind):
    """The first and the last token of the answer, each by a softmax over all tokens of all windows of the text.

    The first token of a window stands for "not here", so that a text may hold no answer.

    starts: the column of the characters at which the answers begin, where they are not in the label's cells. Without
        any, the first place at which an answer stands in the text is taken.
    windows: how many windows of a long text are read at most.
    overlap: the share of a window that the next one reads again.
    max_answer: the most tokens of an answer.
    """

    metrics = {"f1": f1, "exact_match": exact_match}
    points = "tokens"
    reads_tokens = True
    ragged = True

    def __init__(self, *, starts: str | None = None, windows: int = 16, overlap: float = 0.25, max_answer: int = 30):
        if starts is not None and (not isinstance(starts, str) or not starts):
            raise wrong_option("starts", starts, "the name of a column")
        if type(max_answer) is not int or max_answer < 1:
            raise wrong_option("max_answer", max_answer, "a whole number from 1")
        self.starts, self.max_answer = starts, max_answer
        self.windows = checked_windows(windows, overlap)

    def unfit(self, task: Task) -> str:
        return "" if len(task.text) == 2 else f"text is {list(task.text)}; needed: [QUESTION, TEXT], two columns."

    def columns(self, task: Task) -> list[str]:
        return [*super().columns(task), *([self.starts] if self.starts else [])]

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> Ragged:
        """The characters of all right answers."""
        context = str(row[task.text[1]])
        starts = row[self.starts] if self.starts else None
        spans = []
        for given, start in answers_in(row[task.label], starts):
            text = given.strip()  # no token begins or ends with a space
            begin = context.find(text) if start is None else start + given.index(text)
            if begin < 0 and start is None:
                raise ValueError(f"has the answer {shown(text)}, which is not in the text. Give answers word for word.")
            if not 0 <= begin <= len(context) - len(text):
                raise ValueError(
                    f"has an answer from character {begin} to {begin + len(text)}, outside of its text, which has "
                    f"{len(context)}."
                )
            if context[begin : begin + len(text)] != text:
                found = shown(context[begin : begin + len(text)])
                raise ValueError(
                    f"has the answer {shown(text)} at character {begin}, where the text has {found}. Correct the start."
                )
            spans.append((begin, begin + len(text)))
        return Ragged(tuple(spans))

    def said(self, task: Task, row: Row, target: Any) -> str:
        return str(target.value)

    def teaches_nothing(self, answer: str) -> bool:
        return answer == str(())

    def faults(self, task: Task, targets: np.ndarray) -> list[str]:
        if any(len(spans) for spans in targets):
            return []
        found = f"none of its {len(targets):,} training rows has one"
        return [f"Task {task.name!r} needs at least one answer to learn from; {found}."]

    def fit(self, task: Task, targets: np.ndarray) -> dict[str, Any]:
        return {"no_answer": any(not spans for spans in targets)}

    def outputs(self, task: Task) -> int:
        return 2

    def classes(self, outputs: int) -> int:
        return 1

    def scale_targets(self, task: Task, targets: np.ndarray, readings: Sequence[Reading] | None = None) -> Any:
        """For each point whether a right answer begins, and whether one ends, there."""
        assert readings is not None
        return [_marked(spans, reading) for spans, reading in zip(targets, readings, strict=True)]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return choice_loss(logits, targets).mean(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        return choice_entropy(logits).mean(-1)

    def decode(self, task: Task, logits: Any, readings: Sequence[Reading] | None = None) -> list[Prediction]:
        """The likeliest answer of each row, or None where it is likelier that there is none."""
        assert readings is not None
        predictions = []
        for row, reading in zip(logits, readings, strict=True):
            span, score = self.best(task, row, reading)
            if span is None:
                predictions.append(Prediction(None, score, spans=()))
            else:
                text = reading.text[span[0] : span[1]]
                predictions.append(Prediction(text, score, spans=(Span(None, *span, text, score),)))
        return predictions

    def best(self, task: Task, logits: np.ndarray, reading: Reading) -> tuple[tuple[int, int] | None, float]:
        """The characters of the likeliest answer (None: there is none) and its probability; logits (P, 2)."""
        if not len(logits):
            return None, 1.0
        p = softmax(logits)
        nowhere = reading.spans[:, 0] < 0
        none = float(p[nowhere].sum(0).prod()) if task.fitted.get("no_answer") else 0.0
        for side in range(2):  # what several windows show is one place of the text
            places = np.unique(reading.spans[:, side], return_inverse=True)[1]
            p[:, side] = np.bincount(places, p[:, side])[places]
        best, found = 0.0, None
        for window in np.unique(reading.windows):
            own = np.flatnonzero((reading.windows == window) & ~nowhere)
            if not len(own):
                continue
            reach = min(self.max_answer, len(own))
            ends = sliding_window_view(np.pad(p[own, 1], (0, reach - 1)), reach)  # (n, reach) from each token on
            both = p[own, 0][:, None] * ends
            first, further = divmod(int(both.argmax()), reach)
            if both[first, further] > best:
                best = float(both[first, further])
                found = int(reading.spans[own[first], 0]), int(reading.spans[own[first + further], 1])
        return (None, none) if found is None or none > best else (found, best)

    def cells(self, task: Task) -> dict[str, Any]:
        return {"label": "text", "score": 1.0, "spans": [asdict(Span(None, 0, 1, "text", 1.0)) | {"label": ""}]}

    def score(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        assert readings is not None
        answers = [prediction.label or "" for prediction in self.decode(task, logits, readings)]
        wanted = [
            [reading.text[start:end] for start, end in spans] for spans, reading in zip(targets, readings, strict=True)
        ]
        return {name: 100.0 * self.metrics[name](answers, wanted) for name in self.metric_names(task)}


def answers_in(cell: Any, starts: Any = None) -> list[tuple[str, int | None]]:
    """The answers of a cell, each with the character it begins at, if that is known; ValueError if it cannot be read.

    >>> answers_in({"text": ["red"], "answer_start": [4]}), answers_in(["red", "blue"]), answers_in("red", "4")
    ([('red', 4)], [('red', None), ('blue', None)], [('red', 4)])
    """
    cell, starts = _parsed(cell), _parsed(starts)
    if isinstance(cell, Mapping):
        if "text" not in cell:
            raise ValueError(f"has {shown(dict(cell))} where answers are needed. {ADVICE}")
        cell, starts = cell["text"], cell.get("answer_start", starts)
    if isinstance(cell, (list, tuple)) and cell and all(isinstance(one, Mapping) for one in cell):
        return [pair for one in cell for pair in answers_in(one)]
    texts = [cell] if isinstance(cell, (str, int, float)) else cell
    if not isinstance(texts, (list, tuple)) or not all(isinstance(one, (str, int, float)) for one in texts):
        raise ValueError(f"has {shown(cell)} where answers are needed. {ADVICE}")
    places = [None] * len(texts) if blank(starts) else starts if isinstance(starts, (list, tuple)) else [starts]
    if len(texts) != len(places):
        raise ValueError(f"has {len(texts)} answers but {len(places)} starts. Give one start for each answer.")
    found = []
    for text, place in zip(texts, places, strict=True):
        number = whole_number(place)
        if place is not None and number is None:
            raise ValueError(f"has {shown(place)} where the character is needed at which an answer begins.")
        if blank(text):
            raise ValueError(f"has a blank answer. {ADVICE}")
        found.append((str(text), number))
    return found


def _parsed(cell: Any) -> Any:
    """A cell that is written out as JSON, or a list as Python writes it, as what it stands for."""
    if isinstance(cell, str) and cell.lstrip().startswith("{"):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return cell
    found = written_list(cell) if isinstance(cell, str) else None
    return cell if found is None else found


def _marked(spans: Spans, reading: Reading) -> np.ndarray:
    """(P, 2): 1 where an answer begins, and where one ends; where no window holds one, at the tokens for "not here"."""
    marked = np.zeros((len(reading.spans), 2), np.float32)
    real = reading.spans[:, 0] >= 0
    for start, end in spans:
        begins = real & (reading.spans[:, 0] <= start) & (reading.spans[:, 1] > start)
        ends = real & (reading.spans[:, 0] < end) & (reading.spans[:, 1] >= end)
        whole = np.intersect1d(reading.windows[begins], reading.windows[ends])
        here = np.isin(reading.windows, whole)
        marked[begins & here, 0] = marked[ends & here, 1] = 1.0
    if not marked.any():
        marked[~real] = 1.0
    return marked
