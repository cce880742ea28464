"""A graph of the runtime in the terms of ONNX, node by node, so that what an encoder computes is written down once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, TensorProto, helper, numpy_helper

from onepass.engine.runtime import Node, ordered

OPSET, IR_VERSION = 20, 9
"""The first with `Gelu`; runtimes read it since the end of 2023"""
SAME = {
    "Abs": "Abs", "Add": "Add", "Divide": "Div", "Exp": "Exp", "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual", "Maximum": "Max", "Multiply": "Mul", "Range": "Range", "Relu": "Relu",
    "Select": "Where", "ShapeOf": "Shape", "Subtract": "Sub", "Tanh": "Tanh",
}  # fmt: skip
"""Operations that differ in nothing but their names"""
KINDS = {"f32": TensorProto.FLOAT, "i32": TensorProto.INT32, "i64": TensorProto.INT64}


class Translation:
    """What was translated so far. Names begin with a slash, which no task's does."""

    def __init__(self, given: Mapping[str, np.ndarray]):
        """`given`: what some inputs of the graph are always to be; these are no inputs of the translation."""
        self.given = given
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.lying: dict[tuple[Any, ...], str] = {}
        """Their names by where they lie in memory"""
        self.names: dict[tuple[str, int], str] = {}
        """Of each output of a node of the runtime, by the node's own name and the output's number"""

    def graph(self, inputs: Sequence[Node], outputs: Mapping[str, Node]) -> GraphProto:
        """The whole graph, with these inputs and outputs by their names."""
        for node in ordered(list(outputs.values())):
            self.add(node)
        for name, node in outputs.items():
            self.nodes.append(helper.make_node("Identity", [self.name_of(node.output(0))], [name]))
        used = {name for node in self.nodes for name in node.input}
        return helper.make_graph(
            self.nodes,
            "onepass",
            [helper.make_tensor_value_info(node.get_friendly_name(), *_axes(node)) for node in inputs],
            [helper.make_tensor_value_info(name, *_axes(node)) for name, node in outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items() if name in used],
        )

    def add(self, node: Node) -> None:
        kind = node.get_type_name()
        if kind == "Constant":
            self.names[node.get_name(), 0] = self.constant(node.data)
        elif kind == "Parameter":
            name = node.get_friendly_name()
            self.names[node.get_name(), 0] = self.constant(self.given[name]) if name in self.given else name
        else:
            given = [self.name_of(value) for value in node.input_values()]
            if kind in SAME:
                found = [self.put(SAME[kind], *given)]
            else:
                found = TRANSLATED[kind](self, node, given)
            for number, name in enumerate(found):
                self.names[node.get_name(), number] = name

    def name_of(self, value: Any) -> str:
        return self.names[value.get_node().get_name(), value.get_index()]

    def constant(self, array: np.ndarray) -> str:
        """Its name; one for all that lie in the same place, as weights do that the text and readers go through."""
        same = array.ctypes.data, array.shape, array.strides
        if same not in self.lying:
            self.lying[same] = name = f"/constant{len(self.lying)}"
            self.constants[name] = array
        return self.lying[same]

    def put(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A new node; the name of its first output."""
        names = [f"/{kind}{len(self.nodes)}" + (f"/{number}" if number else "") for number in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0]

    def turned(self, value: Any) -> str:
        """A value with its last two axes exchanged."""
        name = self.name_of(value)
        if name in self.constants:
            return self.constant(self.constants[name].swapaxes(-1, -2))
        axes = list(range(len(value.get_partial_shape())))
        return self.put("Transpose", name, perm=[*axes[:-2], axes[-1], axes[-2]])


def _product(to: Translation, node: Node, given: list[str]) -> list[str]:
    turned = node.get_attributes()
    return [
        to.put(
            "MatMul",
            *(
                to.turned(value) if turned[f"transpose_{side}"] else name
                for side, value, name in zip("ab", node.input_values(), given, strict=True)
            ),
        )
    ]


def _split(to: Translation, node: Node, given: list[str]) -> list[str]:
    parts = node.get_output_size()
    first = to.put("Split", given[0], outputs=parts, axis=_number(node, 1), num_outputs=parts)
    return [first, *(f"{first}/{number}" for number in range(1, parts))]


def _norm(to: Translation, node: Node, given: list[str]) -> list[str]:
    width = node.get_input_partial_shape(0)[-1].get_length()
    ones = to.constant(np.ones(width, np.float32))
    return [to.put("LayerNormalization", given[0], ones, axis=-1, epsilon=node.get_attributes()["eps"])]


def _reduced(kind: str) -> Callable[[Translation, Node, list[str]], list[str]]:
    return lambda to, node, given: [to.put(kind, *given, keepdims=int(node.get_attributes()["keep_dims"]))]


def _along(kind: str) -> Callable[[Translation, Node, list[str]], list[str]]:
    """With axes as a vector, which the runtime also takes as a number."""
    return lambda to, node, given: [to.put(kind, given[0], to.constant(np.array(_numbers(node, 1), np.int64)))]


def _gelu(to: Translation, node: Node, given: list[str]) -> list[str]:
    exact = node.get_attributes()["approximation_mode"] == "ERF"
    return [to.put("Gelu", given[0], approximate="none" if exact else "tanh")]


TRANSLATED: dict[str, Callable[[Translation, Node, list[str]], list[str]]] = {
    "Broadcast": lambda to, node, given: [to.put("Expand", *given)],
    "Concat": lambda to, node, given: [to.put("Concat", *given, axis=node.get_attributes()["axis"])],
    "Convert": lambda to, node, given: [to.put("Cast", given[0], to=KINDS[node.get_element_type().get_type_name()])],
    "Gather": lambda to, node, given: [to.put("Gather", *given[:2], axis=_number(node, 2))],
    "Gelu": _gelu,
    "MVN": _norm,
    "MatMul": _product,
    "ReduceMax": _reduced("ReduceMax"),
    "ReduceMean": _reduced("ReduceMean"),
    "ReduceSum": _reduced("ReduceSum"),
    # A zero in a shape is an axis that stays as it is; shapes without zeros mean the same either way.
    "Reshape": lambda to, node, given: [to.put("Reshape", *given)],
    "Softmax": lambda to, node, given: [to.put("Softmax", *given, axis=node.get_attributes()["axis"])],
    "Split": _split,
    "Squeeze": _along("Squeeze"),
    "Swish": lambda to, node, given: [to.put("Mul", given[0], to.put("Sigmoid", given[0]))],
    "Unsqueeze": _along("Unsqueeze"),
    "Transpose": lambda to, node, given: [to.put("Transpose", given[0], perm=_numbers(node, 1))],
}


def _numbers(node: Node, place: int) -> list[int]:
    """What an input of a node is that does not change."""
    return [int(number) for number in node.input_value(place).get_node().data.reshape(-1)]


def _number(node: Node, place: int) -> int:
    return _numbers(node, place)[0]


def _axes(node: Node) -> tuple[int, list[int | str]]:
    """The kind and the axes of a node's output; those of any size have names."""
    shape: list[int | str] = ["texts", "tokens"][: len(node.get_output_partial_shape(0))]  # type: ignore[assignment]
    for place, axis in enumerate(node.get_output_partial_shape(0)):
        if axis.is_static:
            shape[place] = axis.get_length()
    return KINDS[node.get_element_type().get_type_name()], shape
