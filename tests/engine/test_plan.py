"""Batches of little padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onepass.engine.plan import MOST_TOKENS, STEP, batches


@given(st.lists(st.integers(1, 700), max_size=80))
def test_every_text_is_in_one_batch_and_no_batch_is_too_large(lengths: list[int]):
    found = batches(lengths)
    assert sorted(row for rows in found for row in rows.tolist()) == list(range(len(lengths)))
    for rows in found:
        longest = max(lengths[row] for row in rows)
        assert len(rows) == 1 or len(rows) * longest <= MOST_TOKENS


def test_texts_of_equal_length_are_computed_together():
    assert [len(rows) for rows in batches([128] * 8)] == [8]


def test_mixed_lengths_have_little_padding():
    lengths = np.exp(np.random.default_rng(0).uniform(np.log(8), np.log(256), 64)).astype(int)
    padded = sum(len(rows) * -(-max(lengths[rows]) // STEP) * STEP for rows in batches(lengths.tolist()))
    assert padded / lengths.sum() < 1.1


def test_in_8_bits_a_batch_costs_more_padding_tokens():
    lengths = np.exp(np.random.default_rng(0).uniform(np.log(8), np.log(256), 64)).astype(int).tolist()
    assert len(batches(lengths, "int8")) < len(batches(lengths, "fp32"))
