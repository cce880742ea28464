"""The engine: a trained model, run by a runtime instead of torch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from onepass.asking import NO_RANGES, Asking
from onepass.atomic import MANIFEST, read_json
from onepass.contents import find_folder, model_files, read_config, task_of, task_order
from onepass.encoder.config import EncoderConfig
from onepass.encoder.tokenizer import Tokenizer
from onepass.engine.core import Core
from onepass.engine.graph import EncoderGraph
from onepass.engine.pooling import Pooling
from onepass.engine.ranges import Bounds, from_weights
from onepass.engine.reading import Reading
from onepass.engine.runner import Runner
from onepass.engine.weights import read_weights
from onepass.errors import EncoderError, FolderError, unknown
from onepass.heads import Kind, make_kind
from onepass.inquiry import Pieces, Ranges
from onepass.loading import ENGINE, GATE, RANGES
from onepass.tasks import Task

log = logging.getLogger(__name__)
FORMAT = 1
RUNNERS: dict[str, type[Runner]] = {"readers": Reading, "pooling": Pooling}
"""What an engine can do, by the names that methods use in their recipes"""


class Engine(Asking):
    """Labels texts like the model it was exported from. Many threads may ask; it computes for one at a time."""

    def __init__(
        self,
        folder: str | Path,
        threads: int | None = None,
        *,
        recipe: dict[str, Any] | None = None,
        bounds: Bounds | None = None,
    ):
        """`recipe` and `bounds` are what to build where those of the folder, from `onepass export`, are not wanted."""
        path = find_folder(folder)
        files = model_files(path)
        config = read_config(path)
        if recipe is None:
            recipe, bounds = _recipe(path, files), _bounds(path, files)
        self.folder = path
        self.recipe: dict[str, Any] = recipe
        self.tokenizer = Tokenizer.load(path / "tokenizer.json", config["encoder"]["max_length"])
        self.tasks: list[Task] = []
        self.kinds: list[Kind] = []
        self.records: list[dict[str, Any]] = []
        own = []
        try:
            for name in task_order(path, files):
                task, known = task_of(path / "tasks" / name)
                self.tasks.append(task)
                self.records.append(known)
                self.kinds.append(make_kind(task))
                own.append(read_weights(path / "tasks" / name / "weights.safetensors"))
            encoder = EncoderGraph(
                EncoderConfig.from_dict(config["encoder"]["config"]),
                read_weights(path / "encoder.safetensors"),
                bounds or {},
            )
            shared = read_weights(path / "method.safetensors") if "method.safetensors" in files else {}
            runner = _runner_of(recipe)(encoder, recipe["method"], shared, own, threads)
        except KeyError as error:
            raise FolderError(f"{path} is no model this version can read: it does not say {error}.") from error
        except (EncoderError, TypeError, ValueError) as error:
            raise FolderError(f"{path} is no model this version can read: {error}") from error
        self._core = Core(runner, zip(self.tasks, self.kinds, strict=True))
        self.precision = self._core.precision
        self._lock = Lock()

    def logits_of(self, encoded: Sequence[Pieces], asked: Sequence[int], ranges: Ranges = NO_RANGES) -> list[Any]:
        with self._lock:
            return self._core.logits(encoded, asked, ranges)

    def watch(self, encoded: Sequence[Pieces]) -> Iterator[Bounds]:
        """What goes into each linear layer, text by text, with all tasks asked."""
        return self._core.watch(encoded)


def _recipe(folder: Path, files: Sequence[str]) -> dict[str, Any]:
    """engine.json of a model folder."""
    if ENGINE not in files:
        raise FolderError(f"{folder} has no engine. Build it with: onepass export {folder}")
    recipe = read_json(folder / ENGINE)
    if not isinstance(recipe, dict) or recipe.get("format") != FORMAT:
        raise FolderError(f"{folder / ENGINE} is of another version. Build it anew with: onepass export {folder}")
    return recipe


def _bounds(folder: Path, files: Sequence[str]) -> Bounds:
    """The ranges of a model folder, if 8 bits passed the gate of every task that it has."""
    if RANGES not in files:
        return {}
    passed = {verdict["weights"] for verdict in read_json(folder / GATE)["tasks"].values()}
    now = read_json(folder / MANIFEST)["files"]
    names = [file.split("/")[1] for file in files if file.startswith("tasks/") and file.endswith("/task.json")]
    if new := [name for name in names if now[f"tasks/{name}/weights.safetensors"] not in passed]:
        log.warning(
            "%s: computing in 32 bits, since 8 were not tried with %s. Try with: onepass export %s --int8",
            folder,
            ", ".join(new),
            folder,
        )
        return {}
    return from_weights(read_weights(folder / RANGES))


def _runner_of(recipe: Mapping[str, Any]) -> type[Runner]:
    name = recipe["method"]["runner"]
    if name not in RUNNERS:
        raise ValueError(unknown("runner", name, RUNNERS))
    return RUNNERS[name]
