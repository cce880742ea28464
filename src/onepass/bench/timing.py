"""Timing contenders against each other: in turns, so that whatever else the machine does hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

WARM_UP = 1
Name = TypeVar("Name", bound=Hashable)


def interleaved(
    contenders: Mapping[Name, Callable[[], object]], rounds: int, cpu: bool = False, calls: int = 1
) -> dict[Name, float]:
    """The median time of each in milliseconds; every round runs each once, every other round in reverse order.

    cpu: the time that the processor worked for this process, on all its cores together, instead of the clock's.
    calls: run each so often in a row; with more than one, after a call that does not count.
    """
    clock = time.process_time if cpu else time.perf_counter
    names = list(contenders)
    times: dict[Name, list[float]] = {name: [] for name in names}
    for number in range(WARM_UP + rounds):
        for name in names if number % 2 else reversed(names):
            if calls > 1:
                contenders[name]()
            for _ in range(calls):
                start = clock()
                contenders[name]()
                taken = clock() - start
                if number >= WARM_UP:
                    times[name].append(1000 * taken)
    return {name: statistics.median(found) for name, found in times.items()}
