"""Timing in turns."""

import pytest

from onepass.bench import timing


def test_contenders_take_turns_in_both_directions(monkeypatch: pytest.MonkeyPatch):
    order: list[str] = []
    monkeypatch.setattr(timing, "WARM_UP", 0)
    timing.interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2)
    assert order == ["b", "a", "a", "b"]


def test_the_median_is_taken_after_the_warm_up(monkeypatch: pytest.MonkeyPatch):
    ticks = iter([0.0, 9.0, 10.0, 11.0, 20.0, 22.0, 30.0, 37.0])  # 9 s to warm up, then 1, 2 and 7 s
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(ticks))
    assert timing.interleaved({"a": lambda: None}, rounds=3) == {"a": 2000.0}
