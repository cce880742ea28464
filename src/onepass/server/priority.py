"""Who waits for whom when cores are busy: requests come first, then computing, then loading, then changing tasks.

Niceness counts between processes of one session only where Linux groups sessions (autogroup), so that ours stay in the
server's session. It can be raised without any right, but not lowered again; on Linux it belongs to a thread, which is
how a process can load gently and then serve.

Niceness alone is not enough: a thread that wakes up stays on its core, beside its neighbour, while a nicer program has
the other core for itself. So what gives way also keeps to half of the cores.
"""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

COMPUTING, LOADING, LEFT_OVER = 2, 7, 19
TURN_NS = 100_000
SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}
"""The system call sched_setattr, which Python has no name for"""
_ATTRIBUTES = struct.Struct("IIQiIQQQ")
"""Its size, policy, flags, niceness, priority, runtime, deadline, period"""
CORES = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


def give_way(niceness: int) -> None:
    """Let this process, and what it starts, wait for those with less niceness."""
    os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))


def prompt() -> None:
    """Let this thread and those it starts have their turn as soon as they wake up; in return each turn is short.

    Otherwise whoever has the core first ends a turn of some ms, and a batch is computed in many short steps by several
    threads. From Linux 6.12 on; where it cannot be had, nothing is different.
    """
    number = SET_ATTRIBUTES.get(platform.machine())
    if sys.platform == "linux" and number is not None and os.sched_getscheduler(0) == os.SCHED_OTHER:
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, niceness, 0, TURN_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)


def let_give_way(process: int, niceness: int) -> None:
    """The same for a process that was just started: by itself it would do so only after its imports."""
    with suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, process, max(niceness, os.getpriority(os.PRIO_PROCESS, process)))
        if niceness >= LEFT_OVER and sys.platform == "linux":
            _take_what_is_left(process)
    if niceness:
        _step_aside(process)


def _take_what_is_left(process: int) -> None:
    """Let a process or, for 0, this thread run only while a core has nothing else to do.

    Beside a nice program a batch took 1.6 times as long, beside one of this policy 1.3 times, and if the batch's
    threads have short turns, no longer than alone.
    """
    os.sched_setscheduler(process, os.SCHED_IDLE, os.sched_param(0))


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
            if niceness >= LEFT_OVER:
                _take_what_is_left(0)
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
