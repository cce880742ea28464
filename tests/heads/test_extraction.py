"""A part of a text that answers a question."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from onepass.data.items import Reading
from onepass.heads.extraction import Extraction
from onepass.heads.squad import exact_match, f1
from onepass.prediction import Span
from onepass.tasks import Task

KIND = Extraction()
TASK = Task(name="qa", kind="extraction", text=["question", "context"], label="answers", fitted={"no_answer": True})
CONTEXT = "Ann met Bob in Rome"


def reading(*windows: list[tuple[int, int]]) -> Reading:
    """A token for "not here" and then the given characters, in each window."""
    spans = [span for window in windows for span in [(-1, -1), *window]]
    numbers = [number for number, window in enumerate(windows) for _ in range(1 + len(window))]
    return Reading([], CONTEXT, np.array(spans, np.int32), np.array(numbers, np.int32))


WORDS = [(0, 3), (4, 7), (8, 11), (12, 14), (15, 19)]

# answer, right answers, exact match, F1: by hand, with SQuAD's rules.
TABLE: list[tuple[str, list[str], float, float]] = [
    ("Rome", ["Rome"], 1, 1),
    ("rome.", ["The Rome"], 1, 1),
    ("in Rome", ["Rome"], 0, 2 / 3),  # precision 1/2, recall 1
    ("met Bob", ["Bob in Rome"], 0, 2 / 5),  # precision 1/2, recall 1/3
    ("Ann", ["Rome", "Ann met Bob"], 0, 1 / 2),  # the better of 0 and (precision 1, recall 1/3)
    ("the", ["a"], 1, 1),  # both are nothing without articles
    ("", [], 1, 1),
    ("Rome", [], 0, 0),
    ("", ["Rome"], 0, 0),
    ("Bob Bob", ["Bob"], 0, 2 / 3),
]


@pytest.mark.parametrize(("answer", "right", "exact", "overlap"), TABLE)
def test_exact_match_and_f1_by_hand(answer: str, right: list[str], exact: float, overlap: float) -> None:
    assert exact_match([answer], [right]) == exact
    assert f1([answer], [right]) == pytest.approx(overlap)


def test_scores_are_means_over_rows() -> None:
    answers, right = [row[0] for row in TABLE], [row[1] for row in TABLE]
    assert exact_match(answers, right) == pytest.approx(sum(row[2] for row in TABLE) / len(TABLE))
    assert f1(answers, right) == pytest.approx(sum(row[3] for row in TABLE) / len(TABLE))


@pytest.mark.parametrize(
    ("answers", "starts", "spans"),
    [
        ({"text": ["Rome", "in Rome"], "answer_start": [15, 12]}, None, ((15, 19), (12, 19))),
        ('{"text": ["Rome"], "answer_start": [15]}', None, ((15, 19),)),
        ([{"text": "Bob", "answer_start": 8}], None, ((8, 11),)),
        (["Bob"], [8], ((8, 11),)),
        ("Bob", "8", ((8, 11),)),
        ("['Bob']", "[8]", ((8, 11),)),  # as pandas writes lists to a csv file
        ("Bob", None, ((8, 11),)),
        ([], None, ()),
        ({"text": [], "answer_start": []}, None, ()),
        ({"text": [" Bob in", "Rome"], "answer_start": [7, 15]}, None, ((8, 14), (15, 19))),  # spaces are no part
        (["Bob "], [8], ((8, 11),)),
        ("Rome\n", None, ((15, 19),)),
    ],
)
def test_answers_are_read_in_all_usual_forms(answers: Any, starts: Any, spans: Any) -> None:
    kind = Extraction(starts="start") if starts is not None else KIND
    row = {"question": "q", "context": CONTEXT, "answers": answers, "start": starts}
    assert kind.target(row, TASK, ()).value == spans


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"text": None, "answer_start": []}, "has None where answers are needed. Write them"),
        ({"text": ["Rome"], "answer_start": [17]}, "from character 17 to 21, outside of its text, which has 19"),
        ({"text": ["Rome"], "answer_start": [-2]}, "from character -2 to 2, outside of its text"),
        ({"text": ["Rome"], "answer_start": [8]}, "has the answer 'Rome' at character 8, where the text has 'Bob '"),
        ({"text": ["Rome"], "answer_start": []}, "has 1 answers but 0 starts"),
        ({"text": ["Rome"], "answer_start": ["x"]}, "has 'x' where the character is needed"),
        (["Paris"], "has the answer 'Paris', which is not in the text"),
        ([" "], "has a blank answer"),
        ({"texts": ["Rome"]}, "where answers are needed. Write them as"),
    ],
)
def test_faults_of_rows_are_said(answers: Any, message: str) -> None:
    with pytest.raises(ValueError) as error:
        KIND.target({"question": "q", "context": CONTEXT, "answers": answers}, TASK, ())
    assert message in str(error.value)


def test_an_answer_is_learned_in_every_window_that_holds_it_whole() -> None:
    found = reading(WORDS[:3], WORDS[1:4], WORDS[3:])  # Bob is in the first two
    (marked,) = KIND.scale_targets(TASK, _ragged(((8, 11),)), [found])
    assert np.flatnonzero(marked[:, 0]).tolist() == np.flatnonzero(marked[:, 1]).tolist() == [3, 6]
    (marked,) = KIND.scale_targets(TASK, _ragged(((4, 11),)), [found])  # "met Bob"
    assert np.flatnonzero(marked[:, 0]).tolist() == [2, 5] and np.flatnonzero(marked[:, 1]).tolist() == [3, 6]


def test_without_an_answer_in_sight_the_tokens_for_not_here_are_learned() -> None:
    found = reading(WORDS[:2], WORDS[2:4])
    for spans in ((), ((15, 19),)):
        (marked,) = KIND.scale_targets(TASK, _ragged(spans), [found])
        assert np.flatnonzero(marked[:, 0]).tolist() == np.flatnonzero(marked[:, 1]).tolist() == [0, 3]


def test_the_loss_by_hand() -> None:
    """Four points, of which two are right at the start and one at the end; the second row has two points."""
    minus = float("-inf")
    logits = torch.zeros(2, 4, 2)
    logits[1, 2:] = minus
    logits.requires_grad_(True)
    targets = torch.zeros(2, 4, 2)
    targets[0, :2, 0] = targets[0, 3, 1] = targets[1, 0] = 1.0
    loss = KIND.loss(logits, targets)
    wanted = [(math.log(2) + math.log(4)) / 2, math.log(2)]
    torch.testing.assert_close(loss, torch.tensor(wanted))
    loss.sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()
    torch.testing.assert_close(KIND.entropy(logits), torch.ones(2))


def test_the_likeliest_span_is_answered_with_its_characters() -> None:
    logits = np.full((6, 2), -5.0)
    logits[2, 0] = logits[3, 1] = 5.0
    (found,) = KIND.decode(TASK, [logits], [reading(WORDS)])
    assert found.label == "met Bob" and found.spans == (Span(None, 4, 11, "met Bob", found.score),)
    assert found.score is not None and 0.99 < found.score < 1


def test_spans_do_not_run_backwards_nor_over_windows_nor_too_long() -> None:
    logits = np.full((6, 2), -5.0)
    logits[4, 0] = logits[1, 1] = 5.0  # the last token before the first
    logits[4, 1] = 1.0
    assert KIND.decode(TASK, [logits], [reading(WORDS)])[0].label == "in"
    logits = np.full((7, 2), -5.0)
    logits[2, 0] = logits[6, 1] = 5.0  # begins in one window, ends in the other
    label = KIND.decode(TASK, [logits], [reading(WORDS[:3], WORDS[3:])])[0].label
    assert label in ("met", "met Bob", "in Rome", "Rome")
    short = Extraction(max_answer=2)
    logits = np.full((6, 2), -5.0)
    logits[1, 0] = logits[5, 1] = 5.0
    assert len(short.decode(TASK, [logits], [reading(WORDS)])[0].label.split()) <= 2


def test_no_answer_is_an_answer_if_it_was_learned() -> None:
    logits = np.zeros((6, 2))
    logits[0] = 5.0
    (found,) = KIND.decode(TASK, [logits], [reading(WORDS)])
    assert found.label is None and found.spans == () and found.score is not None and found.score > 0.9
    never = TASK.model_copy(update={"fitted": {"no_answer": False}})
    assert KIND.decode(never, [logits], [reading(WORDS)])[0].label is not None
    assert KIND.fit(TASK, _ragged((), ((1, 2),))) == {"no_answer": True}


def test_an_answer_that_two_windows_show_counts_with_both() -> None:
    """In each it begins and ends with a probability of 0.3; that there is none has 0.4 in all."""
    spans = np.array([(-1, -1), (0, 3), (8, 11), (-1, -1), (8, 11), (15, 19)], np.int32)
    reading = Reading([], CONTEXT, spans, np.array([0, 0, 0, 1, 1, 1], np.int32))
    p = np.array([0.2, 1e-9, 0.3, 0.2, 0.3, 1e-9])
    (found,) = KIND.decode(TASK, [np.log(np.stack([p, p], 1))], [reading])
    assert found.label == CONTEXT[8:11]
    assert found.score == pytest.approx(0.36)


def test_scores_count_answers_that_were_cut_off_as_missed() -> None:
    logits = np.full((3, 2), -5.0)
    logits[1] = 5.0
    scores = KIND.score(TASK, [logits], _ragged(((15, 19),)), [reading(WORDS[:2])])
    assert scores == {"f1": 0.0, "exact_match": 0.0}


def _ragged(*targets: Any) -> np.ndarray:
    found = np.empty(len(targets), object)
    for place, target in enumerate(targets):
        found[place] = target
    return found
