"""Ranges of what goes into linear layers."""

from itertools import pairwise

import numpy as np

from onepass.engine.graph import Range
from onepass.engine.ranges import LADDER, from_weights, joined, to_weights


def test_ranges_hold_what_was_seen_on_all_texts():
    first = {"up": Range(np.array([-1.0, 0.0]), np.array([1.0, 2.0]))}
    second = {"up": Range(np.array([-0.5, -3.0]), np.array([4.0, 0.0]))}
    found = joined([first, second])["up"]
    assert found.low.tolist() == [-1.0, -3.0] and found.high.tolist() == [4.0, 2.0]


def test_ranges_survive_a_file():
    ranges = {"layers.0.up": Range(np.array([-1.0]), np.array([1.0])), "b/readers": Range(np.zeros(2), np.ones(2))}
    found = from_weights(to_weights(ranges))
    assert found.keys() == ranges.keys()
    assert all(np.array_equal(found[place].high, ranges[place].high) for place in ranges)


def test_each_step_of_the_ladder_leaves_more_in_32_bits():
    places = ["layers.0.qkv", "layers.0.down", "layers.1.up/readers", "layers.1.down/readers"]
    chosen = [{place for place in places if wanted(place)} for wanted in LADDER.values()]
    assert chosen[0] == set(places)
    assert all(later < earlier for earlier, later in pairwise(chosen))
