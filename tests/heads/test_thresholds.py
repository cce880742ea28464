"""Thresholds: chosen for what they are to reach, honoured in answers, and none made up."""

from typing import Any

import numpy as np
import pytest

from onepass.errors import ConfigError
from onepass.heads import make_kind
from onepass.heads.thresholds import Rule, choose, read_threshold
from onepass.tasks import Task


def task_of(kind: str = "classification", threshold: Any = None, labels: Any = ("no", "yes"), **fitted: Any) -> Task:
    options = {} if threshold is None else {"threshold": threshold}
    return Task(name="spam", kind=kind, text="text", label="spam", labels=labels, options=options, fitted=fitted)


def logits_of(*p_yes: float) -> np.ndarray:
    p = np.array(p_yes)
    return np.log(np.stack([1 - p, p], -1))


def with_chosen(task: Task, logits: np.ndarray, targets: np.ndarray) -> tuple[Task, dict[str, Any]]:
    found = make_kind(task).choose_thresholds(task, logits, targets)
    return task.model_copy(update={"fitted": {"thresholds": found["thresholds"]}}), found["reached"]


# --- choosing ---------------------------------------------------------------------------------------------------

SCORES = np.linspace(0.995, 0.005, 100)
RIGHT = np.arange(100) < 60  # the first sixty are right ...
RIGHT[50:60] = False  # ... but for ten of them


def test_a_label_that_is_never_the_likeliest_is_told_from_one_without_rows():
    rule = read_threshold({"target_precision": 0.9})
    empty = np.zeros(0)
    assert "likeliest of no validation row" in str(choose(rule, empty, empty.astype(bool), 3).reason)
    assert "no validation row has it" in str(choose(rule, empty, empty.astype(bool), 0).reason)


def test_a_target_precision_takes_the_lowest_threshold_that_reaches_it():
    found = choose(Rule("target_precision", 0.9), SCORES, RIGHT, 50)
    assert found.threshold is not None and found.precision is not None
    assert 50 <= found.given <= 55 and found.precision >= 0.9
    assert (found.threshold <= SCORES).sum() == found.given


def test_a_target_recall_takes_the_highest_threshold_that_reaches_it():
    found = choose(Rule("target_recall", 0.5), SCORES, RIGHT, 50)
    assert found.recall is not None and 0.5 <= found.recall < 0.6 and found.precision == 1.0
    assert found.given == round(50 * found.recall)


def test_a_recall_over_few_rows_is_taken_as_it_was_found():
    """Of 5 rows not even all of them are surely 0.9; giving everything would not be what was asked for."""
    right = np.arange(100) < 5
    found = choose(Rule("target_recall", 0.9), SCORES, right, 5)
    assert (found.given, found.precision, found.recall) == (5, 1.0, 1.0) and found.reason is None
    assert choose(Rule("target_recall", 1.0), SCORES, RIGHT, 50).given == 50


def test_the_best_f1_is_found():
    found = choose(Rule("best"), SCORES, RIGHT, 50)
    assert (found.given, found.precision, found.recall) == (50, 1.0, 1.0)
    assert found.threshold == pytest.approx((SCORES[49] + SCORES[50]) / 2)


def test_equal_scores_are_given_together():
    scores, right = np.full(40, 0.7), np.arange(40) < 39
    assert choose(Rule("target_precision", 0.9), scores, right, 39).given == 40
    assert choose(Rule("target_precision", 0.99), scores, right, 39).threshold is None


def test_a_threshold_stands_between_scores_that_are_next_to_each_other_in_float32():
    low = np.float32(1) - 2 * np.finfo(np.float32).epsneg
    high = np.nextafter(low, np.float32(1))
    scores = np.array([high] * 20 + [low] * 20, np.float32)
    found = choose(read_threshold({"target_precision": 0.9}), scores, scores == high, 20)
    assert found.threshold is not None
    assert found.given == (scores >= np.float64(found.threshold)).sum() == 20


def test_what_cannot_be_reached_is_said_and_no_threshold_is_made_up():
    found = choose(Rule("target_precision", 0.9), SCORES, np.arange(100) % 2 == 0, 50)
    assert found.threshold is None and found.precision is None
    assert found.reason is not None and found.reason.startswith("a precision of 0.9 is not reachable on validation")
    bare = choose(Rule("target_precision", 0.9), SCORES[:20], np.arange(20) != 0, 19)
    assert bare.reason is not None and bare.reason.endswith("at best 0.950 over 20 answers, too few to rely on it")
    few = choose(Rule("target_precision", 0.9), SCORES[:9], np.ones(9, bool), 9)
    assert few.threshold is None and "9 answers are too few, 10 are needed" in str(few.reason)
    unseen = choose(Rule("target_precision", 0.9), SCORES, np.zeros(100, bool), 0)
    assert unseen.threshold is None and "no validation row has it" in str(unseen.reason)


def test_a_recall_that_cannot_be_reached_withholds_nothing():
    found = choose(Rule("target_recall", 0.9), SCORES, RIGHT, 100)
    assert (found.threshold, found.recall, found.given) == (0.0, 0.5, 100)
    assert found.reason == "a recall of 0.9 is not reachable on validation: at most 0.500"


def test_fewer_answers_have_to_pass_the_target_by_more():
    scores = np.linspace(0.9, 0.1, 20)
    nine_of_ten = np.arange(20) % 10 != 9
    assert choose(Rule("target_precision", 0.9), scores, nine_of_ten, 18).given < 20
    many = np.repeat(scores, 200), np.tile(nine_of_ten, 200)
    assert choose(Rule("target_precision", 0.88), *many, 3600).given == 4000


# --- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ({"target_precision": 0.9}, Rule("target_precision", 0.9)),
        ({"target_recall": 1, "per": "label"}, Rule("target_recall", 1.0, "label")),
        ({"best": "f1", "label": 1}, Rule("best", label="1")),
    ],
)
def test_rules_are_read_and_written_alike(value: dict[str, Any], rule: Rule):
    assert read_threshold(value) == rule
    assert read_threshold(rule.to_dict()) == rule


@pytest.mark.parametrize(
    "value",
    [0, 1, 1.5, -0.1, True, "high", [], {}, {"target_precision": 0}, {"target_precision": 1.1}, {"best": "accuracy"},
     {"target_precision": 0.9, "target_recall": 0.9}, {"target_precison": 0.9}, {"best": "f1", "per": "row"},
     {"best": "f1", "per": "label", "label": "yes"}],
)  # fmt: skip
def test_what_is_no_rule_is_refused_with_what_is_possible(value: Any):
    with pytest.raises(ConfigError, match=r"^threshold.* possible: "):
        read_threshold(value)


def test_a_rule_for_a_label_that_is_not_there_is_a_fault_of_the_data():
    for kind in ("classification", "multilabel"):
        task = task_of(kind, {"best": "f1", "label": "yess"})
        (fault,) = make_kind(task).named_faults(task)
        assert "threshold: Unknown label 'yess'. Did you mean 'yes'?" in fault


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), "high", True])
def test_a_threshold_that_is_none_is_refused(value: Any):
    for kind in ("classification", "multilabel"):
        with pytest.raises(ConfigError, match=r"a threshold is .*a number from 0 to 1"):
            make_kind(task_of(kind, thresholds={"no": 0.5, "yes": value}))


# --- answers ----------------------------------------------------------------------------------------------------


def test_an_answer_under_the_threshold_is_withheld_and_says_why():
    task = task_of(threshold=0.8)
    sure, unsure = make_kind(task).decode(task, logits_of(0.9, 0.3))
    assert (sure.label, sure.abstained, sure.threshold, sure.reason) == ("yes", False, 0.8, None)
    assert (unsure.label, unsure.abstained, unsure.threshold) == (None, True, 0.8)
    assert unsure.reason == "no is the likeliest with 0.700, under its threshold of 0.800"
    assert unsure.score == pytest.approx(0.7) and unsure.scores["yes"] == pytest.approx(0.3)
    assert unsure.to_dict() == {
        "label": None, "score": unsure.score, "scores": unsure.scores,
        "threshold": 0.8, "abstained": True, "reason": unsure.reason,
    }  # fmt: skip


def test_without_a_threshold_the_answer_has_no_more_keys_than_before():
    task = task_of()
    (answer,) = make_kind(task).decode(task, logits_of(0.51))
    assert list(answer.to_dict()) == ["label", "score", "scores"] and answer.label == "yes"


def test_the_precision_asked_for_is_that_of_the_answers_given():
    generator = np.random.default_rng(0)
    p = generator.random(4000)
    logits, targets = logits_of(*p), (generator.random(4000) < p).astype(int)
    task, reached = with_chosen(task_of(threshold={"target_precision": 0.9}), logits, targets)
    assert list(task.fitted["thresholds"]) == ["no", "yes"] and len(set(task.fitted["thresholds"].values())) == 1
    assert reached[""]["precision"] >= 0.9
    q = generator.random(20000)
    found = make_kind(task).given(task, logits_of(*q), (generator.random(20000) < q).astype(int))
    assert found["precision"] == pytest.approx(91, abs=1.5) and 20 < found["given"] < 60


def test_each_label_may_have_a_threshold_of_its_own_with_a_band_between_them():
    generator = np.random.default_rng(0)
    p = generator.random(4000)
    # "yes" is right half as often as it says, so that it needs a higher threshold than "no".
    targets = (generator.random(4000) < np.where(p > 0.5, p**2, p)).astype(int)
    task, reached = with_chosen(task_of(threshold={"target_precision": 0.85, "per": "label"}), logits_of(*p), targets)
    limits = task.fitted["thresholds"]
    assert limits["yes"] > limits["no"] + 0.03
    assert min(reached[label]["precision"] for label in limits) >= 0.85
    band = (1 - limits["no"] + limits["yes"]) / 2
    labels = [answer.label for answer in make_kind(task).decode(task, logits_of(0.05, band, 0.99))]
    assert labels == ["no", None, "yes"]


def test_a_label_without_the_precision_asked_for_is_never_given():
    p = np.concatenate([np.full(50, 0.1), np.linspace(0.6, 0.9, 50)])
    targets = np.concatenate([np.zeros(50, int), np.arange(50) % 2])
    task, reached = with_chosen(task_of(threshold={"target_precision": 0.9, "per": "label"}), logits_of(*p), targets)
    assert task.fitted["thresholds"] == {"no": 0.0, "yes": None}
    assert "not reachable" in reached["yes"]["reason"]
    no, yes = make_kind(task).decode(task, logits_of(0.2, 0.99))
    assert no.label == "no" and yes.label is None and yes.threshold is None
    assert yes.reason == "yes is never given: a precision of 0.9 is not reached on validation by any threshold"
    assert yes.to_dict()["threshold"] is None


def test_one_label_can_be_given_where_another_is_likelier():
    generator = np.random.default_rng(0)
    p = generator.random(2000) * 0.5
    logits, targets = logits_of(*p), (generator.random(2000) < p).astype(int)
    task, reached = with_chosen(task_of(threshold={"target_recall": 0.8, "label": "yes"}), logits, targets)
    kind = make_kind(task)
    limit = task.fitted["thresholds"]["yes"]
    assert limit < 0.4 and reached["yes"]["recall"] >= 0.8
    low, high = kind.decode(task, logits_of(limit - 0.01, limit + 0.01))
    assert (low.label, high.label) == ("no", "yes") and not low.abstained and not high.abstained
    assert (kind.answers(task, logits) == (p >= limit)).all()
    assert kind.score(task, logits, targets)["f1"] > kind.score(task_of(), logits, targets)["f1"]


@pytest.mark.parametrize("goal", [{"target_recall": 0.9}, {"best": "f1"}])
def test_one_label_that_no_row_has_stays_as_it_was(goal: dict[str, Any]):
    logits = logits_of(0.1, 0.2, 0.9)
    task, reached = with_chosen(task_of(threshold={**goal, "label": "yes"}), logits, np.zeros(3, int))
    assert "no validation row has it" in reached["yes"]["reason"]
    kind = make_kind(task)
    assert [answer.label for answer in kind.decode(task, logits)] == ["no", "no", "yes"]
    assert kind.answers(task, logits).tolist() == [0, 0, 1]


def test_one_label_that_is_likeliest_but_too_low_is_withheld():
    task = task_of(threshold={"target_precision": 0.9, "label": "yes"}, thresholds={"yes": 0.8})
    labels = [answer.label for answer in make_kind(task).decode(task, logits_of(0.3, 0.7, 0.9))]
    assert labels == ["no", None, "yes"]


def test_scores_are_of_all_rows_whatever_is_withheld():
    logits, targets = logits_of(0.9, 0.6, 0.4, 0.1), np.array([1, 1, 1, 0])
    strict, plain = task_of(threshold=0.8), task_of()
    assert make_kind(strict).score(strict, logits, targets) == make_kind(plain).score(plain, logits, targets)
    assert make_kind(strict).given(strict, logits, targets) == {"given": 50.0, "precision": 100.0}
    assert make_kind(plain).given(plain, logits, targets) == {}


def test_labels_of_a_set_have_thresholds_of_their_own():
    generator = np.random.default_rng(0)
    p = np.stack([generator.random(3000), generator.random(3000) * 0.4, np.full(3000, 0.01)], -1)
    targets = (generator.random(p.shape) < p * [1, 1, 0]).astype(np.float32)
    logits = np.log(p / (1 - p))
    labels = ("often", "seldom", "never")
    best, reached = with_chosen(task_of("multilabel", {"best": "f1"}, labels), logits, targets)
    assert best.fitted["thresholds"].keys() == {"often", "seldom"}  # of "never" nothing can be told
    assert best.fitted["thresholds"]["seldom"] < 0.3 < best.fitted["thresholds"]["often"]
    assert "no validation row has it" in reached["never"]["reason"]
    plain = task_of("multilabel", None, labels)
    assert (
        make_kind(best).score(best, logits, targets)["macro_f1"]
        > make_kind(plain).score(plain, logits, targets)["macro_f1"]
    )
    (answer,) = make_kind(best).decode(best, logits[:1])
    assert answer.threshold == {**best.fitted["thresholds"], "never": 0.5} and not answer.abstained

    sure, reached = with_chosen(task_of("multilabel", {"target_precision": 0.9}, labels), logits, targets)
    assert sure.fitted["thresholds"]["seldom"] is None and sure.fitted["thresholds"]["never"] is None
    assert "not reachable" in reached["seldom"]["reason"]
    found = make_kind(sure).given(sure, logits, targets)
    assert found["precision"] >= 90 and 0 < found["recall"] < 60
    assert all(answer.label in ([], ["often"]) for answer in make_kind(sure).decode(sure, logits))


def test_a_set_of_which_nothing_can_be_given_is_withheld():
    task = task_of("multilabel", {"target_precision": 0.9}, thresholds={"no": None, "yes": None})
    (answer,) = make_kind(task).decode(task, np.zeros((1, 2)))
    assert answer.label is None and answer.abstained and "no label is ever given" in str(answer.reason)
