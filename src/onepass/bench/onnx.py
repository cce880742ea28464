"""Stock ONNX Runtime in 8 bits, as a rival: a BERT of its fused operators, quantised by its own dynamic quantisation.

The graph is what its optimiser makes of an exported BertModel (Attention, SkipLayerNormalization, BiasGelu), built here
directly from the weights. Scales are taken from the batch that is run.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onepass.encoder.config import EncoderConfig
from onepass.engine.weights import Weights

NEEDED = ("onnx", "onnxruntime")
OPSET, IR_VERSION = 17, 8
MICROSOFT = "com.microsoft"


def missing() -> list[str]:
    """The packages that are needed and not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def session(
    config: EncoderConfig, weights: Weights, heads: np.ndarray, threads: int | None = None, int8: bool = True
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """From padded ids and mask, both (B, M), to the logits (B, C) of `heads` (C, H) on the first state of each text."""
    import onnxruntime
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.onnx"
        path.write_bytes(_model(config, weights, heads).SerializeToString())
        if int8:
            small = Path(place) / "int8.onnx"
            # Shapes behind its own operators are unknown to the quantiser, which then wants the type to be said.
            kept = {"DefaultTensorType": TensorProto.FLOAT}
            quantize_dynamic(path, small, weight_type=QuantType.QInt8, extra_options=kept)
            path = small
        made = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        found: np.ndarray = made.run(None, {"ids": ids.astype(np.int64), "mask": mask.astype(np.int32)})[0]
        return found

    return run


def _model(config: EncoderConfig, weights: Weights, heads: np.ndarray) -> Any:
    if config.family != "bert":
        raise ValueError(f"the graph of ONNX Runtime is built for BERT, not for {config.family}")
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: dict[str, np.ndarray] = {}

    def put(name: str, array: np.ndarray) -> str:
        constants[name] = np.asarray(array, order="C")
        return name

    def node(kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{kind}{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], domain=domain, **attributes))
        return name

    def pair(name: str) -> tuple[str, str]:
        return put(f"{name}.weight", weights[f"{name}.weight"]), put(f"{name}.bias", weights[f"{name}.bias"])

    def product(x: str, name: str) -> str:
        return node("MatMul", x, put(f"{name}.weight", weights[f"{name}.weight"].T))

    def add_and_norm(x: str, residual: str, bias: str, norm: str) -> str:
        given = x, residual, *pair(norm), put(f"{bias}.bias", weights[f"{bias}.bias"])
        return node("SkipLayerNormalization", *given, domain=MICROSOFT, epsilon=config.norm_eps)

    length = node("Gather", node("Shape", "ids"), put("[1]", np.array([1])))  # (1,)
    positions = node("Slice", put("positions", weights["position_table.weight"]), put("[0]", np.array([0])), length)
    x = node("Add", node("Gather", put("words", weights["word_table.weight"]), "ids"), positions)
    x = node("Add", x, put("type", weights["type_table.weight"][0]))
    x = node("LayerNormalization", x, *pair("embedding_norm"), epsilon=config.norm_eps)
    for number in range(config.depth):
        layer = f"layers.{number}"
        qkv = (
            put(f"{layer}.qkv.weight", weights[f"{layer}.qkv.weight"].T),
            put(f"{layer}.qkv.bias", weights[f"{layer}.qkv.bias"]),
        )
        read = node("Attention", x, *qkv, "mask", domain=MICROSOFT, num_heads=config.heads)
        out = f"{layer}.attention_output"
        x = add_and_norm(product(read, out), x, out, f"{layer}.attention_norm")
        inner = node(
            "BiasGelu",
            product(x, f"{layer}.up"),
            put(f"{layer}.up.bias", weights[f"{layer}.up.bias"]),
            domain=MICROSOFT,
        )
        x = add_and_norm(product(inner, f"{layer}.down"), x, f"{layer}.down", f"{layer}.mlp_norm")
    first = node("Gather", x, put("0", np.array(0)), axis=1)  # (B, H)
    nodes.append(helper.make_node("MatMul", [first, put("heads", heads.T.astype(np.float32))], ["logits"]))
    graph = helper.make_graph(
        nodes,
        "bert",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["B", "M"]),
            helper.make_tensor_value_info("mask", TensorProto.INT32, ["B", "M"]),
        ],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["B", heads.shape[0]])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    domains = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=IR_VERSION)
