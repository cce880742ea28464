"""Building the engine of a model folder. This needs the trained model, and so torch; what it writes does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from onepass.atomic import edit_folder, write_json
from onepass.contents import read_config
from onepass.encoder.batch import Batch
from onepass.engine.engine import FORMAT, Engine
from onepass.errors import ConfigError, FolderError
from onepass.folder import load_model
from onepass.inquiry import Pieces
from onepass.living import probe_batches
from onepass.loading import ENGINE
from onepass.methods import METHODS, Method
from onepass.model import Model

TOLERANCE = 1e-4
"""How far a logit of the engine may be from the model's"""


def export_model(source: str | Path) -> dict[str, Any]:
    """Write the engine of a model folder; returns what is known of it."""
    folder = Path(source).expanduser()
    config = read_config(folder)
    with edit_folder(folder) as edit:
        model = load_model(folder)
        recipe = {"format": FORMAT, "encoder": config["encoder"]["sha256"], "method": method_recipe(model)}
        difference = largest_difference(model, Engine(folder, recipe=recipe))
        if not difference <= TOLERANCE:  # also if it is NaN
            raise FolderError(
                f"The engine was not written: a logit of it differs from the model's by {difference:.3g}, more than "
                f"{TOLERANCE:g}."
            )
        edit.drop("engine/")
        (edit.draft / ENGINE).parent.mkdir()
        write_json(edit.draft / ENGINE, recipe)
    return {"folder": str(folder), "precision": "fp32", "tasks": len(model.tasks), "difference": difference}


def method_recipe(model: Model) -> dict[str, Any]:
    """What the engine has to do for the model's method."""
    if reading := [task.name for task, kind in zip(model.tasks, model.kinds, strict=True) if kind.reads_tokens]:
        raise ConfigError(
            f"There is no engine for tasks that read tokens: {', '.join(reading)}. The model answers without one: "
            "onepass predict, or onepass.load(FOLDER)."
        )
    recipe = model.method.engine_recipe()
    if recipe is None:
        possible = [name for name, method in METHODS.items() if method.engine_recipe is not Method.engine_recipe]
        raise ConfigError(
            f"There is no engine for method {model.choice.name!r}; there is one for {', '.join(possible)}. The model "
            "answers without one, too: onepass predict, or onepass.load(FOLDER)."
        )
    return recipe


def largest_difference(model: Model, engine: Engine) -> float:
    """How far the logits of a model and of its engine are apart at most, on probe texts."""
    numbers = list(range(len(model.tasks)))
    largest = 0.0
    for batch in probe_batches(model.tokenizer):
        pairs = zip(model.logits(batch, numbers), engine.logits_of(_pieces(batch), numbers), strict=True)
        for wanted, found in pairs:
            largest = float(np.maximum(largest, np.abs(wanted - found).max()))  # keeps a NaN
    return largest


def _pieces(batch: Batch) -> Any:
    ends = np.cumsum(batch.layout.lengths)[:-1]
    split = (np.split(part.numpy(), ends) for part in (batch.ids, batch.types))
    return [Pieces(ids.tolist(), types.tolist()) for ids, types in zip(*split, strict=True)]
