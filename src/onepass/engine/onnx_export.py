"""A model as one ONNX file, for programs that are not written in Python and for other runtimes.

From padded word pieces, as tokenizers give them, to the logits of every task: one pass, with the weights of all tasks
inside. In 32 bits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from onnx import ModelProto, helper, save_model

from onepass import __version__
from onepass.atomic import reason
from onepass.engine.engine import Engine
from onepass.engine.graph import FAR, TextNodes
from onepass.engine.nodes import constant, integer, integers
from onepass.engine.onnx_nodes import IR_VERSION, OPSET, Translation
from onepass.engine.runtime import Node, opset13, parameter
from onepass.errors import ConfigError, FolderError, first_of
from onepass.inquiry import Pieces

log = logging.getLogger(__name__)
LARGEST = 2**31 - 2**20
"""Bytes that one file of the format holds, and some to spare; larger weights lie in a second file beside it"""
PROBES, LONGEST_PROBE = 32, 24
METADATA = "onepass"
"""The entry of the file's metadata that says what its outputs mean"""


class PaddedText(TextNodes):
    """Texts as `transformers` has them, side by side and padded at their ends (B, S), laid out for the encoder."""

    def __init__(self, has_types: bool):
        given = [parameter(name, (-1, -1), np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")]
        input_ids, seen, types = given
        shape = opset13.shape_of(input_ids)
        one, zero, all_of_them = integer(1), integer(0), integers(1, -1)
        rows, columns = (opset13.gather(shape, integer(axis), zero) for axis in (0, 1))
        places = opset13.range(zero, opset13.multiply(rows, columns), one, "i64")
        positions = opset13.broadcast(opset13.range(zero, columns, one, "i64"), shape)
        self.ids = opset13.reshape(input_ids, all_of_them, False)
        self.types = opset13.reshape(types, all_of_them, False)
        self.positions = opset13.reshape(positions, all_of_them, False)
        # Padding is computed as if it were text; only attention passes over it.
        self.back = opset13.reshape(places, all_of_them, False)
        self.spread = opset13.convert(opset13.reshape(places, shape, False), "i32")
        unseen = opset13.subtract(constant(np.float32(1)), opset13.convert(seen, "f32"))
        self.mask = opset13.unsqueeze(opset13.multiply(unseen, constant(FAR)), integers(1, 2))
        self.inputs = given if has_types else given[:2]
        self._by_parts: dict[int, Node] = {}


def check_place(file: str | Path) -> Path:
    """Where a file is to be written, if it can be; known before the work is done."""
    path = Path(file).expanduser()
    if not path.parent.is_dir():
        raise FolderError(f"{path} cannot be written: there is no folder {path.parent}. Make it, or choose another.")
    if path.is_dir():
        raise FolderError(f"{path} is a folder. Name a file, such as {path / 'model.onnx'}.")
    return path


def export_onnx(source: str | Path, file: str | Path) -> dict[str, Any]:
    """Write a model folder that has an engine as an ONNX file, too; returns what is known of it.

    Tasks that read single tokens are left out: what their heads read depends on the words of each text.
    """
    path = check_place(file)
    engine = Engine(source)
    if engine.precision != "fp32":
        engine = Engine(source, recipe=engine.recipe)
    left_out = [task.name for task, kind in zip(engine.tasks, engine.kinds, strict=True) if kind.reads_tokens]
    asked = tuple(number for number, task in enumerate(engine.tasks) if task.name not in left_out)
    if not asked:
        raise ConfigError(
            "No ONNX file can be made of this model: all its tasks read single tokens of a text, and an output of such "
            "a file is one vector a text. onepass predict, serve and load answer them."
        )
    if left_out:
        log.warning("left out of %s, since they read single tokens of a text: %s", path, first_of(left_out))
    try:
        with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            draft = Path(folder) / path.name
            _save(model_of(engine, asked), draft)
            difference = largest_difference(draft, engine, asked)
            files = sorted(Path(folder).iterdir(), reverse=True)  # the weights before the graph that wants them
            for one in files:
                one.replace(path.with_name(one.name))
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {reason(error)}. Choose another output.") from error
    return {
        "files": [str(path.with_name(one.name)) for one in reversed(files)],
        "tasks": len(asked),
        "left_out": left_out,
        "difference": difference,
    }


def model_of(engine: Engine, asked: tuple[int, ...]) -> ModelProto:
    """The graph from padded word pieces to the logits of these tasks, each an output by the task's name."""
    runner, text = engine.runner, PaddedText(engine.runner.encoder.config.type_vocab > 1)
    _, vectors, _ = runner.build(text, tokens=False)
    _, vectors = runner.poolers.nodes(vectors)  # (K, B, H), or (1, B, H)
    shared = vectors.get_output_partial_shape(0)[0] == 1
    outputs = {}
    for place, number in enumerate(asked):
        own = runner.tasks[number]
        vector = opset13.gather(vectors, integer(0 if shared else place), integer(0))
        product = opset13.matmul(vector, constant(own["head.weight"]), False, True)
        outputs[engine.tasks[number].name] = opset13.add(product, constant(own["head.bias"]))
    graph = Translation(runner.choose(asked)).graph(text.inputs, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    made.producer_name, made.producer_version = "onepass", __version__
    helper.set_model_props(made, {METADATA: json.dumps(meaning(engine, asked), ensure_ascii=False)})
    return made


def meaning(engine: Engine, asked: Sequence[int]) -> dict[str, Any]:
    """What somebody has to know who asks the file: the longest text, and of each output what its numbers stand for."""
    said = {"kind", "text", "labels", "options", "fitted"}
    known = {engine.tasks[number].name: engine.tasks[number].model_dump(mode="json", include=said) for number in asked}
    return {"max_length": engine.tokenizer.max_length, "tasks": known}


def largest_difference(path: Path, engine: Engine, asked: tuple[int, ...]) -> float:
    """How far logits of the file are from the engine's at most, on probe texts; FolderError if that is too far."""
    from onnxruntime import InferenceSession

    session = InferenceSession(path, providers=["CPUExecutionProvider"])
    pieces = _probes(engine)
    longest = max(map(len, pieces))
    given = {
        name: np.zeros((len(pieces), longest), np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    for row, one in enumerate(pieces):
        for values, own in zip(given.values(), (one.ids, [1] * len(one), one.types), strict=True):
            values[row, : len(one)] = own
    found = session.run(None, {node.name: given[node.name] for node in session.get_inputs()})
    largest = 0.0
    for number, wanted, logits in zip(asked, engine.logits_of(pieces, asked), found, strict=True):
        difference, allowed = float(np.abs(logits - wanted).max()), engine.tolerances[number]
        if not difference <= allowed:  # also if it is NaN
            raise FolderError(
                f"The ONNX file was not written: a logit of it for task {engine.tasks[number].name!r} differs from the "
                f"engine's by {difference:.3g}, more than {allowed:.3g}."
            )
        largest = max(largest, difference)
    return largest


def _probes(engine: Engine) -> list[Pieces]:
    """Texts of drawn word pieces and many lengths, every other one a pair."""
    generator = np.random.default_rng(0)
    first, *rest = engine.tokenizer.encode([("",)])[0].ids
    longest = max(1, min(LONGEST_PROBE, engine.tokenizer.max_length) - 1 - len(rest))
    found = []
    for number in range(PROBES):
        words = generator.integers(0, engine.tokenizer.vocab_size, int(generator.integers(1, longest + 1))).tolist()
        ids = [first, *words, *rest]
        found.append(Pieces(ids, [int(number % 2 and place > len(ids) // 2) for place in range(len(ids))]))
    return found


def _save(made: ModelProto, path: Path) -> None:
    weights = sum(len(array.raw_data) for array in made.graph.initializer)
    if weights > LARGEST:
        save_model(made, path, save_as_external_data=True, location=f"{path.name}.data")
    else:
        save_model(made, path)
