"""The processes of a bench's runs: how they are started, and what they do."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from onepass.atomic import Locked, locked
from onepass.errors import OnepassError

if TYPE_CHECKING:
    from onepass.bench.runs import Run

log = logging.getLogger(__name__)
PARENT = "ONEPASS_BENCH"
"""The variable that tells a run's process which process started it"""


class Running:
    """A run that is under way, in a process of its own."""

    def __init__(self, run: Run, holds: str, folder: Path, claim: ExitStack | None = None):
        self.run, self.holds = run, holds
        self.claim = claim or ExitStack()
        """To be closed when the run's line is written"""
        # Files, not pipes: a process that says more than a pipe holds would wait for a reader for ever.
        self.out, self.err = _scratch(), _scratch()
        command = [sys.executable, "-m", run.module, json.dumps(asdict(run)), str(folder)]
        own = {PARENT: str(os.getpid())} | ({"ONEPASS_CACHE": str(cache_beside(folder))} if run.teachers else {})
        self.process = subprocess.Popen(command, stdout=self.out, stderr=self.err, env=os.environ | own)

    def line(self) -> dict[str, Any]:
        """What is kept of the run, once its process is over."""
        out, err = _text_of(self.out), _text_of(self.err)
        if self.process.returncode < 0:
            raise OnepassError(
                f"{self.run.told} was killed by signal {-self.process.returncode}, for want of "
                "memory perhaps. The same command goes on; give it fewer --jobs."
            )
        if self.process.returncode:
            raise OnepassError(f"{self.run.told} failed:\n{err.strip()[-3000:]}")
        line: dict[str, Any] = json.loads(out.splitlines()[-1])
        return line | {"holds": self.holds}


def claimed(folder: Path) -> ExitStack:
    """What keeps other benches from a run until it is closed, or this process is gone; `Locked` if one has it."""
    folder.parent.mkdir(exist_ok=True)
    claim = ExitStack()
    claim.enter_context(locked(folder.with_name(f"{folder.name}.run")))
    return claim


def side_by_side(
    runs: Sequence[Run], start: Callable[[Run], Running | None], jobs: int, limit_s: float | None
) -> Generator[Running, None, None]:
    """Runs whose processes are over, `jobs` of them at a time; those under way are killed when time is up.

    `start` gives None for a run that another bench has done meanwhile, and raises `Locked` for one that it is at: that
    run is asked for again.
    """
    waiting = list(runs)
    running: list[Running] = []
    elsewhere: set[Run] = set()
    end = time.monotonic() + (math.inf if limit_s is None else limit_s)
    try:
        while (waiting or running) and time.monotonic() < end:
            for run in [run for run in waiting if run.can_start]:
                if len(running) == jobs:
                    break
                try:
                    entry = start(run)
                except Locked:
                    if run not in elsewhere:
                        log.info("Another bench with this output is at %s: its line is waited for.", run.told)
                    elsewhere.add(run)
                    continue
                waiting.remove(run)
                elsewhere.discard(run)
                running += [entry] if entry is not None else []
            if not running and not elsewhere:
                break  # what the others wait for has failed
            time.sleep(0.2)
            for entry in [entry for entry in running if entry.process.poll() is not None]:
                running.remove(entry)
                yield entry
    finally:
        for entry in running:
            entry.process.kill()
        for entry in running:
            entry.process.wait()  # none outlives the bench, not even for a moment
            entry.claim.close()


def _scratch() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _text_of(file: IO[str]) -> str:
    with file:
        file.seek(0)
        return file.read()


def cache_beside(folder: Path) -> Path:
    """Where runs keep what they asked of teachers that other runs ask the same."""
    return folder.with_name("answers")


def serve_run(kind: type[Run], run: Callable[..., dict[str, Any]]) -> None:
    """What a run's process does: read the run from the command line, run it, write its line."""
    specification: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(sys.argv[1]).items()
    }
    wanted = kind(**specification)
    _end_with(int(os.environ.get(PARENT, os.getppid())))
    try:
        sys.stdout.write(json.dumps(run(wanted, Path(sys.argv[2]))) + "\n")
        if not wanted.stays:
            shutil.rmtree(sys.argv[2], ignore_errors=True)
    except OnepassError as error:
        sys.exit(str(error))


def _end_with(parent: int) -> None:
    """End this process when the bench does: one that is killed, or ends while it starts a run, cannot end it itself."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
