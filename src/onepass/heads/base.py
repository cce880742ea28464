"""What a kind of task is: how it reads rows, learns, answers and is scored.

A kind knows nothing of encoders and methods. Losses and entropies use the methods of the tensors they are given and
decoding works on numpy arrays, so nothing in this package imports torch: the torch-free engine decodes with the same
code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onepass.data.items import Item, Points, Reading, Windows
from onepass.heads.options import checked_windows, wrong_option
from onepass.heads.scaling import check_calibration
from onepass.heads.thresholds import check_thresholds
from onepass.prediction import Prediction
from onepass.tasks import Task, label_text

if TYPE_CHECKING:
    from torch import Tensor

Row = Mapping[str, Any]
Metric = Callable[[Any, Any], float]
NO_TEXTS: dict[type, str] = {list: "a list", tuple: "a list", dict: "an object", bytes: "bytes"}
LISTS = " Rows with any number of labels are for kind: multilabel."


def is_missing(value: Any) -> bool:
    """Whether a cell has no value: None, or what is not equal to itself, as NaN of any sort and NaT."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA does not even say that
        return True
    except ValueError:  # an array
        return False


def blank(value: Any) -> bool:
    """Whether a cell holds nothing: no value, or only white space."""
    return not value.strip() if isinstance(value, str) else is_missing(value)


def texts_of(task: Task, row: Row) -> tuple[str, ...] | None:
    """The texts that a task reads of a row; None if one is blank, ValueError if a cell holds no text.

    A list would otherwise be read as Python writes it, brackets and all.
    """
    values = [row[column] for column in task.text]
    for column, value in zip(task.text, values, strict=True):
        if type(value) in NO_TEXTS:
            raise ValueError(f"has {NO_TEXTS[type(value)]} in {column!r} where a text is needed.")
    return None if any(blank(value) for value in values) else tuple(str(value) for value in values)


def label_cell(value: Any) -> str:
    """A cell of a data file as a label; ValueError if it holds a list or an object."""
    if type(value) in NO_TEXTS:  # not what is in it: rows with the same fault are told of together
        advice = LISTS if type(value) is list else ""
        raise ValueError(f"has {NO_TEXTS[type(value)]} where one label is needed.{advice}")
    return label_text(value)


class Kind:
    """How one kind of task reads its rows, learns from them, answers and is scored.

    R rows, P points of a row, C outputs of the task. Options are the constructor's keyword arguments; an instance
    belongs to one task. Most kinds have one point a row, and (R, C) logits. A kind that is `ragged` has one for each
    candidate, word or token: (R, P, C) logits, with -inf in the places that a row does not have, and outside of the
    model a list of (P, C) arrays.
    """

    metrics: ClassVar[dict[str, Metric]] = {}
    """By name, functions of (answers, targets) to a number, the higher the better; the first is the default"""
    special_metrics: ClassVar[tuple[str, ...]] = ()
    """Those that only some tasks want, and that their options ask for"""
    points: ClassVar[Points] = "vector"
    """What the head reads of a sequence"""
    ragged: ClassVar[bool] = False
    """Whether rows have several points each"""
    thresholds_decide: ClassVar[bool] = False
    """Whether thresholds decide what is answered, so that scores depend on them, and do not only withhold answers"""
    reads_candidates: ClassVar[bool] = False
    """Whether the text is read anew with each candidate"""
    reads_lists: ClassVar[bool] = False
    """Whether the text may be given as a list of words"""
    blank_advice: ClassVar[str] = ""
    """What to tell who leaves the label's cell blank, for kinds where that is easily meant otherwise than it is read"""
    outside: ClassVar[str] = ""
    """The label of what is to have none, for kinds with such a one"""
    rare_advice: ClassVar[str] = ""
    """What to tell whose rare labels are not learned, as a part of a sentence"""
    filler: ClassVar[float] = 0
    """What stands in the targets of a batch in the places that a row does not have"""
    windows = Windows()
    """How texts are read that are longer than the tokenizer's limit"""
    pooling = "mean"
    """What the logits of a text's windows become together: their mean, or the largest of each"""

    reads_tokens: ClassVar[bool] = False
    """Whether the method has to give the states of tokens"""

    def read_windows(self, windows: Any, overlap: Any, pooling: Any) -> None:
        """Take the options with which long texts are read."""
        self.windows = checked_windows(windows, overlap)
        if pooling not in ("mean", "max"):
            raise wrong_option("pooling", pooling, "mean, max")
        self.pooling = pooling

    def unfit(self, task: Task) -> str:
        """What a task of this kind lacks or has too much of, if so."""
        return ""

    # --- reading rows -------------------------------------------------------------------------------------------

    def inputs(self, task: Task) -> list[str]:
        """The columns that a row must have to be answered."""
        return list(task.text)

    def lacks(self, task: Task, missing: Collection[str]) -> bool:
        """Whether a row cannot be answered that has no value in the `missing` ones of its columns."""
        return any(column in missing for column in task.text)

    def columns(self, task: Task) -> list[str]:
        """The columns that a file to learn from must have."""
        return [*self.inputs(task), task.label]

    def num_texts(self, task: Task) -> int:
        """How many texts are enough to ask the task: 1, 2 for a pair, 0 if a row with its columns is needed."""
        return len(task.text)

    def item(self, task: Task, row: Row) -> Item | None:
        """What the task reads of a row; None if a text is blank. ValueError, in words, if cells do not fit together."""
        texts = texts_of(task, row)
        return None if texts is None else Item([texts])

    def listed(self, row: Row) -> list[Any]:
        """The cells of all candidates, of kinds that read such."""
        return []

    @property
    def marked(self) -> tuple[str, ...]:
        """The columns whose words are looked for in the text."""
        return ()

    def keep_short(self, longest: int) -> None:
        """Make no text, and compare none with others, that is longer than so many characters: a row could ask much."""

    def blank(self, task: Task, row: Row) -> bool:
        """Whether the row says nothing about this task; such rows are passed over, so a wide table may have holes."""
        return blank(row[task.label])

    def labels_in(self, task: Task, row: Row) -> Iterable[str]:
        """The labels that a row mentions."""
        return ()

    def target(self, row: Row, task: Task, labels: Sequence[str]) -> Any:
        """What the row says, as a number or an array; ValueError, in words, if that cannot be."""
        raise NotImplementedError

    def named_faults(self, task: Task) -> list[str]:
        """What is wrong with the labels that the task's options name, once its labels are known."""
        return []

    def faults(self, task: Task, targets: np.ndarray) -> list[str]:
        """Why a task cannot be trained on these targets, if so."""
        return []

    def fit(self, task: Task, targets: np.ndarray) -> dict[str, Any]:
        """What has to be known of the training targets later on; it is kept in `task.fitted`."""
        return {}

    def said(self, task: Task, row: Row, target: Any) -> str:
        """What the row says, in a form that is equal for equal answers."""
        return ", ".join(map(repr, sorted(set(self.labels_in(task, row))))) or str(target)

    def teaches_nothing(self, answer: str) -> bool:
        """Whether rows that all say this, as `said` has it, cannot be trained on.

        A kind with several points a row still learns which of them it is.
        """
        return not self.ragged

    def all_ranges(self, task: Task, length: int) -> NDArray[np.int16]:
        """The tokens (m, 2) that the head reads of a sequence about which nothing is known but its length."""
        places = np.arange(length, dtype=np.int16)
        return np.stack([places, places + 1], 1)

    # --- learning -----------------------------------------------------------------------------------------------

    def outputs(self, task: Task) -> int:
        """C, the number of logits of a point."""
        raise NotImplementedError

    def classes(self, outputs: int) -> int:
        """Among how many answers a loss of so many outputs decides; 1: it is no choice, or one of no fixed size."""
        return outputs

    def states(self, task: Task) -> int:
        """How many states, side by side, the head reads for a point."""
        return 1

    def loss_key(self) -> tuple[Any, ...]:
        """Tasks of equal keys and equally many outputs share one call of `loss`."""
        return (type(self).__name__, self.pooling, self.windows.most > 1)

    def start_bias(self, task: Task) -> tuple[float, ...] | None:
        """Where the logits begin before anything is learned; None: at 0."""
        return None

    def scale_targets(self, task: Task, targets: np.ndarray, readings: Sequence[Reading] | None = None) -> Any:
        """The targets as the loss wants them, one a row; for ragged kinds (P, ...) each."""
        return targets

    def pool(self, logits: Tensor) -> Tensor:
        """The logits of texts' windows (R, W, C), NaN where there is none, as those of the texts (R, C)."""
        return logits.nanmean(1) if self.pooling == "mean" else logits.nan_to_num(nan=float("-inf")).amax(1)

    def pool_row(self, logits: np.ndarray) -> np.ndarray:
        """The same for the windows of one text: (W, C) to (C,)."""
        return np.asarray(logits.mean(0) if self.pooling == "mean" else logits.max(0))

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of each row, (R,)."""
        raise NotImplementedError

    def entropy(self, logits: Tensor) -> Tensor:
        """How unsure the model is about each row, (R,), between 0 and 1."""
        raise NotImplementedError

    def divergence(self, logits: Tensor, others: Tensor) -> Tensor:
        """How far logits are from other logits of the same rows, (R,); at least 0, and 0 if both say the same.

        What is learned from a teacher's answers, and what keeps two passes of one model together. A kind without it
        learns from labels alone.
        """
        raise NotImplementedError

    def translate(self, task: Task, other: Task, logits: np.ndarray) -> np.ndarray:
        """Logits of another model, which knows this task as `other`, in the terms of this one.

        ValueError, in words, if they do not answer the same question.
        """
        if set(task.labels) != set(other.labels):
            raise ValueError(f"has the labels {', '.join(task.labels)}, there it has {', '.join(other.labels)}")
        return logits[..., [other.labels.index(label) for label in task.labels]] if task.labels else logits

    # --- answering ----------------------------------------------------------------------------------------------

    def decodes_with(self, task: Task) -> Hashable | None:
        """Tasks whose kinds give equal values here are decoded together; None: alone."""
        return None

    def decode_together(self, tasks: Sequence[Task], logits: np.ndarray) -> list[list[Prediction]]:
        """For each task the answers that its logits stand for, of (N, R, C); see `decodes_with`."""
        return [self.decode(task, own) for task, own in zip(tasks, logits, strict=True)]

    def decode(self, task: Task, logits: Any, readings: Sequence[Reading] | None = None) -> list[Prediction]:
        """The answers that (R, C) logits stand for; of ragged kinds a list of (P, C) with the rows' readings."""
        raise NotImplementedError

    def answers(self, task: Task, logits: np.ndarray) -> np.ndarray:
        """The answers in the form of the targets, for the metrics."""
        raise NotImplementedError

    def commonest(self, task: Task, targets: np.ndarray) -> np.ndarray | None:
        """The one answer, in the form of the targets, that is right for most of these rows; None if there is none."""
        return None

    def baseline(
        self, task: Task, known: np.ndarray, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> float | None:
        """The task's score in percent on `targets` if every row is given the commonest answer of the `known` ones.

        None where there is no such answer.
        """
        answer = self.commonest(task, known)
        if answer is None:
            return None
        answers = np.broadcast_to(answer, (len(targets), *answer.shape))
        return 100.0 * self.metrics[task.metric or next(iter(self.metrics))](answers, targets)

    def cells(self, task: Task) -> dict[str, Any]:
        """The parts of an answer that are columns of a labelled file, each with a value of its sort."""
        return {"label": task.labels[0] if task.labels else "", "score": 1.0}

    # --- trust --------------------------------------------------------------------------------------------------

    def check(self, task: Task) -> None:
        """Raise ConfigError if `task.fitted`, which may come from a file, cannot be used."""
        check_calibration(task)
        check_thresholds(task)

    def calibrate(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, Any]:
        """What makes the probabilities mean what they say, for `task.fitted["calibration"]`.

        It changes no answer. The rows are ones that were not trained on. `form` is "none" where there is nothing to
        do or too little to go by, and `reason` says why.
        """
        return {"form": "none", "reason": "answers of this kind have no probability that a temperature could mend"}

    def reliability(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        """How far the probabilities are from what happens: `ece` in percent, `brier`, `nll`; nothing without them."""
        return {}

    def choose_thresholds(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
        """What the task's options ask for: `thresholds` by label, for `task.fitted`, and what they `reached` here.

        Empty where the options ask for nothing.
        """
        return {}

    def shown_thresholds(self, task: Task) -> dict[str, float | None]:
        """What each label has to reach; None for one that is never given. Empty where the task has no thresholds."""
        return {}

    def mentions(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, tuple[int, int]]:
        """How often each label is given on these rows, and how often rightly; withheld answers are not given."""
        return {}

    def given(self, task: Task, logits: np.ndarray, targets: np.ndarray) -> dict[str, float]:
        """What the thresholds do on these rows, in percent: `precision`, and `given` or `recall`; else nothing."""
        return {}

    def score(
        self, task: Task, logits: Any, targets: np.ndarray, readings: Sequence[Reading] | None = None
    ) -> dict[str, float]:
        """Every metric of the kind, in percent; the task's own metric first."""
        answers = self.answers(task, logits)
        return {name: 100.0 * self.metrics[name](answers, targets) for name in self.metric_names(task)}

    def metric_names(self, task: Task) -> list[str]:
        """The names of the metrics, the task's own first."""
        return list(dict.fromkeys([*([task.metric] if task.metric else []), *self.metrics]))
