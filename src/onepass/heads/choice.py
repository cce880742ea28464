"""The best of several candidate texts for a context: COPA, WinoGrande, CosmosQA, ReCoRD."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onepass.data.examples import Ragged
from onepass.data.items import Item, Reading
from onepass.heads import scaling
from onepass.heads.base import NO_TEXTS, Kind, Row, blank, texts_of
from onepass.heads.cells import listed_cell, shown, whole_number, written_list
from onepass.heads.options import checked_columns, wrong_option
from onepass.heads.points import choice_entropy, choice_loss, softmax
from onepass.heads.template import Template
from onepass.prediction import Prediction
from onepass.tasks import Task

if TYPE_CHECKING:
    from torch import Tensor


TEXTS = "none"  # the numbered_from of labels that are texts


def accuracy(answers: Any, targets: Any) -> float:
    """The share of rows whose answer is a right candidate."""
    return float(np.mean([target[answer] > 0 for answer, target in zip(answers, targets, strict=True)]))


class Choice(Kind):
    """The best of several candidates, by a softmax over their scores; each is read with the context.

    Equal candidates of a row are one: answers and scores name candidates by their text.

    choices: the columns of the candidates, or one column whose cells are lists of them. Blank cells are none.
    template: what is read before a candidate, from columns in braces: "{premise} What was the {question}?". Without it
        the texts of the row, with a space between them.
    blank: a mark in the text in whose place each candidate is put, such as _ or @placeholder; nothing is read before.
    numbered_from: the number of the first candidate, where labels are numbers, or `none` where they are texts. Without
        it a label is a text or a number from 0, and one that could be either is a fault.
    loss: `softmax` lets the candidates compete; `binary` asks of each by itself whether it is right, as CA-MTL and
        MT-TaG train COPA. The answer is the candidate with the highest score either way.
    """

    metrics = {"accuracy": accuracy}
    ragged = True
    reads_candidates = True

    def __init__(
        self,
        *,
        choices: str | Sequence[str] = (),
        template: str | None = None,
        blank: str | None = None,
        numbered_from: int | str | None = None,
        loss: str = "softmax",
    ):
        possible = "a list of columns, or the column of lists of candidates"
        self.choices = checked_columns("choices", choices, possible)
        for name, value in (("template", template), ("blank", blank)):
            if value is not None and (not isinstance(value, str) or not value):
                raise wrong_option(name, value, "a text")
        if numbered_from not in (None, TEXTS) and type(numbered_from) is not int:
            raise wrong_option("numbered_from", numbered_from, f"a whole number, or {TEXTS} where labels are texts")
        if loss not in ("softmax", "binary"):
            raise wrong_option("loss", loss, "softmax, binary")
        self.binary = loss == "binary"
        self.template = None if template is None else Template(template)
        self.mark = blank
        self.numbered_from = numbered_from
        self.first = numbered_from if isinstance(numbered_from, int) else 0
        self.longest = 16 * 8192 + 1
        """Characters kept of a text with its candidate in place; more than encoders read"""

    def unfit(self, task: Task) -> str:
        return "" if self.choices else "choices is missing. Needed: the columns of the candidates."

    def inputs(self, task: Task) -> list[str]:
        columns = [] if self.template is None else self.template.columns
        return list(dict.fromkeys([*task.text, *columns, *self.choices]))

    def lacks(self, task: Task, missing: Collection[str]) -> bool:
        return super().lacks(task, missing) or all(column in missing for column in self.choices)

    def num_texts(self, task: Task) -> int:
        return 0

    def keep_short(self, longest: int) -> None:
        self.longest = longest

    def listed(self, row: Row) -> list[Any]:
        cells: list[Any] = [row[column] for column in self.choices]
        if len(cells) == 1 and not blank(cells[0]):
            if isinstance(cells[0], str) and written_list(cells[0]) is None:
                raise ValueError(
                    f"has a text in {self.choices[0]!r} where a list of candidates is needed. Name the columns of all "
                    "candidates in choices, or write lists as JSON."
                )
            cells = listed_cell(cells[0])
        return cells

    def offered(self, row: Row) -> list[str]:
        """The candidates, blank ones as nothing: labels that are numbers count them too."""
        cells = self.listed(row)
        for cell in cells:
            if type(cell) in NO_TEXTS:
                raise ValueError(f"has {NO_TEXTS[type(cell)]} among its candidates, where a text is needed.")
        return ["" if blank(cell) else str(cell).strip() for cell in cells]

    def candidates(self, row: Row) -> list[str]:
        found = list(dict.fromkeys(cell for cell in self.offered(row) if cell))
        if not found:
            columns = ", ".join(map(repr, self.choices))
            raise ValueError(f"has no candidate in {columns}. Give at least one, or remove the row.")
        return found

    def item(self, task: Task, row: Row) -> Item | None:
        if (texts := texts_of(task, row)) is None:
            return None
        candidates = self.candidates(row)
        if self.mark is not None:
            if not any(self.mark in text for text in texts):
                raise ValueError(f"has no {self.mark!r} in {shown(' '.join(texts))}, where candidates would be put.")
            read = [tuple(self._put(candidate, text, self.mark) for text in texts) for candidate in candidates]
            return Item(read, names=candidates)
        context = " ".join(texts) if self.template is None else self.template.filled(row)
        return Item([(context, candidate) for candidate in candidates], names=candidates)

    def _put(self, candidate: str, text: str, mark: str) -> str:
        """The beginning of a text with a candidate in place of its marks; the whole may be as long as their product."""
        begin = text[: self.longest * len(mark)]  # all of it is needed where a single letter stands for each mark
        return begin.replace(mark, candidate, self.longest // len(candidate) + 1)[: self.longest]

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> Ragged:
        """1 for each right candidate, else 0."""
        offered, label = self.offered(row), row[task.label]
        right = {self.meant(one, offered) for one in (label if isinstance(label, (list, tuple)) else [label])}
        if not right:
            raise ValueError("has no right candidate. Give the number of one, or its text.")
        return Ragged(np.array([candidate in right for candidate in self.candidates(row)], np.float32))

    def meant(self, right: Any, candidates: Sequence[str]) -> str:
        """Which candidate a label means; candidates may be blank, but not the one that is meant."""
        text, number = str(right).strip(), whole_number(right)
        by_text = text if text and text in candidates else None
        by_number = None
        if number is not None and self.numbered_from != TEXTS and 0 <= number - self.first < len(candidates):
            by_number = candidates[number - self.first]
        if by_text is None and by_number is None and text in self.choices and len(candidates) == len(self.choices):
            by_text = candidates[self.choices.index(text)]  # named by its column, as in COPA of the hub
        if self.numbered_from is None and None not in (by_text, by_number) and by_text != by_number:
            raise ValueError(
                f"has the answer {shown(right)}, which is the text of one candidate and the number of another. Say "
                f"what labels are: numbered_from: 0 (or 1) for numbers, numbered_from: {TEXTS} for texts."
            )
        found = by_text if by_number is None else by_number
        if found is None:
            last = self.first + len(candidates) - 1
            numbers = "" if self.numbered_from == TEXTS else f"{self.first} to {last}, or "
            raise ValueError(
                f"has the answer {shown(right)}, which is none of its candidates. Possible: {numbers}one of "
                f"{', '.join(shown(candidate) for candidate in candidates if candidate)}."
            )
        if not found:
            raise ValueError(f"has the answer {shown(right)}, but that candidate is blank.")
        return found

    def said(self, task: Task, row: Row, target: Any) -> str:
        candidates = self.candidates(row)
        return ", ".join(repr(candidates[right]) for right in np.flatnonzero(target.value))

    def outputs(self, task: Task) -> int:
        return 1

    def classes(self, outputs: int) -> int:
        return 2

    def loss_key(self) -> tuple[Any, ...]:
        return (*super().loss_key(), self.binary)

    def scale_targets(self, task: Task, targets: np.ndarray, readings: Sequence[Reading] | None = None) -> Any:
        return [target[:, None] for target in targets]

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        if not self.binary:
            return choice_loss(logits, targets).squeeze(-1)
        real = logits.isfinite()
        signed = logits.float().masked_fill(~real, 0.0) * (1 - 2 * targets)  # -log sigmoid(x) is log(1 + exp(-x))
        own = signed.logaddexp(signed.new_zeros(())) * real
        return (own.sum(1) / real.sum(1)).squeeze(-1)

    def entropy(self, logits: Tensor) -> Tensor:
        return choice_entropy(logits).squeeze(-1)

    def baseline(self, task: Task, known: Any, targets: Any, readings: Sequence[Reading] | None = None) -> float | None:
        """Of the place at which a right candidate stands most often."""
        places = np.concatenate([np.flatnonzero(target) for target in known])
        place = int(np.bincount(places).argmax())
        return 100.0 * accuracy([min(place, len(target) - 1) for target in targets], targets)

    def decode(self, task: Task, logits: Any, readings: Sequence[Reading] | None = None) -> list[Prediction]:
        assert readings is not None
        predictions = []
        for row, reading in zip(logits, readings, strict=True):
            p = softmax(row / scaling.temperature(task, row.dtype))[:, 0]
            best = int(row[:, 0].argmax())
            scores = dict(zip(reading.names, map(float, p), strict=True))
            predictions.append(Prediction(reading.names[best], float(p[best]), scores))
        return predictions

    def answers(self, task: Task, logits: Any) -> np.ndarray:
        """The place of the likeliest candidate of each row."""
        return np.array([row.argmax() for row in logits])

    # --- trust --------------------------------------------------------------------------------------------------

    def calibrate(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, Any]:
        scores, right = _side_by_side(logits, -np.inf), _side_by_side(targets, 0.0) > 0

        def losses(rows: np.ndarray, temperatures: np.ndarray) -> np.ndarray:
            return _losses(scores[rows] / temperatures[:, None], right[rows])

        rows = np.arange(len(logits))
        return scaling.fit(losses, rows, np.zeros_like(rows), ("candidates",))

    def reliability(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        scores, wanted = _side_by_side(logits, -np.inf), _side_by_side(targets, 0.0)
        scaled = scores / scaling.temperature(task)
        p, best = np.exp(scaling.log_softmax(scaled)), (np.arange(len(scores)), scores.argmax(-1))
        return {
            "ece": 100.0 * scaling.calibration_error(p[best], wanted[best] > 0),
            "brier": float(((p - wanted) ** 2).sum(-1).mean()),
            "nll": float(_losses(scaled, wanted > 0).mean()),
        }


def _side_by_side(rows: Any, filler: float) -> np.ndarray:
    """One number for each candidate of each row, (R, P)."""
    found = np.full((len(rows), max(map(len, rows))), filler)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row.reshape(-1)
    return found


def _losses(logits: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Minus the logarithm of the probability of all right candidates together, (R,)."""
    return np.asarray(-np.logaddexp.reduce(np.where(right, scaling.log_softmax(logits), -np.inf), -1))
