"""Opening a model folder for the engine: the graph is compiled in one thread while the caller does the rest.

The rest is to import what reads tasks and texts, to check every file against the manifest, and to load the tokenizer.
So nothing here may import tasks or kinds. Nobody is given the graph before the files were found to be whole.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from onepass.atomic import CARD, listed_files, read_json
from onepass.contents import find_folder, manifest_of, model_files, read_config, task_order, unjudged
from onepass.encoder.config import EncoderConfig
from onepass.engine.graph import EncoderGraph
from onepass.engine.pooling import Pooling
from onepass.engine.ranges import Bounds, computed_here, from_weights, precision_of
from onepass.engine.reading import Reading
from onepass.engine.runner import Runner
from onepass.engine.weights import Weights, read_weights
from onepass.errors import EncoderError, FolderError, unknown
from onepass.loading import ENGINE, GATE, RANGES

log = logging.getLogger(__name__)
FORMAT = 1
RUNNERS: dict[str, type[Runner]] = {"readers": Reading, "pooling": Pooling}
"""What an engine can do, by the names that methods use in their recipes"""


class Opening:
    """A model folder whose graph is being compiled."""

    def __init__(
        self,
        folder: str | Path,
        threads: int | None = None,
        recipe: dict[str, Any] | None = None,
        bounds: Bounds | None = None,
        after: Opening | None = None,
    ):
        """`recipe` and `bounds` are what to build where those of the folder, from `onepass export`, are not wanted.

        `after` is an earlier opening, whose graph is taken where only tasks differ.
        """
        self.folder = find_folder(folder)
        self.manifest = manifest_of(self.folder)
        read_config(self.folder)  # says so if this is no model folder at all
        self.threads = threads
        self._wanted = recipe, bounds
        self._after = after
        self._fixed: dict[str, str] = {}
        """The files that the graph is made of, with their sha256"""
        with_one = ThreadPoolExecutor(1, "onepass-opening")
        self._built = with_one.submit(self._build)
        with_one.shutdown(wait=False)

    def current(self) -> Opening:
        """This opening, or a new one if the folder is of another version by now."""
        if manifest_of(self.folder) == self.manifest:
            return self
        self._built.exception()  # waits: nothing goes on behind the caller's back
        return Opening(self.folder, self.threads, *self._wanted)

    def checked_files(self) -> list[str]:
        """The files of the folder, each as the manifest says; an error about them comes before any other."""
        try:
            return model_files(self.folder)
        except FolderError:
            self._built.exception()  # waits: nothing goes on behind the caller's back
            raise

    def built(self) -> tuple[dict[str, Any], Runner]:
        """The recipe and the compiled graph."""
        return self._built.result()

    def _build(self) -> tuple[dict[str, Any], Runner]:
        path, listed = self.folder, listed_files(self.folder)
        files = list(listed)
        self._fixed = {name: sha for name, sha in listed.items() if not name.startswith("tasks/") and name != CARD}
        before, self._after = self._after, None  # no chain of all that were before
        recipe, bounds = self._wanted
        try:
            if recipe is None:
                recipe, bounds = _recipe(path, files), _bounds(path, listed)
            # Whether 8 bits may be used is for the tasks to say.
            if before is not None and before._fixed == self._fixed and RANGES not in files:
                recipe, runner = before.built()
                return recipe, runner.with_tasks(self._own(files))
            encoder = EncoderGraph(
                EncoderConfig.from_dict(read_config(path)["encoder"]["config"]),
                read_weights(path / "encoder.safetensors"),
                bounds or {},
            )
            shared = read_weights(path / "method.safetensors") if "method.safetensors" in files else {}
            return recipe, _runner_of(recipe)(encoder, recipe["method"], shared, self._own(files), self.threads)
        except KeyError as error:
            raise FolderError(f"{path} is no model this version can read: it does not say {error}.") from error
        except (AttributeError, EncoderError, RuntimeError, TypeError, ValueError) as error:  # the third: of OpenVINO
            raise FolderError(f"{path} is no model this version can read: {error}") from error

    def _own(self, files: list[str]) -> list[Weights]:
        """The tasks' weights, in order."""
        tasks = self.folder / "tasks"
        return [read_weights(tasks / name / "weights.safetensors") for name in task_order(self.folder, files)]


def _recipe(folder: Path, files: Sequence[str]) -> dict[str, Any]:
    """engine.json of a model folder."""
    if ENGINE not in files:
        raise FolderError(f"{folder} has no engine. Build it with: onepass export {folder}")
    recipe = read_json(folder / ENGINE)
    if not isinstance(recipe, dict) or recipe.get("format") != FORMAT:
        raise FolderError(f"{folder / ENGINE} is of another version. Build it anew with: onepass export {folder}")
    return recipe


def _bounds(folder: Path, files: Mapping[str, str]) -> Bounds:
    """The ranges of a model folder, if its 8 bits passed the gate of every task, and this processor has them."""
    if RANGES not in files:
        return {}
    if new := unjudged(folder, read_json(folder / GATE)):
        log.warning(
            "%s: computing in 32 bits, since 8 were not tried with %s as %s now. Try with: onepass export %s --int8",
            folder, ", ".join(new), "it is" if len(new) == 1 else "they are", folder,
        )  # fmt: skip
        return {}
    bounds = from_weights(read_weights(folder / RANGES))
    if not computed_here(bounds):
        log.warning(
            "%s: computing in 32 bits, since this processor cannot compute in %s as the one that exported it did",
            folder,
            precision_of(bounds),
        )
        return {}
    return bounds


def _runner_of(recipe: Mapping[str, Any]) -> type[Runner]:
    name = recipe["method"]["runner"]
    if name not in RUNNERS:
        raise ValueError(unknown("runner", name, RUNNERS))
    return RUNNERS[name]
