"""onepass.load: a model to ask, train further and save; or its engine, to ask only. Torch is imported for a model."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from onepass.contents import find_folder
from onepass.errors import ConfigError

if TYPE_CHECKING:
    from onepass.engine.engine import Engine
    from onepass.model import Model

ENGINE, RANGES, GATE = "engine/engine.json", "engine/ranges.safetensors", "engine/gate.json"


@overload
def load(source: str | Path, device: str = ..., *, precision: str = ..., engine: Literal[False] = ...) -> Model: ...
@overload
def load(source: str | Path, *, engine: Literal[True], threads: int | None = ...) -> Engine: ...
@overload
def load(source: str | Path, *, engine: bool, threads: int | None = ...) -> Model | Engine: ...


def load(
    source: str | Path,
    device: str = "cpu",
    *,
    precision: str = "fp32",
    engine: bool = False,
    threads: int | None = None,
) -> Model | Engine:
    """A model from its folder or from the hub.

    The device is `cpu`, `cuda` or `auto`: a GPU where there is one. The precision `bf16` is meant for a GPU; such a
    model is asked only.
    With `engine` what `onepass export` built of it: the same answers on the CPU, faster and without torch, on as many
    `threads` as there are cores if nothing else is said.
    """
    from onepass.extras import explained_imports

    if threads is not None and (type(threads) is not int or threads < 1):
        raise ConfigError(f"threads is {threads!r}. Possible: a whole number from 1.")
    if engine and (device not in ("cpu", "auto") or precision != "fp32"):
        raise ConfigError(
            f"device {device!r} and precision {precision!r} are for a model: an engine computes on the CPU, in what "
            "onepass export chose. Leave them out, or leave out engine=True."
        )
    if threads is not None and not engine:
        raise ConfigError("threads are those of an engine: it needs engine=True. Torch has torch.set_num_threads.")
    with explained_imports("onepass.load"):
        if engine:
            from onepass.engine.opening import Opening

            opening = Opening(source, threads)
            from onepass.engine.engine import Engine  # takes as long to import as the graph to compile

            return Engine(opening)
        from onepass.model import Model

        return Model.load(source, device, precision)


def load_fastest(source: str | Path) -> Model | Engine:
    """The engine of a model folder if it has one and OpenVINO is installed, else the model."""
    folder = find_folder(source)
    return load(folder, engine=True) if engine_answers(folder) else load(folder)


def engine_answers(folder: Path, device: str = "cpu") -> bool:
    """Whether a folder is asked through its engine; not without OpenVINO, unless torch is missing just as well."""
    exported = device == "cpu" and (folder / ENGINE).is_file()
    return exported and (find_spec("openvino") is not None or find_spec("torch") is None)
