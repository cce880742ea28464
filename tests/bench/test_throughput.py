"""Texts per second, on a tiny encoder."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from onepass.bench import onnx, throughput
from onepass.bench.engines import EncoderParts
from onepass.engine.runtime import usable_cores


def test_texts_have_as_many_pieces_as_was_asked_for(encoder: Path):
    parts = EncoderParts(str(encoder))
    texts = throughput.strings(parts, np.array([3, 10, 25]))
    assert [len(found) for found in parts.tokenizer.encode([(text,) for text in texts])] == [3, 10, 25]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A small workload, and torch's threads as they were."""
    monkeypatch.setitem(throughput.WORKLOADS, "equal", lambda generator: np.full(3, 12))
    monkeypatch.setattr(throughput, "SIDE", 64)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_all_contenders_are_compared_with_the_engine(encoder: Path):
    found = throughput.throughput(["equal"], tasks=2, rounds=1, threads=1, encoder=str(encoder))
    rows = {row["contender"]: row for row in found["rows"]}
    stock = [throughput.ONNX_RUNTIME]
    assert list(rows) == ["engine fp32", "engine int8", "2 models", "2 pipelines", "multi-head BertModel"] + (
        [] if found["missing"] else stock
    )
    assert list(found["missing"]) == (stock if onnx.missing() else [])
    assert rows["engine fp32"]["against_engine_fp32"] == 1.0
    assert rows["2 models"]["tokens_per_s"] == pytest.approx(12 * rows["2 models"]["texts_per_s"])
    assert set(found["peak"]) == {"fp32", "int8"} and found["padding"] == {"equal": 0.0}


def test_rivals_have_as_many_threads_as_the_engine(encoder: Path):
    torch.set_num_threads(usable_cores() + 1)  # as OMP_NUM_THREADS may tell torch, and not the engine
    found = throughput.throughput(["equal"], tasks=1, rounds=1, encoder=str(encoder))
    assert found["threads"] == torch.get_num_threads() == usable_cores()


def test_rivals_that_are_not_installed_are_named(encoder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(throughput.importlib.util, "find_spec", lambda name: None)
    found = throughput.throughput(["equal"], tasks=1, rounds=1, threads=1, encoder=str(encoder))
    assert [row["contender"] for row in found["rows"]] == ["engine fp32", "engine int8"]
    assert list(found["missing"]) == [throughput.TRANSFORMERS, throughput.ONNX_RUNTIME]


def test_mixed_lengths_are_set_against_equal_ones():
    rows = [
        {"workload": "equal", "contender": "a", "tokens_per_s": 10.0},
        {"workload": "mixed 8 to 256", "contender": "a", "tokens_per_s": 9.0},
        {"workload": "one", "contender": "a", "tokens_per_s": 1.0},
    ]
    assert throughput.mixed_against_equal(rows) == {"mixed 8 to 256": {"a": 0.9}}
