"""Classification, with numbers by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from onepass.heads.classification import Classification
from onepass.tasks import Task, label_text

TASK = Task(name="tone", text="text", label="tone", labels=("bad", "good", "so-so"))
KIND = Classification()
TARGETS = np.array([0, 0, 1, 1, 1, 2])
ANSWERS = np.array([0, 1, 1, 1, 0, 0])  # bad: 1 of 3 right, 1 of 2 found; good: 2 of 3, 2 of 3; so-so: never said


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1, "1"),
        (1.0, "1"),
        ("1", "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        ("1.0", "1.0"),
        (True, "true"),
        (False, "false"),
        (" yes\n", "yes"),
        ("Ja", "Ja"),
        ("", ""),
        (float("inf"), "inf"),
        (10**20, "100000000000000000000"),
    ],
)
def test_cells_as_labels(value: Any, label: str):
    assert label_text(value) == label


def test_a_row_is_the_number_of_its_label():
    assert [KIND.target({"tone": value}, TASK, TASK.labels) for value in ("bad", " so-so ")] == [0, 2]


def test_an_unknown_label_is_said_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"has label 'Good'\. Labels: bad, good, so-so\."):
        KIND.target({"tone": "Good"}, TASK, TASK.labels)


@pytest.mark.parametrize("value", [None, "", "  ", float("nan")])
def test_a_blank_cell_has_no_label(value: Any):
    assert KIND.blank(TASK, {"tone": value})
    assert list(KIND.labels_in(TASK, {"tone": value})) == []


def test_zero_and_false_are_labels():
    assert not KIND.blank(TASK, {"tone": 0})
    assert list(KIND.labels_in(TASK, {"tone": False})) == ["false"]


def test_the_texts_of_a_row_are_none_where_one_is_blank():
    pair = Task(name="same", text=("first", "second"), label="same")
    item = KIND.item(pair, {"first": "a", "second": 5})
    assert item is not None and item.sequences == [("a", "5")]
    assert KIND.item(pair, {"first": "a", "second": None}) is None
    assert KIND.columns(pair) == ["first", "second", "same"]


def test_a_task_with_one_class_cannot_be_learned():
    (fault,) = KIND.faults(TASK, np.array([1, 1, 1]))
    assert fault == "Task 'tone' needs at least two labels to learn from; its training rows have only 'good'."
    assert KIND.faults(TASK, np.array([1, 0])) == []


def test_the_loss_is_minus_the_logarithm_of_the_labels_probability():
    logits = torch.tensor([[0.0, math.log(3.0), 0.0], [2.0, 2.0, 2.0]])
    loss = KIND.loss(logits, torch.tensor([1, 0]))
    assert loss.tolist() == pytest.approx([-math.log(3 / 5), math.log(3)])


def test_the_loss_of_half_precision_logits_is_taken_in_full_precision():
    assert KIND.loss(torch.zeros(1, 3, dtype=torch.bfloat16), torch.tensor([0])).dtype == torch.float32


def test_extreme_logits_have_finite_losses_and_gradients():
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    loss = KIND.loss(logits, torch.tensor([1]))
    loss.backward()
    assert loss.item() == pytest.approx(2e4)
    assert logits.grad is not None and logits.grad.isfinite().all()


def test_entropy_is_1_when_all_labels_are_alike_and_0_when_one_is_sure():
    logits = torch.tensor([[5.0, 5.0, 5.0], [100.0, 0.0, 0.0], [0.0, 0.0, -1000.0]])
    assert KIND.entropy(logits).tolist() == pytest.approx([1.0, 0.0, math.log(2) / math.log(3)], abs=1e-6)


def test_answers_have_the_probability_of_every_label():
    (prediction,) = KIND.decode(TASK, np.log(np.array([[1.0, 6.0, 3.0]], np.float32)))
    assert prediction.label == "good"
    assert prediction.score == pytest.approx(0.6)
    assert prediction.scores == pytest.approx({"bad": 0.1, "good": 0.6, "so-so": 0.3})
    assert list(prediction.scores) == ["bad", "good", "so-so"]


def test_tasks_that_are_decoded_together_are_answered_as_alone():
    tasks = [
        TASK,
        TASK.model_copy(update={"fitted": {"calibration": {"temperature": 2.5}}}),
        TASK.model_copy(
            update={
                "labels": ("x", "y", "z"),
                "fitted": {"calibration": {"temperatures": {"x": 0.5, "y": 1.0, "z": 3.0}}},
            }
        ),
    ]
    logits = np.random.default_rng(0).normal(size=(3, 5, 3)).astype(np.float32) * 3
    assert len({KIND.decodes_with(task) for task in tasks}) == 1
    for group in (tasks, tasks[:1]):
        for task, own, found in zip(group, logits, KIND.decode_together(group, logits[: len(group)]), strict=False):
            for one, other in zip(found, KIND.decode(task, own), strict=True):
                assert (one.label, list(one.scores)) == (other.label, list(other.scores))
                assert one.score == pytest.approx(other.score, rel=1e-6)
                assert one.scores == pytest.approx(other.scores, rel=1e-6)
    assert Classification(threshold=0.7).decodes_with(TASK) is None


def test_extreme_logits_are_decoded_without_overflow():
    (prediction,) = KIND.decode(TASK, np.array([[1e4, -1e4, 1e4 - 1]], np.float32))
    assert prediction.label == "bad"
    assert sum(prediction.scores.values()) == pytest.approx(1.0)


def test_no_rows_have_no_answers():
    assert KIND.decode(TASK, np.zeros((0, 3), np.float32)) == []


def test_the_tasks_own_metric_comes_first_and_scores_are_percent():
    logits = np.eye(3, dtype=np.float32)[ANSWERS]
    assert list(KIND.score(TASK, logits, TARGETS)) == ["accuracy", "macro_f1", "f1", "matthews"]
    scores = KIND.score(TASK.model_copy(update={"metric": "f1"}), logits, TARGETS)
    assert list(scores) == ["f1", "accuracy", "macro_f1", "matthews"]
    assert scores["accuracy"] == pytest.approx(50.0)


def test_the_divergence_from_other_logits_is_that_of_their_distributions():
    logits, others = torch.tensor([[0.0, 0.0], [2.0, 2.0]]), torch.tensor([[math.log(3.0), 0.0], [5.0, 5.0]])
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert Classification().divergence(logits, others).tolist() == pytest.approx([expected, 0.0], abs=1e-6)


def test_tasks_read_in_windows_share_no_losses_with_others():
    """Those learn nothing from the distance of two passes, and one answer is given for all that share a call."""
    plain, long = Classification(), Classification(windows=3)
    assert plain.loss_key() != long.loss_key() and plain.loss_key() == Classification().loss_key()
