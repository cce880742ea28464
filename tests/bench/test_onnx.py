"""Stock ONNX Runtime as a rival: where it is installed, it computes what the encoder computes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from onepass.bench import onnx
from onepass.bench.engines import EncoderParts
from onepass.encoder.batch import Batch

LENGTHS = (5, 12, 9)


@pytest.mark.skipif(bool(onnx.missing()), reason="onnx and onnxruntime are not installed")
def test_the_graph_is_the_encoder(encoder: Path):
    parts = EncoderParts(str(encoder))
    pieces = parts.texts(LENGTHS)
    ids = np.zeros((len(LENGTHS), max(LENGTHS)), np.int64)
    mask = np.zeros_like(ids)
    for row, one in enumerate(pieces):
        ids[row, : len(one)], mask[row, : len(one)] = one.ids, 1
    heads = np.random.default_rng(0).standard_normal((4, parts.config.width), dtype=np.float32)
    batch = Batch.of([(one.ids, one.types) for one in pieces])
    with torch.inference_mode():
        first = parts.torch(batch)[batch.layout.starts].numpy()
    expected = first @ heads.T
    found = onnx.session(parts.config, parts.weights, heads, 1, int8=False)(ids, mask)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    rounded = onnx.session(parts.config, parts.weights, heads, 1)(ids, mask)
    assert 0 < np.abs(rounded - expected).max() < 1.0


def test_other_families_are_refused(encoder: Path):
    parts = EncoderParts(str(encoder))
    with pytest.raises(ValueError, match="not for roberta"):
        onnx._model(replace(parts.config, family="roberta"), parts.weights, np.zeros((2, parts.config.width)))
