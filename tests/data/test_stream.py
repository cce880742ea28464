import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepass.data.samplers import make_sampler
from onepass.data.stream import RowStream, sorted_batches, token_batches
from onepass.errors import TrainingError

sizes_of_tasks = st.lists(st.integers(0, 12), min_size=1, max_size=5)
seeds = st.integers(0, 2**40)


def pairs(order: np.ndarray) -> list[tuple[int, int]]:
    return [(task, row) for task, row in order.tolist()]


@given(sizes_of_tasks, seeds)
def test_proportional_gives_every_row_exactly_once_an_epoch(sizes: list[int], seed: int) -> None:
    stream, sampler = RowStream(sizes, seed), make_sampler("proportional")
    every = [(task, row) for task, size in enumerate(sizes) for row in range(size)]
    for epoch in range(3):
        order = stream.epoch_order(sampler.counts(sizes, epoch, 3), epoch)
        assert sorted(pairs(order)) == every


@given(st.integers(1, 10), st.lists(st.integers(0, 25), max_size=6), seeds)
def test_no_row_comes_again_before_all_others_came(size: int, takes: list[int], seed: int) -> None:
    stream = RowStream([size], seed)
    rows = np.concatenate([np.zeros(0, int), *(stream.take(0, count) for count in takes)])
    assert len(rows) == sum(takes)
    for start in range(0, len(rows), size):
        assert len(set(rows[start : start + size])) == len(rows[start : start + size])


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), seeds, st.data())
def test_a_restored_stream_goes_on_identically(sizes: list[int], seed: int, data: st.DataObject) -> None:
    counts = st.lists(st.integers(0, 20), min_size=len(sizes), max_size=len(sizes))
    stream = RowStream(sizes, seed)
    for epoch in range(data.draw(st.integers(0, 3))):
        stream.epoch_order(data.draw(counts), epoch)
    restored = RowStream(sizes, seed)
    restored.restore(json.loads(json.dumps(stream.state())))
    for epoch in range(3, 5):
        drawn = data.draw(counts)
        assert pairs(stream.epoch_order(drawn, epoch)) == pairs(restored.epoch_order(drawn, epoch))
    assert stream.state() == restored.state()


def test_a_later_change_of_the_stream_does_not_change_its_state() -> None:
    stream = RowStream([5], 0)
    state = stream.state()
    stream.take(0, 3)
    assert state["positions"] == [0]


@pytest.mark.parametrize(("sizes", "seed", "what"), [([5, 4], 0, "sizes"), ([5, 3], 1, "seed")])
def test_a_state_of_other_rows_is_refused(sizes: list[int], seed: int, what: str) -> None:
    with pytest.raises(TrainingError, match=f"{what} .* changed"):
        RowStream(sizes, seed).restore(RowStream([5, 3], 0).state())


def test_tasks_rounds_epochs_and_seeds_are_shuffled_differently() -> None:
    stream = RowStream([50, 50], 0)
    draws = [stream.take(task, 50).tolist() for task in (0, 1, 0, 1)] + [RowStream([50], 1).take(0, 50).tolist()]
    assert len({tuple(draw) for draw in draws}) == len(draws)
    tasks = [tuple(RowStream([50, 50], 0).epoch_order([50, 50], epoch)[:, 0]) for epoch in range(3)]
    assert len(set(tasks)) == 3


def test_tasks_are_mixed_over_the_epoch() -> None:
    order = RowStream([900, 100], 0).epoch_order([900, 100], 0)
    small = Counter((np.flatnonzero(order[:, 0] == 1) // 250).tolist())
    assert min(small[quarter] for quarter in range(4)) > 10


def test_rows_of_a_task_without_rows_cannot_be_taken() -> None:
    stream = RowStream([0, 2], 0)
    assert stream.epoch_order([0, 2], 0).shape == (2, 2)
    with pytest.raises(ValueError, match="no rows"):
        stream.take(0, 1)


lengths_of_tasks = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=20), min_size=1, max_size=4)


@given(lengths_of_tasks, st.integers(1, 8), st.integers(1, 60), seeds)
def test_batches_keep_to_their_rows_and_tokens_and_to_the_order(
    lengths: list[list[int]], max_rows: int, max_tokens: int, seed: int
) -> None:
    sizes = [len(task) for task in lengths]
    order = RowStream(sizes, seed).epoch_order(sizes, 0)
    batches = list(token_batches(order, lengths, max_rows, max_tokens))
    assert [pair for batch in batches for pair in batch] == pairs(order)
    for batch, following in zip(batches, [*batches[1:], None], strict=True):
        tokens = sum(lengths[task][row] for task, row in batch)
        assert len(batch) == 1 or (len(batch) <= max_rows and tokens <= max_tokens)
        if following:  # a batch is closed only when the next row does not fit
            task, row = following[0]
            assert len(batch) == max_rows or tokens + lengths[task][row] > max_tokens


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 8), st.integers(1, 60))
def test_sorted_batches_hold_every_row_once_from_the_longest_down(
    lengths: list[int], max_rows: int, max_tokens: int
) -> None:
    batches = list(sorted_batches(lengths, max_rows, max_tokens))
    flat = [row for batch in batches for row in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[row] for row in flat] == sorted(lengths, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or (len(batch) <= max_rows and sum(lengths[row] for row in batch) <= max_tokens)


def test_a_row_longer_than_the_limit_is_a_batch_of_its_own() -> None:
    batches = list(token_batches([(0, 0), (0, 1), (0, 2)], [[3, 50, 4]], max_rows=8, max_tokens=10))
    assert batches == [[(0, 0)], [(0, 1)], [(0, 2)]]


def test_an_empty_order_has_no_batches() -> None:
    assert list(token_batches([], [], 4, 4)) == list(sorted_batches([], 4, 4)) == []


@pytest.mark.parametrize(("rows", "tokens"), [(0, 5), (5, 0)])
def test_a_batch_without_room_is_refused(rows: int, tokens: int) -> None:
    with pytest.raises(ValueError, match="room"):
        list(token_batches([(0, 0)], [[1]], rows, tokens))
