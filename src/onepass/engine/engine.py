"""The engine: a trained model, run by a runtime instead of torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from onepass.asking import NO_RANGES, Asking
from onepass.contents import read_config, read_whole, task_of, task_order
from onepass.encoder.tokenizer import Tokenizer
from onepass.engine.core import Core
from onepass.engine.opening import Opening
from onepass.engine.ranges import Bounds
from onepass.engine.rounding import tolerance
from onepass.engine.runner import Runner
from onepass.engine.weights import misfits
from onepass.errors import EncoderError, FolderError
from onepass.heads import Kind, make_kind
from onepass.inquiry import Pieces, Ranges
from onepass.tasks import Task


class Engine(Asking):
    """Labels texts like the model it was exported from. Many threads may ask; it computes for one at a time."""

    def __init__(
        self,
        folder: str | Path | Opening,
        threads: int | None = None,
        *,
        recipe: dict[str, Any] | None = None,
        bounds: Bounds | None = None,
    ):
        """`recipe` and `bounds` are what to build where those of the folder, from `onepass export`, are not wanted.

        An Opening is a folder on which work began before.
        """
        opening = folder if isinstance(folder, Opening) else Opening(folder, threads, recipe, bounds)
        self.folder = opening.folder
        read_whole(self.folder, lambda: self._open(opening.current()))
        self.precision = self._core.precision
        self._lock = Lock()

    def _open(self, opening: Opening) -> None:
        self._opening, path = opening, self.folder
        files = opening.checked_files()
        self.tasks: list[Task] = []
        self.kinds: list[Kind] = []
        self.records: list[dict[str, Any]] = []
        try:
            self.tokenizer = Tokenizer.load(path / "tokenizer.json", read_config(path)["encoder"]["max_length"])
            for name in task_order(path, files):
                task, known = task_of(path / "tasks" / name)
                self.tasks.append(task)
                self.records.append(known)
                self.kinds.append(make_kind(task))
        except KeyError as error:
            raise FolderError(f"{path} is no model this version can read: it does not say {error}.") from error
        except (EncoderError, TypeError, ValueError) as error:
            raise FolderError(f"{path} is no model this version can read: {error}") from error
        self.recipe, runner = opening.built()
        for task, kind, own in zip(self.tasks, self.kinds, runner.tasks, strict=True):
            width = runner.encoder.config.width
            if faults := misfits(own, runner.tasks[0], width, kind.outputs(task), width * kind.states(task)):
                raise FolderError(
                    f"{path / 'tasks' / task.name / 'weights.safetensors'} does not hold the weights of this task: "
                    f"{'; '.join(faults)}."
                )
        self._core = Core(runner, zip(self.tasks, self.kinds, strict=True))

    def __repr__(self) -> str:
        return f"Engine({str(self.folder)!r}, {len(self.tasks)} tasks, {self.precision})"

    def reopened(self, folder: Path | None = None) -> Engine:
        """The engine of the folder as it is now, or of another; soon there if only tasks changed.

        Ask one of the two at a time.
        """
        return Engine(Opening(folder or self.folder, self._opening.threads, after=self._opening))

    @property
    def runner(self) -> Runner:
        """What computes the tasks' vectors, with the weights of all tasks."""
        return self._core.runner

    @property
    def tolerances(self) -> list[float]:
        """How far the logits of each task may be from those of another computation of the same."""
        return [tolerance(weights) for weights in self.runner.tasks]

    @property
    def padding(self) -> int:
        """Tokens computed so far that are no token of a text."""
        return self._core.computed - self._core.read

    def logits_of(self, encoded: Sequence[Pieces], asked: Sequence[int], ranges: Ranges = NO_RANGES) -> list[Any]:
        with self._lock:
            return self._core.logits(encoded, asked, ranges)

    def watch(self, encoded: Sequence[Pieces]) -> Iterator[Bounds]:
        """What goes into each linear layer, text by text, with all tasks asked."""
        return self._core.watch(encoded)
