"""Tasks taught, installed, removed and taken back while the server serves: one change at a time, each whole.

Where an engine serves, the worker that waits makes the change and holds the new version then; else, and where a task is
to be trained, a process of its own does. Then workers load the new version and take over; if they refuse it, the folder
is put back. Until then the old version answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepass.atomic import reason
from onepass.errors import OnepassError
from onepass.server.exchange import CHANGES, Elsewhere
from onepass.server.folder import Unstable, revision_of
from onepass.server.priority import gently, let_give_way
from onepass.server.replies import Refused
from onepass.server.versions import Damaged, forget, keep, kept, restore

if TYPE_CHECKING:
    from onepass.server.child import Generation
    from onepass.server.pool import Pool

log = logging.getLogger(__name__)
MOST_WAITING, REMEMBERED = 8, 100
QUICK = (*CHANGES, "rollback")
"""What needs no training"""
_PERCENT = re.compile(r"(\d+)%\|")


@dataclass
class Job:
    """A change, asked for, under way or over."""

    number: int
    change: str
    name: str | None
    state: str = "waiting"
    """waiting, running, loading, done, failed"""
    progress: float = 0.0
    message: str = ""
    revision: str | None = None
    seconds: float = 0.0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def told(self) -> dict[str, Any]:
        keys = ("number", "change", "name", "state", "progress", "message", "revision", "seconds")
        return {key: getattr(self, key) for key in keys}


class Changes:
    """The changes of a server, in order."""

    def __init__(self, folder: Path, pool: Pool):
        self.folder, self.pool = folder, pool
        self.jobs: dict[int, Job] = {}
        self._numbers = itertools.count(1)
        self._one = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, change: str, name: str | None = None, files: Path | None = None, **facts: Any) -> Job:
        """Ask for a change; `files` is a folder of the job's own, deleted when it is over."""
        if self.pool.draining:
            raise Refused(503, "stopping", "The server is about to end. Nothing was changed.")
        if sum(not job.over.is_set() for job in self.jobs.values()) >= MOST_WAITING:
            raise Refused(429, "busy", f"{MOST_WAITING} changes wait already. Try again later.", retry_s=5)
        job = Job(next(self._numbers), change, name)
        self.jobs[job.number] = job
        for old in [number for number, found in self.jobs.items() if found.over.is_set()][:-REMEMBERED]:
            del self.jobs[old]
        task = asyncio.create_task(self._run(job, facts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._end(job, files))
        return job

    def _end(self, job: Job, files: Path | None) -> None:
        """Whatever became of a change, even if the server ended before its turn came."""
        if job.state not in ("done", "failed"):
            job.state, job.message = "failed", "The server ended."
        if files is not None:
            shutil.rmtree(files, ignore_errors=True)
        log.log(logging.WARNING if job.state == "failed" else logging.INFO, "%s", _line(job))
        job.over.set()

    async def _run(self, job: Job, facts: dict[str, Any]) -> None:
        async with self._one:
            start, self.pool.made = time.monotonic(), None
            before: str | None = None
            known: list[str] = []
            try:
                job.state = "running"
                if job.change != "reload":
                    known = await asyncio.to_thread(kept, self.folder)
                    with contextlib.suppress(Damaged):  # for the change to refuse, or to mend
                        before = await asyncio.to_thread(gently, self._keep)
                    # What the folder is between two steps of a change is not for serving.
                    self.pool.follower.hold = True
                job.revision = await self._made(job, facts, before)
                job.state, job.progress = "done", 1.0
            except Refused as refused:
                job.state, job.message = "failed", refused.message
            except OnepassError as error:
                job.state, job.message = "failed", str(error)
            except OSError as error:  # no process, file or memory to be had
                job.state, job.message = "failed", f"The change could not be made: {reason(error)}."
            except asyncio.CancelledError:
                raise  # _end tells
            except BaseException:
                job.state, job.message = "failed", "A fault in the server."
                raise
            finally:
                self.pool.follower.hold = False
                job.seconds = round(time.monotonic() - start, 2)
                if job.state == "failed" and before is not None and before not in known:
                    with contextlib.suppress(OnepassError):
                        await asyncio.to_thread(self._forget, before)

    def remember(self) -> None:
        """Keep the version that serves now, whoever put it there, so that it can be taken back later."""

        async def keeping() -> None:
            try:
                await asyncio.to_thread(gently, self._keep)
            except OnepassError as error:
                log.warning("this version cannot be kept to be taken back later: %s", error)

        task = asyncio.create_task(keeping())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _keep(self) -> str | None:
        """The revision that could be taken back, if it can be kept."""
        for _ in range(3):
            with contextlib.suppress(Unstable):
                return keep(self.folder)
        return None

    def _forget(self, revision: str) -> None:
        """Keep no longer what a change was refused on, unless it serves: maybe it cannot. The folder has it still."""
        serving = self.pool.current.revision if self.pool.current else None
        if revision != serving and revision == revision_of(self.folder):
            forget(self.folder, revision)

    async def _made(self, job: Job, facts: dict[str, Any], before: str | None) -> str:
        """Make the change; returns the revision that serves then."""
        if job.change in QUICK and self.pool.changes_folder:
            with contextlib.suppress(Elsewhere):
                spec = {"change": job.change, "name": job.name, **facts}
                generation = await self._load(before, spec)
                job.message = generation.facts["proof"]
                return generation.revision
        if job.change != "reload":
            await self._change(job, facts)
            self.pool.made = revision_of(self.folder)
        job.state = "loading"
        return (await self._load(before)).revision

    async def _change(self, job: Job, facts: dict[str, Any]) -> None:
        """Let a process of its own change the folder."""
        nice, launch = self.pool.settings.change_nice, self.pool.launch
        threads = max(1, launch.threads // (2 if nice else 1))  # on half of the cores
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "onepass.server.changer",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=launch.environment() | {"OMP_NUM_THREADS": str(threads)},
            process_group=0,
        )
        let_give_way(process.pid, nice)
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        try:
            spec = {"change": job.change, "name": job.name, "folder": str(self.folder.resolve()), **facts}
            process.stdin.write(json.dumps(spec).encode())
            process.stdin.close()
            output, _ = await asyncio.gather(process.stdout.read(), self._follow(job, process.stderr))
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
        try:
            found = json.loads(output)
        except ValueError:
            raise Refused(500, "fault", f"The process that made the change ended with {process.returncode}.") from None
        if "error" in found:
            raise Refused(409, "refused", found["error"])
        job.message = "\n".join([*found["warnings"], found["proof"]])

    async def _follow(self, job: Job, stream: asyncio.StreamReader) -> None:
        """What the progress bar says; nothing else of it is kept."""
        while part := await stream.read(4096):
            if percents := _PERCENT.findall(part.decode("utf-8", "replace")):
                job.progress = int(percents[-1]) / 100

    async def _load(self, before: str | None, change: dict[str, Any] | None = None) -> Generation:
        """Take the changed folder over, or put it back."""
        try:
            return await self.pool.replace(change)
        except (OnepassError, Refused, asyncio.CancelledError) as error:
            # What somebody else put there meanwhile stays; what is kept is not lost.
            if before is not None and revision_of(self.folder) in {self.pool.made, *kept(self.folder)} - {before}:
                await asyncio.to_thread(restore, self.folder, before)
                if not isinstance(error, asyncio.CancelledError):  # else the server ends
                    await self.pool.replace()
            raise

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


def _line(job: Job) -> str:
    """What the log says of a change that is over."""
    line = (
        f"change {job.number}, {job.change}{f' {job.name}' if job.name else ''}: {job.state} after {job.seconds:.1f} s"
    )
    if job.state != "failed":
        return line
    # What is wrong with rows may repeat a piece of them, and no text comes into a log.
    return f"{line}: {f'GET /jobs/{job.number} says why' if job.change == 'learn' else job.message}"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A new folder for what a job needs; the job deletes it, or whoever fails before there is one."""
    place = None
    try:
        place = Path(tempfile.mkdtemp(prefix="onepass-"))
        yield place
    except BaseException as error:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
        if isinstance(error, OSError):
            raise Refused(507, "no_room", f"What was sent cannot be kept here: {reason(error)}.") from error
        raise
