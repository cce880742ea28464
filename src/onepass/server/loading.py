"""How a worker comes by a version of the model: from the folder as it is, or with a change that it makes itself.

While another worker answers, files are read and changed by a thread that gives way. Passes are not: the runtime's other
threads keep their priority, and would wait for that one at the cost of everybody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from onepass.errors import FolderError
from onepass.server.exchange import PROBES, Elsewhere, exchanged, largest_change
from onepass.server.folder import Unstable
from onepass.server.priority import aside, gently, settle
from onepass.server.served import PAUSE, Served
from onepass.server.versions import restore

SHORT_PAUSE = 2  # between the passes of a proof, for which somebody waits


class Loading:
    """A version on its way; `gently` while another one answers."""

    def __init__(self, folder: Path, options: dict[str, Any], before: Served | None, gently: bool, niceness: int):
        """`before` is an earlier version, of which is taken over what is the same."""
        self.folder, self.options, self.before = folder, options, before
        self.gently, self.niceness = gently, niceness

    def run(self, change: dict[str, Any] | None) -> tuple[Served, str]:
        """The model, and the proof that a change left the rest as it was."""
        with aside() if self.gently else contextlib.nullcontext():
            if change is None:
                found = self._loaded(), ""
            elif change["change"] == "rollback":
                found = self._restored(change.get("revision"))
            else:
                found = self._changed(change)
            if self.gently:
                gently(found[0].prepare)
        return found

    def _loaded(self) -> Served:
        return self._ready(self._aside(self._read))

    def _restored(self, revision: str | None) -> tuple[Served, str]:
        restored = self._aside(partial(restore, self.folder, revision))
        return self._loaded(), f"revision {restored} is back"

    def _changed(self, job: dict[str, Any]) -> tuple[Served, str]:
        """The folder with a change; after an error it is as it was."""
        before = self.before or self._aside(self._read)
        change = exchanged(self.folder, job)
        with contextlib.ExitStack() as stack:
            draft, files = self._aside(partial(stack.enter_context, change))
            served = self._aside(partial(Served, draft, before=before, **self.options))
            if not served.reopens:
                raise Elsewhere("This model has no engine.")
            if served.loaded.precision != before.loaded.precision:  # every answer is another one a little
                raise Elsewhere("8 bits were not tried with the new task.")
            # Another number of tasks can mean another order of the same sums.
            pause = SHORT_PAUSE if self.gently else 0
            engine, then, now = served.loaded, before.probed(pause), served.probed(pause)
            allowed = {task.name: most for task, most in zip(engine.tasks, engine.tolerances, strict=True)}
            moved = {name: largest_change(then[name], now[name]) for name in served.tasks_kept(before)}
            if strange := [name for name, by in moved.items() if not by <= allowed[name]]:  # also if it is NaN
                raise FolderError(
                    f"The answers of task {strange[0]!r} would have changed by {moved[strange[0]]:.3g} in a logit. "
                    "Nothing was changed."
                )
            self._ready(served)
            self._aside(stack.close)  # the new folder takes the place of the old one
        return served, (
            f"proof: {files} files of the other tasks, the encoder and the method are unchanged (sha256); largest "
            f"change of the logits of {len(moved)} of these tasks on {len(PROBES)} texts: "
            f"{max(moved.values(), default=0.0):.3g}"
        )

    def _ready(self, served: Served) -> Served:
        served.warm_up(PAUSE if self.gently else 0)
        self._aside(settle)
        return served

    def _read(self) -> Served:
        """The model, read again if the folder was replaced meanwhile."""
        read = partial(Served, self.folder, before=self.before, **self.options)
        for _ in range(4):
            with contextlib.suppress(Unstable):
                return read()
        return read()

    def _aside(self, work: Callable[[], Any]) -> Any:
        return gently(work, self.niceness) if self.gently else work()
