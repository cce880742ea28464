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


def test_the_first_of_several_calls_in_a_row_does_not_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "WARM_UP", 0)
    clock = [0.0]
    lasting = {"a": iter([9.0, 1.0, 3.0, 2.0]), "b": iter([9.0, 4.0, 4.0, 5.0])}  # of each call, in seconds
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def call(name: str) -> None:
        clock[0] += next(lasting[name])

    found = timing.interleaved({"a": lambda: call("a"), "b": lambda: call("b")}, rounds=1, calls=3)
    assert found == {"a": 2000.0, "b": 4000.0}
