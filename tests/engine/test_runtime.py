"""Calling a compiled graph."""

import os
import subprocess
import sys

import numpy as np

from onepass.engine.nodes import constant
from onepass.engine.runtime import SMALL, Program, computes_in_16, opset13, parameter


def sum_of_two() -> Program:
    first, second = parameter("first", (-1, 2)), parameter("second", (1, 2))
    return Program([first, second], [opset13.add(first, second)], threads=1)


def test_a_graph_takes_arrays_of_any_length_one_after_another():
    program = sum_of_two()
    second = np.array([[10, 20]], np.float32)
    for rows in (1, 3, 2):
        first = np.ones((rows, 2), np.float32)
        assert program({"first": first, "second": second})[0].tolist() == [[11, 21]] * rows


def test_an_array_that_is_given_again_counts_with_what_is_in_it_now():
    program = sum_of_two()
    first, second = np.ones((1, 2), np.float32), np.ones((1, 2), np.float32)
    assert program({"first": first, "second": second})[0].tolist() == [[2, 2]]
    first[:] = 5
    assert program({"first": first, "second": second})[0].tolist() == [[6, 6]]
    assert program({"first": first, "second": np.zeros((1, 2), np.float32)})[0].tolist() == [[5, 5]]


def test_small_and_large_arrays_may_take_turns():
    program = sum_of_two()
    second = np.zeros((1, 2), np.float32)
    kept = []
    for number, rows in enumerate((1, SMALL, 1, 1, SMALL, SMALL, 3)):
        first = np.full((rows, 2), number, np.float32)
        kept.append(first)
        assert (program({"first": first, "second": second})[0] == number).all()
    assert [float(first.min()) for first in kept] == list(range(7)), "what is given is never written to"


def test_16_bits_are_used_only_where_they_are_enough():
    x = parameter("x", (-1, 64))
    given = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    product = opset13.matmul(x, constant(given), False, True)
    exact = given @ given.T
    error = {in_16: np.abs(Program([x], [product], 1, in_16=in_16)({"x": given})[0] - exact).max() for in_16 in (0, 1)}
    assert error[0] < 1e-4
    assert 1e-3 < error[1] < 1 if computes_in_16() else error[1] < 1e-4


LIMITED = """
import numpy as np
from onepass.engine.products import product_by_row
from onepass.engine.runtime import Program, parameter
weight, rows = np.ones((4, 128), np.float32), np.ones((3, 128), np.float32)
x = parameter("x", (-1, 128))
found = Program([x], [product_by_row(x, weight)], 1, by_row=True, in_16=True)({"x": rows})[0]
assert found.shape == (3, 4) and abs(found - 128).max() < 1, found
"""


def test_products_by_row_are_right_on_a_processor_that_does_not_have_them():
    subprocess.run([sys.executable, "-c", LIMITED], env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"}, check=True)
