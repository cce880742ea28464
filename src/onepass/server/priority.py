"""Who waits for whom when cores are busy: requests come first, then computing, then loading, then changing tasks.

Niceness counts between processes of one session only where Linux groups sessions (autogroup), so that ours stay in the
server's session. It can be raised without any right, but not lowered again; on Linux it belongs to a thread, which is
how a process can load gently and then serve.

Niceness alone is not enough: a thread that wakes up stays on its core, beside its neighbour, while a nicer program has
the other core for itself. So what gives way also keeps to half of the cores.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

COMPUTING, LOADING = 2, 7
CORES = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


def give_way(niceness: int) -> None:
    """Let this process, and what it starts, wait for those with less niceness."""
    os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))


def let_give_way(process: int, niceness: int) -> None:
    """The same for a process that was just started: by itself it would do so only after its imports."""
    with suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, process, max(niceness, os.getpriority(os.PRIO_PROCESS, process)))
    if niceness:
        _step_aside(process)


def _step_aside(process: int = 0) -> None:
    """Keep a process, a thread or, for 0, this thread to the second half of the cores."""
    if sys.platform == "linux":
        with suppress(OSError):  # gone already, or not ours to say
            os.sched_setaffinity(process, CORES[len(CORES) // 2 :])


@contextmanager
def aside() -> Iterator[None]:
    """Within the block all threads of this process, also those of libraries, keep to half of the cores."""
    try:
        for thread in _threads():
            _step_aside(thread)
        yield
    finally:
        for thread in _threads():
            with suppress(OSError):
                os.sched_setaffinity(thread, CORES)


def settle() -> None:
    """Let garbage be looked for only among what comes from now on.

    Modules and an application stay for good. To look through them all holds everybody up for 50 to 150 ms, and happens
    just when many connections come at once.
    """
    gc.unfreeze()  # what settled earlier may have been given up since
    gc.collect()
    gc.freeze()


def _threads() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/task")] if sys.platform == "linux" else []


def gently(work: Callable[[], Any], niceness: int = LOADING) -> Any:
    """What some work returns, done by a thread that gives way; elsewhere than on Linux, by this one."""
    if sys.platform != "linux":
        return work()
    found: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            give_way(niceness)
            _step_aside()
            found.append(work())
        except BaseException as error:  # noqa: BLE001  raised again where the work was asked for
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]
