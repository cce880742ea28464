"""The best of several candidates."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

from onepass.data.items import Reading
from onepass.errors import ConfigError
from onepass.heads.choice import Choice
from onepass.tasks import Task

TASK = Task(name="cause", kind="choice", text="premise", label="label")
ROW = {"premise": "He fell.", "one": "He slept.", "two": "It was wet.", "question": "cause", "label": 1}


def test_each_candidate_is_read_with_the_context() -> None:
    item = Choice(choices=["one", "two"]).item(TASK, ROW)
    assert item is not None and item.sequences == [("He fell.", "He slept."), ("He fell.", "It was wet.")]
    assert item.names == ["He slept.", "It was wet."]
    asked = Choice(choices=["one", "two"], template="{premise} What was the {question}?").item(TASK, ROW)
    assert asked is not None and asked.sequences[0] == ("He fell. What was the cause?", "He slept.")


def test_a_column_of_a_template_is_found_by_its_whole_name() -> None:
    kind = Choice(choices=["one", "two"], template="{premise} {meta.question}{none}? {{}}")
    item = kind.item(TASK, ROW | {"meta.question": "Why", "none": None})
    assert item is not None and item.sequences[0] == ("He fell. Why? {}", "He slept.")
    assert kind.inputs(TASK) == ["premise", "meta.question", "none", "one", "two"]


@pytest.mark.parametrize(("cell", "found"), [(["a"], "a list"), ({"k": 1}, "an object")])
def test_what_is_no_text_is_no_candidate(cell: Any, found: str) -> None:
    with pytest.raises(ValueError, match=f"has {found} among its candidates"):
        Choice(choices="names").item(TASK, ROW | {"names": ["Ann", cell]})


def test_candidates_may_be_a_list_and_fill_a_blank() -> None:
    task = Task(name="fill", kind="choice", text=["text", "query"], label="label")
    row = {"text": "Ann met Bob.", "query": "@x was met.", "names": ["Ann", "Bob"], "label": ["Bob"]}
    kind = Choice(choices="names", blank="@x")
    item = kind.item(task, row)
    assert item is not None and item.sequences == [("Ann met Bob.", "Ann was met."), ("Ann met Bob.", "Bob was met.")]
    assert kind.target(row, task, ()).value.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"has no '@x' in 'Ann met Bob. Who\?'"):
        kind.item(task, row | {"query": "Who?"})


@pytest.mark.parametrize("mark", ["_", "@x"])
@pytest.mark.parametrize("candidate", ["y", "wet", "_@x_", "z" * 40])
def test_of_a_text_with_its_candidate_in_place_the_beginning_is_read(mark: str, candidate: str) -> None:
    kind = Choice(choices="names", blank=mark)
    for text in (mark, 50 * mark, f"It was {mark}. " * 9, "a" * 70 + mark, f"{mark}{'b' * 200}"):
        whole = text.replace(mark, candidate)
        for kind.longest in (1, 7, 64, 1000):
            item = kind.item(TASK, {"premise": text, "names": [candidate]})
            assert item is not None and item.sequences == [(whole[: kind.longest],)]


def test_many_blanks_and_a_long_candidate_do_not_multiply() -> None:
    row, kind = {"premise": "_" * 30_000, "names": ["x" * 30_000, "y"]}, Choice(choices="names", blank="_")
    tracemalloc.start()
    try:
        item = kind.item(TASK, row)
        assert item is not None and [len(text) for (text,) in item.sequences] == [kind.longest, 30_000]
        assert item.names == row["names"] and tracemalloc.get_traced_memory()[1] < 10 * kind.longest
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("label", "first", "target"),
    [(1, 0, [0, 1]), ("1", 1, [1, 0]), ("It was wet.", 0, [0, 1]), ([0, 1], 0, [1, 1]), (2.0, 1, [0, 1])],
)
def test_labels_are_numbers_or_texts_or_several(label: Any, first: int, target: list[int]) -> None:
    kind = Choice(choices=["one", "two"], numbered_from=first)
    assert kind.target(ROW | {"label": label}, TASK, ()).value.tolist() == target


def test_a_label_may_be_the_name_of_the_candidates_column() -> None:
    kind = Choice(choices=["choice1", "choice2"])
    assert [kind.meant(label, ["it rained", "he slept"]) for label in ("choice2", 0)] == ["he slept", "it rained"]


def test_a_label_that_could_be_a_number_or_a_text_is_no_guess() -> None:
    row = {"premise": "How many legs?", "names": ["2", "4", "6", "8"], "label": 2}
    with pytest.raises(
        ValueError, match=r"has the answer 2, which is the text of one candidate and the number of anoth"
    ):
        Choice(choices="names").target(row, TASK, ())
    assert Choice(choices="names", numbered_from=0).target(row, TASK, ()).value.tolist() == [0, 0, 1, 0]
    assert Choice(choices="names", numbered_from="none").target(row, TASK, ()).value.tolist() == [1, 0, 0, 0]
    assert Choice(choices="names").target(row | {"names": ["0", "1", "2"]}, TASK, ()).value.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match=r"has the answer 3, which is none of its candidates\. Possible: one of '2'"):
        Choice(choices="names", numbered_from="none").target(row | {"label": 3}, TASK, ())


def test_numbers_of_candidates_count_the_blank_ones() -> None:
    kind = Choice(choices=["one", "two", "three"])
    row = {"premise": "It rained.", "one": " ", "two": "dry", "three": "wet", "label": 2}
    assert kind.candidates(row) == ["dry", "wet"]
    assert kind.target(row, TASK, ()).value.tolist() == [0, 1]
    with pytest.raises(ValueError, match="has the answer 0, but that candidate is blank"):
        kind.target(row | {"label": 0}, TASK, ())


@pytest.mark.parametrize("label", [0, 2, "No.", [0, 2]])
def test_equal_candidates_of_a_row_are_one(label: Any) -> None:
    row = {"premise": "He fell.", "names": ["No.", "Yes.", "No.", ""], "label": label}
    kind = Choice(choices="names", numbered_from=0)
    item = kind.item(TASK, row)
    assert item is not None and item.sequences == [("He fell.", "No."), ("He fell.", "Yes.")]
    assert item.names == ["No.", "Yes."]
    target = kind.target(row, TASK, ())
    assert target.value.tolist() == [1, 0]
    assert kind.said(TASK, row, target) == "'No.'"
    assert kind.target(row | {"label": 1}, TASK, ()).value.tolist() == [0, 1]
    # By text it is the first, by number the second: both mean the same.
    row |= {"names": ["1", "1", "2"], "label": 1}
    assert Choice(choices="names").target(row, TASK, ()).value.tolist() == [1, 0]


def test_faults_of_rows_are_said() -> None:
    kind = Choice(choices=["one", "two"])
    with pytest.raises(ValueError, match="has no candidate in 'one', 'two'"):
        kind.item(TASK, ROW | {"one": None, "two": " "})
    with pytest.raises(ValueError, match=r"has the answer 2, which is none of its candidates\. Possible: 0 to 1"):
        kind.target(ROW | {"label": 2}, TASK, ())
    with pytest.raises(ValueError, match="has no right candidate"):
        kind.target(ROW | {"label": []}, TASK, ())
    assert kind.item(TASK, ROW | {"premise": None}) is None


@pytest.mark.parametrize(
    "options",
    [
        {"choices": 3},
        {"choices": [""]},
        {"template": "{premise"},
        {"template": "{} {premise}"},
        {"template": "{premise:d}"},
        {"template": "{premise!r}"},
        {"blank": ""},
        {"numbered_from": "1"},
        {"loss": "mse"},
    ],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="possible"):
        Choice(**options)


def test_loss_and_entropy_are_over_a_rows_own_candidates() -> None:
    kind = Choice(choices="names")
    logits = torch.tensor([[0.0, 0.0, 0.0], [0.0, math.log(3.0), float("-inf")], [1.0, -float("inf"), -float("inf")]])
    targets = torch.tensor([[1.0, 1, 0], [0, 1, 0], [1, 0, 0]])
    loss = kind.loss(logits.unsqueeze(-1), targets.unsqueeze(-1))
    torch.testing.assert_close(loss, torch.tensor([math.log(3 / 2), math.log(4 / 3), 0.0]))
    entropy = kind.entropy(logits.unsqueeze(-1))
    own = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25)) / math.log(2)
    torch.testing.assert_close(entropy, torch.tensor([1.0, own, 0.0]))


def test_each_candidate_can_be_judged_by_itself() -> None:
    """-log sigmoid of a right candidate's score and of minus a wrong one's, the mean over those that there are."""
    kind = Choice(choices="names", loss="binary")
    logits = torch.tensor([[0.0, 0.0, 0.0], [math.log(3.0), math.log(3.0), float("-inf")]], requires_grad=True)
    targets = torch.tensor([[1.0, 0, 0], [1, 0, 0]])
    loss = kind.loss(logits.unsqueeze(-1), targets.unsqueeze(-1))
    expected = torch.tensor([math.log(2), (math.log(4 / 3) + math.log(4)) / 2])
    torch.testing.assert_close(loss, expected)
    loss.sum().backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[-1 / 6, 1 / 6, 1 / 6], [-0.125, 0.375, 0.0]]))
    assert kind.loss_key() != Choice(choices="names").loss_key()


def test_the_best_candidate_is_answered() -> None:
    kind = Choice(choices="names")
    (found,) = kind.decode(TASK, [np.array([[0.0], [math.log(3.0)]])], [Reading(names=["Ann", "Bob"])])
    assert found.label == "Bob" and found.score == pytest.approx(0.75)
    assert found.scores == pytest.approx({"Ann": 0.25, "Bob": 0.75})
    targets = np.empty(2, object)
    targets[:] = [np.array([0.0, 1.0]), np.array([1.0, 0.0, 0.0])]
    logits = [np.array([[0.0], [1.0]]), np.array([[0.0], [2.0], [1.0]])]
    assert kind.score(TASK, logits, targets) == {"accuracy": 50.0}


def test_a_text_is_no_list_of_candidates() -> None:
    """Who forgets the other columns would otherwise choose among the words of the first."""
    with pytest.raises(ValueError, match="has a text in 'one' where a list of candidates is needed"):
        Choice(choices=["one"]).item(TASK, ROW)
    item = Choice(choices=["one"]).item(TASK, ROW | {"one": '["a b", "c"]'})
    assert item is not None and item.names == ["a b", "c"]
