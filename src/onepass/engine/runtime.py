"""The runtime that computes graphs: OpenVINO on the CPU. What else is taken from its package is taken from here."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

# With OpenVINO comes its converter of other formats, which takes longer to import than all the rest and is not needed.
# It is passed over if it cannot be imported, and can still be imported later.
CONVERTER = "openvino.tools.ovc"
hidden = {CONVERTER: None} if CONVERTER not in sys.modules else {}
sys.modules.update(hidden)  # type: ignore[arg-type]
try:
    from openvino import Core, Model, Node, Tensor, opset13
finally:
    for name in hidden:
        del sys.modules[name]

__all__ = ["Node", "Program", "opset13", "parameter", "start_threads", "usable_cores"]


GROUP = 32
"""Neighbouring numbers of a row that share a scale where a row is turned into 8 bits while it is computed"""
SMALL = 1 << 14
"""Bytes of an input that are sooner copied than told of"""


class Program:
    """A compiled graph: arrays by name in, arrays out. One call at a time."""

    def __init__(
        self,
        inputs: Sequence[Node],
        outputs: Sequence[Node],
        threads: int | None = None,
        *,
        by_row: bool = False,
        in_16: bool = False,
        most_shapes: int = 5000,
    ):
        """`by_row`: what goes into a product with weights of 8 bits is turned into 8 bits, too, each row by itself.

        `in_16`: 16 bits are enough for all else, where the processor computes in bfloat16 by itself. Not beside
        products by row: the runtime measures rows of 32 bits only, and multiplies four rows of 16 in another way than
        five, so that an answer would depend on the texts beside it.

        `most_shapes`: for so many shapes of inputs an operation stays prepared; 5,000 is the runtime's own choice.
        """
        in_16 = in_16 and not by_row and computes_in_16()
        options = {
            "INFERENCE_PRECISION_HINT": "bf16" if in_16 else "f32",  # or it would choose by itself
            "INFERENCE_NUM_THREADS": threads or usable_cores(),
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # two engines on one machine would be pinned to the same core
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP if by_row and multiplies_by_row() else 0,
            "CPU_RUNTIME_CACHE_CAPACITY": most_shapes,
        }
        model = Model([opset13.result(output) for output in outputs], list(inputs), "onepass")
        self._request = _core().compile_model(model, "CPU", options).create_infer_request()
        self._names = [node.get_friendly_name() for node in inputs]
        self._lying: dict[str, np.ndarray] = {}
        """The arrays that the runtime reads, by name; small ones are its own"""
        self._num_outputs = len(outputs)

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The outputs; the next call writes over them."""
        for place, name in enumerate(self._names):
            given, lying = arrays[name], self._lying.get(name)
            # The runtime reads an array where it lies. To tell it of another takes as long as some layers do with a
            # short text, so small arrays are written to where the last one lies.
            if given is lying:
                continue
            small = given.nbytes <= SMALL
            if small and lying is not None and lying.shape == given.shape:
                np.copyto(lying, given)
                continue
            self._lying[name] = given.copy() if small else given
            self._request.set_input_tensor(place, Tensor(self._lying[name], shared_memory=True))
        self._request.infer(share_outputs=True)
        return [self._request.get_output_tensor(place).data for place in range(self._num_outputs)]


def start_threads(threads: int) -> None:
    """Make the runtime start its threads now; later they would take the priority of whoever computes first."""
    square = parameter("square", (-1, -1))
    program = Program([square], [opset13.matmul(square, square, False, True)], threads)
    program({"square": np.zeros((256, 256), np.float32)})


def parameter(name: str, shape: Sequence[int], kind: Any = np.float32) -> Node:
    """An input of a graph; -1 is an axis of any size."""
    return opset13.parameter(list(shape), kind, name=name)


def ordered(outputs: Sequence[Node]) -> list[Node]:
    """All nodes that these outputs are computed from, each behind those that it reads."""
    found: dict[str, Node] = {}
    left = list(outputs)
    while left:
        node = left[-1]
        before = [value.get_node() for value in node.input_values()]
        missing = [other for other in before if other.get_name() not in found]
        left.extend(missing)
        if not missing:
            found[left.pop().get_name()] = node
    return list(found.values())


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def multiplies_by_row() -> bool:
    """Whether this processor is known to have fast products of rows in 8 bits; elsewhere rows stay in 32."""
    return "avx512_vnni" in _features()


def computes_in_16() -> bool:
    """Whether this processor is known to compute in bfloat16 by itself; one that has to imitate it is slower."""
    return bool({"avx512_bf16", "amx_bf16"} & _features())


@cache
def _features() -> frozenset[str]:
    """What the processor is known to have.

    Where oneDNN is told to leave out a part of it, the runtime counts on it all the same, and breaks: then nothing.
    """
    if {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"} & os.environ.keys():
        return frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").split())


@cache
def _core() -> Core:
    return Core()
