"""Scores across tasks."""

import pytest

from onepass.analysis.spread import score_spread


def test_the_deviation_is_over_tasks_and_gains_are_against_the_baseline() -> None:
    found = score_spread({"a": 70.0, "b": 80.0, "c": 90.0}, {"a": 72.0, "b": 80.0, "c": 85.0})
    assert found.mean == 80.0
    assert found.deviation == pytest.approx((200 / 3) ** 0.5)
    assert (found.worst, found.best, found.at_or_above) == ("a", "c", 2)
    assert found.gains == {"a": -2.0, "b": 0.0, "c": 5.0}
    assert score_spread({"a": 1.0}).gains is None
