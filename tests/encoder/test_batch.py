import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from onepass.encoder.batch import SMALL, Batch, Layout


def test_a_layout_says_where_each_token_is():
    layout = Layout([2, 1, 3])
    assert layout.total == 6
    assert layout.starts.tolist() == [0, 2, 3]
    assert layout.rows.tolist() == [0, 0, 1, 2, 2, 2]
    assert layout.positions.tolist() == [0, 1, 0, 0, 1, 2]
    assert layout.boundaries.tolist() == [0, 2, 3, 6]


def test_a_group_by_hand():
    (group,) = Layout([3, 4]).groups
    assert group.rows.tolist() == [0, 1]  # one group has all in their own order
    assert group.size == 4
    assert group.tokens.tolist() == [[0, 1, 2, 0], [3, 4, 5, 6]]  # padding points at the row's first token
    assert group.mask is not None
    assert group.mask.tolist() == [[True, True, True, False], [True, True, True, True]]
    (unseen,) = Layout([3, 4]).unseen(torch.bfloat16)
    assert unseen is not None
    assert unseen.tolist() == [[[[0.0, 0.0, 0.0, -math.inf]]], [[[0.0, 0.0, 0.0, 0.0]]]]


def test_lengths_that_differ_much_are_in_different_groups():
    groups = Layout([128, 5, 100, 6]).groups
    assert [group.rows.tolist() for group in groups] == [[0, 2], [3, 1]]


def test_a_small_group_stays_open_where_launches_are_dear(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(SMALL, "cpu", 300)
    assert [group.rows.tolist() for group in Layout([128, 5, 100, 6]).groups] == [[0, 2, 3], [1]]


def test_equal_lengths_are_one_group_of_views():
    layout = Layout([3, 3])
    x = torch.randn(6, 2)
    (padded,) = layout.pad(x)
    assert padded.data_ptr() == x.data_ptr()
    assert layout.unpad([padded]).data_ptr() == x.data_ptr()
    assert layout.groups[0].mask is None


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_padding_and_unpadding_gives_the_tokens_back(lengths: list[int]):
    layout = Layout(lengths)
    x = torch.arange(layout.total * 2).reshape(-1, 2)
    padded = layout.pad(x)
    assert torch.equal(layout.unpad(padded), x)
    rows = torch.arange(len(lengths))
    assert torch.equal(layout.by_row(layout.by_group(rows)), rows)
    assert torch.equal(torch.cat(layout.by_group(rows)), torch.cat([group.rows for group in layout.groups]))
    assert sorted(row for group in layout.groups for row in group.rows.tolist()) == list(range(len(lengths)))
    for states, group in zip(padded, layout.groups, strict=True):
        assert torch.equal(states, x[group.tokens])
        assert min(lengths[row] for row in group.rows) >= 0.75 * group.size
        if group.mask is not None:
            assert group.mask.sum(1).tolist() == [lengths[row] for row in group.rows]


def test_a_batch_of_lists_and_of_arrays_is_the_same():
    lists = Batch.of([([5, 6, 7], [0, 0, 1]), ([8], [0])])
    arrays = Batch.of([(np.array([5, 6, 7], np.int32), np.array([0, 0, 1], np.int8)), (np.array([8]), np.array([0]))])
    assert lists.ids.tolist() == arrays.ids.tolist() == [5, 6, 7, 8]
    assert lists.types.tolist() == arrays.types.tolist() == [0, 0, 1, 0]
    assert lists.ids.dtype == arrays.ids.dtype == torch.long
    assert len(lists) == 2


def test_an_empty_batch_is_a_batch():
    batch = Batch.of([])
    assert len(batch) == 0
    assert batch.layout.total == 0
    assert batch.layout.groups == []


def test_a_sequence_without_tokens_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        Layout([3, 0])


def test_moving_to_the_same_device_changes_nothing():
    layout = Layout([3])
    assert layout.to("cpu") is layout
    assert Batch.of([([5], [0])]).to("cpu").ids.tolist() == [5]


def test_a_layout_on_a_device_has_its_tensors_there():
    layout = Layout([3, 1]).to("meta")
    assert {x.device.type for x in (layout.starts, layout.rows, layout.positions, layout.groups[0].tokens)} == {"meta"}
