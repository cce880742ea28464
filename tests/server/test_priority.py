"""Work that gives way to other work."""

import os
import subprocess
import sys
import threading

import pytest

from onepass.server.priority import gently, let_give_way


@pytest.mark.skipif(sys.platform != "linux", reason="niceness belongs to a process elsewhere")
def test_gentle_work_leaves_this_thread_and_those_it_started_as_they_were() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()
    assert gently(niceness, before + 4 if before < 15 else 19) > before or before == 19
    assert niceness() == before


def test_what_gentle_work_raises_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        gently(lambda: 1 // 0)


def test_a_process_never_becomes_less_nice() -> None:
    code = (
        "import os; from onepass.server.priority import give_way; os.nice(9); give_way(2); "
        "print(os.getpriority(os.PRIO_PROCESS, 0))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) >= 9


def test_a_process_that_was_just_started_is_made_to_give_way() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        let_give_way(child.pid, 19)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
        let_give_way(child.pid, 2)
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
    finally:
        child.kill()
        child.wait()
    let_give_way(child.pid, 19)  # it may have ended already


def test_a_worker_starts_with_little() -> None:
    """Before it can give way; numpy and the tasks come gently, when another worker may be serving."""
    code = "import sys, onepass.server.start_worker; sys.exit('numpy' in sys.modules or 'onepass.tasks' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
