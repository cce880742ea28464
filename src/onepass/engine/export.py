"""Building the engine of a model folder. This needs the trained model, and so torch; what it writes does not."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onepass.atomic import edit_folder, read_json, write_json
from onepass.contents import decides, read_config
from onepass.encoder.batch import Batch
from onepass.engine.engine import Engine
from onepass.engine.gate import ENOUGH_ROWS, MOST_LOST, Verdict, failed, judge
from onepass.engine.opening import FORMAT
from onepass.engine.ranges import LADDER, Bounds, chosen, computed_here, joined, precision_of, to_weights
from onepass.engine.samples import Sample, labelled_rows, texts_of
from onepass.errors import ConfigError, FolderError, first_of
from onepass.folder import load_model
from onepass.inquiry import Pieces
from onepass.living.proof import probe_batches
from onepass.loading import ENGINE, GATE, RANGES
from onepass.methods import METHODS, Method
from onepass.model import Model

log = logging.getLogger(__name__)
MOST_TEXTS = 256
"""Texts on which the ranges of what goes into linear layers are found"""


def export_model(
    source: str | Path, *, int8: bool = False, file: str | Path | None = None, texts: str | Path | None = None
) -> dict[str, Any]:
    """Write the engine of a model folder; returns what is known of it.

    int8: compute in 8 bits what can be without a loss that the gate forbids. It is judged on the validation rows of
        the training, on those of a task file, or on the texts of a data file without labels.
    """
    folder = Path(source).expanduser()
    config = read_config(folder)
    with edit_folder(folder) as edit:
        model = load_model(folder)
        recipe = {"format": FORMAT, "encoder": config["encoder"]["sha256"], "method": method_recipe(model)}
        engine = Engine(folder, recipe=recipe)
        differences = largest_differences(model, engine)
        for name, difference, allowed in zip(model.names, differences, engine.tolerances, strict=True):
            if not difference <= allowed:  # also if it is NaN
                raise FolderError(
                    f"The engine was not written: a logit of it for task {name!r} differs from the model's by "
                    f"{difference:.3g}, more than {allowed:.3g}."
                )
        difference = max(differences)
        edit.drop("engine/")
        (edit.draft / ENGINE).parent.mkdir()
        write_json(edit.draft / ENGINE, recipe)
        found = {"folder": str(folder), "precision": "fp32", "tasks": len(model.tasks), "difference": difference}
        if int8:
            samples = texts_of(model, Path(texts)) if texts else labelled_rows(model, file)
            bounds, gate = choose_precision(folder, engine, samples)
            gate["difference"] = difference
            for name, verdict in gate["tasks"].items():
                verdict["weights"] = edit.before[f"tasks/{name}/weights.safetensors"]
                verdict["decides"] = decides(read_json(folder / "tasks" / name / "task.json"))
            write_json(edit.draft / GATE, gate)
            if bounds:
                _save(edit.draft / RANGES, to_weights(bounds))
            found |= {"precision": gate["precision"], "gate": gate}
    return found


def method_recipe(model: Model) -> dict[str, Any]:
    """What the engine has to do for the model's method."""
    recipe = model.method.engine_recipe()
    if recipe is None:
        possible = [name for name, method in METHODS.items() if method.engine_recipe is not Method.engine_recipe]
        raise ConfigError(
            f"There is no engine for method {model.choice.name!r}; there is one for {', '.join(possible)}. The model "
            "answers without one, too: onepass predict, or onepass.load(FOLDER)."
        )
    return recipe


def largest_differences(model: Model, engine: Engine) -> list[float]:
    """How far the logits of a model and of its engine are apart at most, on probe texts, for each task."""
    numbers = list(range(len(model.tasks)))
    largest = [0.0] * len(numbers)
    for batch in probe_batches(model.tokenizer):
        pairs = zip(model.logits(batch, numbers), engine.logits_of(_pieces(batch), numbers), strict=True)
        for task, (wanted, found) in enumerate(pairs):
            points = np.concatenate(found) if isinstance(found, list) else found
            largest[task] = float(np.maximum(largest[task], np.abs(wanted - points).max(initial=0.0)))  # keeps a NaN
    return largest


def _tell_of_few(verdicts: Mapping[str, Verdict]) -> None:
    """Warn of tasks that passed on so few rows that it says little."""
    if few := {name: verdict.rows for name, verdict in verdicts.items() if verdict.rows < ENOUGH_ROWS}:
        log.warning(
            "%d of %d tasks passed on %d to %d rows, which says little: of %d, one answer is the most that may change. "
            "Judge 8 bits on more rows (onepass export MODEL TASKS.YAML --int8), or on texts without labels "
            "(--calibrate FILE): %s",
            len(few), len(verdicts), min(few.values()), max(few.values()), ENOUGH_ROWS, first_of(list(few)),
        )  # fmt: skip


# --- 8 bits ---------------------------------------------------------------------------------------------------------


def choose_precision(folder: Path, engine: Engine, samples: Sequence[Sample]) -> tuple[Bounds, dict[str, Any]]:
    """The most that can be computed in 8 bits, or else in 16, so that every task passes, and what was tried."""
    share = -(-MOST_TEXTS // len(samples))
    seen = joined(engine.watch([piece for sample in samples for piece in sample.pieces(engine)[:share]]))
    before = [sample.outcome(engine) for sample in samples]
    tried: list[dict[str, Any]] = []
    for name in LADDER:
        bounds = chosen(name, seen)
        if not computed_here(bounds):
            continue  # what is judged here would not be what another processor computes
        careful = Engine(folder, recipe=engine.recipe, bounds=bounds)
        verdicts = {
            engine.tasks[sample.number].name: judge(old, sample.outcome(careful))
            for sample, old in zip(samples, before, strict=True)
        }
        known = {task: verdict.to_dict() for task, verdict in verdicts.items()}
        if not (lost := failed(verdicts)):
            _tell_of_few(verdicts)
            return bounds, {"precision": precision_of(bounds), "computed": name, "tasks": known, "tried": tried}
        for task, verdict in lost.items():
            log.info("in 8 bits %s: %s does not pass, %s", name, task, verdict)
        tried.append({"computed": name, "failed": {task: known[task] for task in lost}})
    if not tried:
        log.warning(
            "this processor has neither products of 8 bits nor of 16 (AVX-VNNI, AVX512-VNNI, AVX512-BF16 or AMX), so "
            "that nothing was tried. Export the model on one like those that will answer"
        )
    elif few := [verdict.rows for verdict in lost.values() if verdict.before is not None and verdict.one_answer]:
        log.warning(
            "%d of these tasks were judged on %d rows or fewer, where one answer is more than the %g points that may "
            "be lost. Judge 8 bits on more rows (onepass export MODEL TASKS.YAML --int8), or on texts without labels "
            "(--calibrate FILE)",
            len(few), max(few), MOST_LOST,
        )  # fmt: skip
    return {}, {"precision": "fp32", "computed": "nothing", "tasks": {}, "tried": tried}


def _pieces(batch: Batch) -> Any:
    ends = np.cumsum(batch.layout.lengths)[:-1]
    split = (np.split(part.numpy(), ends) for part in (batch.ids, batch.types))
    return [Pieces(ids.tolist(), types.tolist()) for ids, types in zip(*split, strict=True)]


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
    path.chmod(0o644)
