"""Ranges of what goes into linear layers."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from onepass.engine.products import BY_ROW, IN_16, Range, product_by_row
from onepass.engine.ranges import LADDER, chosen, from_weights, joined, precision_of, to_weights
from onepass.engine.runtime import Program, parameter


def test_ranges_hold_what_was_seen_on_all_texts():
    first = {"up": Range(np.array([-1.0, 0.0]), np.array([1.0, 2.0]))}
    second = {"up": Range(np.array([-0.5, -3.0]), np.array([4.0, 0.0]))}
    found = joined([first, second])["up"]
    assert found.low.tolist() == [-1.0, -3.0] and found.high.tolist() == [4.0, 2.0]


def test_ranges_survive_a_file():
    ranges = {"layers.0.up": Range(np.array([-1.0, 0.0]), np.array([1.0, 2.0])), "b/readers": BY_ROW, "c": IN_16}
    found = from_weights(to_weights(ranges))
    assert found.keys() == ranges.keys() and found["b/readers"].by_row and found["c"].in_16
    assert not found["layers.0.up"].by_row and not found["layers.0.up"].in_16
    assert all(np.array_equal(found[place].high, ranges[place].high) for place in ranges)


def test_the_ladder_goes_from_fixed_ranges_to_16_bits_and_then_to_the_ranges_of_each_row():
    seen = {place: Range(-np.ones(3), np.ones(3)) for place in ("layers.0.qkv", "layers.1.down/readers")}
    fixed, in_16, by_row = (chosen(name, seen) for name in LADDER)
    assert fixed == seen
    assert by_row.keys() == in_16.keys() == seen.keys()
    assert all(own.by_row for own in by_row.values()) and all(own.in_16 for own in in_16.values())
    assert [precision_of(found) for found in (fixed, in_16, by_row, {})] == ["int8", "bf16", "int8", "fp32"]


TOO_LARGE = "from onepass.engine.ranges import multiplies_in_8; assert not multiplies_in_8()"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others have no such processors")
def test_products_of_8_bits_whose_sums_do_not_fit_are_noticed():
    """Without VNNI, probabilities of real models were wrong by up to 0.38."""
    subprocess.run([sys.executable, "-c", TOO_LARGE], env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}, check=True)


@pytest.fixture(scope="module", params=[False, True], ids=["beside 32 bits", "beside 16 bits"])
def products(request: pytest.FixtureRequest) -> tuple[np.ndarray, Program]:
    """A weight, and its product in 8 bits by row."""
    weight = np.random.default_rng(0).standard_normal((48, 256)).astype(np.float32)
    x = parameter("x", (-1, 256))
    return weight, Program([x], [product_by_row(x, weight)], 1, by_row=True, in_16=request.param)


def test_a_large_column_spoils_but_its_neighbours_in_a_row(products: tuple[np.ndarray, Program]):
    weight, product = products
    x = np.random.default_rng(1).standard_normal((50, 256)).astype(np.float32)
    assert 0 < np.abs(product({"x": x})[0] - x @ weight.T).mean() < 0.2  # of numbers of about 16
    x[:, 7] = 100
    step = np.abs(x).max(1, keepdims=True) / 127
    with_one_scale = np.abs((np.rint(x / step) * step - x) @ weight.T).mean()
    assert np.abs(product({"x": x})[0] - x @ weight.T).mean() < 0.6 * with_one_scale


def test_a_row_is_multiplied_alike_alone_and_beside_any_other(products: tuple[np.ndarray, Program]):
    _, product = products
    x = np.random.default_rng(2).standard_normal((9, 256)).astype(np.float32)
    alone = [product({"x": x[row : row + 1].copy()})[0].copy() for row in range(9)]
    x[4] *= 1e4
    among = product({"x": x})[0]
    for row in (0, 3, 5, 8):
        assert np.abs(among[row] - alone[row][0]).max() < 1e-4
