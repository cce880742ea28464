"""Who waits for whom when cores are busy: requests come first, then computing, then loading, then changing tasks.

Niceness counts between processes of one session only where Linux groups sessions (autogroup), so that ours stay in the
server's session. It can be raised without any right, but not lowered again; on Linux it belongs to a thread, which is
how a process can load gently and then serve.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

COMPUTING, LOADING = 2, 7


def give_way(niceness: int) -> None:
    """Let this process, and what it starts, wait for those with less niceness."""
    os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))


def let_give_way(process: int, niceness: int) -> None:
    """The same for a process that was just started: by itself it would do so only after its imports."""
    with suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PROCESS, process, max(niceness, os.getpriority(os.PRIO_PROCESS, process)))


def gently(work: Callable[[], Any], niceness: int = LOADING) -> Any:
    """What some work returns, done by a thread that gives way; elsewhere than on Linux, by this one."""
    if sys.platform != "linux":
        return work()
    found: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            give_way(niceness)
            found.append(work())
        except BaseException as error:  # noqa: BLE001  raised again where the work was asked for
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]
