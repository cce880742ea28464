"""Work that gives way to other work."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

from onepass.server.priority import aside, gently, let_give_way, settle

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="niceness and cores belong to a process elsewhere")


@on_linux
def test_gentle_work_leaves_this_thread_and_those_it_started_as_they_were() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()
    assert gently(niceness, before + 4 if before < 15 else 19) > before or before == 19
    assert niceness() == before


@on_linux
def test_what_gives_way_keeps_to_half_of_the_cores() -> None:
    every = os.sched_getaffinity(0)
    half = every if len(every) == 1 else set(sorted(every)[len(every) // 2 :])
    assert gently(lambda: os.sched_getaffinity(0)) == half
    assert os.sched_getaffinity(0) == every
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        let_give_way(child.pid, 0)
        assert os.sched_getaffinity(child.pid) == every
        let_give_way(child.pid, 1)
        assert os.sched_getaffinity(child.pid) == half
    finally:
        child.kill()
        child.wait()


@on_linux
def test_all_threads_step_aside_for_a_while_also_those_that_begin_meanwhile() -> None:
    every = os.sched_getaffinity(0)
    over, threads = threading.Event(), []

    def begin() -> None:
        threads.append(threading.Thread(target=over.wait))
        threads[-1].start()

    def cores() -> list[set[int]]:
        return [os.sched_getaffinity(thread.native_id) for thread in threads]

    try:
        begin()
        with aside():
            begin()
            assert cores() == [gently(lambda: os.sched_getaffinity(0))] * 2
        assert [*cores(), os.sched_getaffinity(0)] == [every] * 3
    finally:
        over.set()
        for thread in threads:
            thread.join()


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


@on_linux
def test_what_changes_tasks_has_only_time_that_is_left_over_if_wanted() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        let_give_way(child.pid, 18)
        assert os.sched_getscheduler(child.pid) == os.SCHED_OTHER
        let_give_way(child.pid, 19)
        assert os.sched_getscheduler(child.pid) == os.SCHED_IDLE
    finally:
        child.kill()
        child.wait()


@on_linux
def test_short_turns_change_nothing_else_of_a_process_and_are_inherited_by_its_threads() -> None:
    """Asked of /proc, where the system tells the length of turns."""
    code = (
        "import os, threading; from onepass.server.priority import prompt; os.nice(3); prompt()\n"
        "found = []\n"
        "def look():\n"
        "    with open(f'/proc/self/task/{threading.get_native_id()}/sched') as file:\n"
        "        found.extend(line.split()[-1] for line in file if line.startswith('se.slice'))\n"
        "look(); thread = threading.Thread(target=look); thread.start(); thread.join()\n"
        "print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), *found)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found[:2] == [str(min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3)), str(os.SCHED_OTHER)]
    assert len(set(found[2:])) < 2  # nothing where the system does not tell


def test_what_is_settled_is_not_looked_through_again_but_what_is_given_up_is() -> None:
    class Thing:
        own: object

    try:
        thing = Thing()
        thing.own = thing
        settle()
        assert gc.get_freeze_count() > 1000
        gone = weakref.ref(thing)
        del thing
        gc.collect()
        assert gone() is not None
        settle()
        assert gone() is None
    finally:
        gc.unfreeze()
