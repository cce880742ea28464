"""Batches of little padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onepass.engine.plan import MOST_TOKENS, batches, filled, laid_out, rounded


@given(st.lists(st.integers(1, 700), max_size=80))
def test_every_text_is_in_one_batch_and_no_batch_is_too_large(lengths: list[int]):
    found = batches(lengths)
    assert sorted(row for rows in found for row in rows.tolist()) == list(range(len(lengths)))
    for rows in found:
        assert len(rows) == 1 or sum(lengths[row] for row in rows) <= MOST_TOKENS


def test_texts_of_equal_length_are_computed_together():
    assert [len(rows) for rows in batches([128] * 8)] == [8]


def test_mixed_lengths_have_little_padding():
    lengths = np.exp(np.random.default_rng(0).uniform(np.log(8), np.log(256), 64)).astype(int)
    found = batches(lengths.tolist())
    assert sum(rounded(int(lengths[rows].sum())) for rows in found) / lengths.sum() < 1.03
    attended = sum(len(rows) * laid_out(int(lengths[rows].max())) ** 2 for rows in found)
    assert attended / (lengths**2).sum() < 1.3  # what attention sees of padding


def test_a_long_text_is_not_computed_beside_many_short_ones():
    assert sorted(len(rows) for rows in batches([2] * 200 + [500])) == [1, 200]


@given(st.integers(1, 2000))
def test_numbers_of_tokens_are_rounded_up_a_little_to_few_others(count: int):
    assert count <= rounded(count) < count + max(4, count / 4)
    assert len({rounded(number) for number in range(1, 1025)}) < 64


@given(st.integers(1, 1000))
def test_tasks_are_filled_up_a_little_to_few_numbers_of_them(count: int):
    asked = tuple(range(count))
    found = filled(asked, 1000)
    assert found[:count] == asked and set(found[count:]) <= {count - 1}
    assert len(found) <= count * 9 / 8 and len(found) == len(filled(found, 1000))
    assert len(filled(asked, count)) == count  # where all tasks are asked, none is computed twice
    assert len({len(filled(tuple(range(number)), 1000)) for number in range(1, 1001)}) <= 64
