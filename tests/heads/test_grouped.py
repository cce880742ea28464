"""Scores of rows that belong together, by hand."""

import numpy as np
import pytest

from onepass.data.items import Reading
from onepass.heads.classification import Classification
from onepass.heads.grouped import GROUPED, over_groups
from onepass.tasks import Task

KIND = Classification(group_by=["passage", "question"])
TASK = Task(
    name="multirc",
    text=["paragraph", "answer"],
    label="label",
    labels=["0", "1"],
    metric="f1a",
    options={"group_by": ["passage", "question"]},
)
# MultiRC: three questions. What is said of each answer, what is right, and by hand:
#   1: 1 1 0 / 1 0 0   precision 1/2, recall 1, not matched
#   2: 0 1   / 0 1     precision 1, recall 1, matched
#   3: 0 0   / 1 0     precision 1, for nothing is answered, recall 0, not matched
# over all answers: 2 right of 3 answered and 3 wanted: F1a = 4/6
ANSWERS, TARGETS = np.array([1, 1, 0, 0, 1, 0, 0]), np.array([1, 0, 0, 0, 1, 1, 0])
GROUPS = ["1", "1", "1", "2", "2", "3", "3"]


def scored(order: list[int]) -> dict[str, float]:
    logits = np.eye(2)[ANSWERS[order]]
    return KIND.score(TASK, logits, TARGETS[order], [Reading(group=GROUPS[row]) for row in order])


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5, 6], [6, 0, 3, 5, 1, 4, 2]])
def test_f1_over_answers_and_over_questions_by_hand(order: list[int]) -> None:
    scores = scored(order)
    assert next(iter(scores)) == "f1a" and scores["f1a"] == pytest.approx(400 / 6)
    precision, recall = (1 / 2 + 1 + 1) / 3, (1 + 1 + 0) / 3
    assert scores["f1m"] == pytest.approx(100 * 2 * precision * recall / (precision + recall))
    assert scores["group_match"] == pytest.approx(100 / 3)
    assert scores["accuracy"] == pytest.approx(500 / 7)


@pytest.mark.parametrize(
    ("answers", "targets", "expected"),
    [
        ([1, 0, 1, 1], [1, 1, 1, 0], 0.75),  # precision 1 and 1/2, recall 1/2 and 1
        ([0, 0, 1, 1], [1, 1, 1, 0], 0.6),  # precision 1 and 1/2, recall 0 and 1
        ([0, 0, 0, 0], [0, 0, 0, 0], 1.0),
        ([0, 1, 1, 0], [1, 0, 0, 1], 0.0),
    ],
)
def test_f1m_is_of_the_mean_precision_and_the_mean_recall(
    answers: list[int], targets: list[int], expected: float
) -> None:
    found = over_groups(GROUPED["f1m"], np.array(answers), np.array(targets), ["a", "a", "b", "b"])
    assert found == pytest.approx(expected)


def test_groups_are_read_from_their_columns_and_not_needed_to_answer() -> None:
    row = {"paragraph": "p", "answer": "a", "passage": 3, "question": 7, "label": 1}
    item = KIND.item(TASK, row)
    assert item is not None and item.group == "['3', '7']"
    assert KIND.columns(TASK) == ["paragraph", "answer", "label", "passage", "question"]
    assert KIND.inputs(TASK) == ["paragraph", "answer"]
    assert KIND.item(TASK, {"paragraph": "p", "answer": "a"}) is not None


def group_of(passage: object, question: object) -> str | None:
    item = KIND.item(TASK, {"paragraph": "p", "answer": "a", "passage": passage, "question": question, "label": 1})
    assert item is not None
    return item.group


@pytest.mark.parametrize("hole", [None, float("nan"), "", "  "])
def test_a_row_has_no_group_where_all_of_its_columns_are_blank(hole: object) -> None:
    assert group_of(hole, hole) == ""
    assert group_of(3, hole) == group_of(3, None) != ""
    assert len({group_of("1 2", "3"), group_of("1", "2 3"), group_of(hole, "x"), group_of("x", hole)}) == 4


def test_rows_without_a_group_are_groups_of_their_own() -> None:
    answers, targets = np.array([1, 0, 1, 0]), np.array([1, 1, 1, 0])
    for groups in (["", "", "a", "a"], ["b", "c", "a", "a"]):
        assert over_groups(GROUPED["group_match"], answers, targets, groups) == pytest.approx(2 / 3)
        assert over_groups(GROUPED["f1m"], answers, targets, groups) == pytest.approx(4 / 5)  # precision 1, recall 2/3


def test_without_groups_there_are_no_scores_of_groups() -> None:
    plain = TASK.model_copy(update={"metric": None, "options": {}})
    scores = Classification().score(plain, np.eye(2)[ANSWERS], TARGETS)
    assert set(scores) == {"accuracy", "macro_f1", "f1", "matthews"}
