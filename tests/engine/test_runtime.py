"""Calling a compiled graph."""

import numpy as np

from onepass.engine.runtime import Program, opset13, parameter


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
