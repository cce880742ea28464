"""What 8 bits may change."""

import numpy as np
import pytest

from onepass.engine.gate import Outcome, Verdict, failed, judge

ROWS = 200


def outcome(turned: int = 0, wrong: int | None = None) -> Outcome:
    """Answers `yes` and `no` in turn, of which the first are turned round."""
    labels = [("yes", "no")[(n + (n < turned)) % 2] for n in range(ROWS)]
    return Outcome(labels) if wrong is None else Outcome(labels, "accuracy", 100.0 * (ROWS - wrong) / ROWS)


@pytest.mark.parametrize(("turned", "passed"), [(0, True), (1, True), (2, True), (3, False)])
def test_one_answer_in_a_hundred_may_change(turned: int, passed: bool):
    verdict = judge(outcome(), outcome(turned))
    assert verdict.rows == 200 and verdict.changed == pytest.approx(turned / 2)
    assert verdict.passed is passed and verdict.before is None


@pytest.mark.parametrize(("wrong", "passed"), [(1, True), (2, False)])
def test_half_a_point_may_be_lost(wrong: int, passed: bool):
    verdict = judge(outcome(0, 0), outcome(wrong, wrong))
    assert verdict.metric == "accuracy" and verdict.before == 100.0
    assert verdict.lost == pytest.approx(wrong / 2) and verdict.passed is passed


def test_a_gain_is_no_loss_but_changed_answers_count():
    verdict = judge(outcome(10, 10), outcome(0, 0))
    assert verdict.lost == pytest.approx(-5.0) and not verdict.passed


def test_numbers_change_when_they_move_by_a_hundredth_of_their_range():
    before = np.linspace(-1, 1, 100)
    for shift, passed in ((0.019, True), (0.021, False)):
        assert judge(Outcome(before.tolist()), Outcome((before + shift).tolist())).passed is passed


def test_only_tasks_that_do_not_pass_are_named():
    verdicts = {"a": Verdict(10, 0.0), "b": Verdict(10, 10.0), "c": Verdict(10, 0.0, "accuracy", 90.0, 89.0)}
    assert list(failed(verdicts)) == ["b", "c"]
    assert "90.00 becomes 89.00" in str(verdicts["c"])


def test_a_single_answer_of_few_rows_is_more_than_may_be_lost():
    few, many = (Verdict(rows, 0.7, "accuracy", 90.0, 89.3) for rows in (140, 1000))
    assert not few.passed and few.one_answer
    assert not many.passed and not many.one_answer
