"""Counting operations."""

import numpy as np
import pytest

from onepass.bench.work import log_uniform, operations, reading_operations
from onepass.encoder.config import EncoderConfig

MINILM = EncoderConfig(family="bert", vocab_size=10, width=384, depth=6, heads=12, ffn_width=1536, max_positions=512)


def test_operations_are_counted_as_in_the_papers():
    assert operations(MINILM, [128] * 8) == pytest.approx(22.9e9, rel=0.01)  # all-MiniLM-L6-v2


@pytest.mark.parametrize(("tasks", "depth", "tokens", "ratio"), [(8, 2, 2, 0.90), (100, 1, 1, 0.97)])
def test_readers_cost_about_a_plain_pass(tasks: int, depth: int, tokens: int, ratio: float):
    found = reading_operations(MINILM, [128], tasks, depth, tokens) / operations(MINILM, [128])
    assert found == pytest.approx(ratio, abs=0.01)


def test_what_a_light_form_leaves_out_is_not_counted():
    """By hand, in products of width x width: the text 5 * 12 * 128 + 2 * 128, its attention 5 * 2 * 128 * 128 / 384.

    A reader has its attention (2 * 128 / 384) and what comes behind it (1), and no feed-forward part; its pooler is two
    products of width x 16. A plain pass is 6 * 12 * 128 and its attention.
    """
    text, plain = 7936 + 426.7, 9216 + 512
    found = reading_operations(MINILM, [128], 1000, 1, 1, "attention", 16) / operations(MINILM, [128])
    assert found == pytest.approx((text + 1000 * (0.667 + 1 + 2 * 16 / 384)) / plain, rel=1e-3)


def test_mixed_lengths_lie_between_the_bounds():
    lengths = log_uniform(np.random.default_rng(0), 8, 512, 1000)
    assert lengths.min() >= 8 and lengths.max() < 512
    assert np.median(lengths) == pytest.approx(64, rel=0.2)
