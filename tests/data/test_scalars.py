"""Values of Arrow that Python has no type for; tests/filejob/test_job.py has what becomes of them in files."""

from typing import Any

import pyarrow as pa
import pytest

from onepass.data.scalars import python_value, python_values


class WithPandas:
    """A time in nanoseconds where pandas is installed, which Arrow asks for it: of a time64 it drops the last three."""

    type, is_valid = pa.time64("ns"), True

    def as_py(self) -> None:
        pytest.fail("the nanoseconds are lost")

    def cast(self, kind: Any) -> pa.Scalar:
        return pa.scalar(1, self.type).cast(kind)


def test_nanoseconds_are_the_same_whether_pandas_is_installed_or_not() -> None:
    assert python_value(WithPandas()) == "00:00:00.000000001"


def test_nanoseconds_that_are_whole_microseconds_are_times_of_python() -> None:
    column = pa.array([2000, None], pa.duration("ns"))
    assert [str(value) for value in python_values(column)] == ["0:00:00.000002", "None"]
    assert {type(value).__module__ for value in python_values(column)} == {"datetime", "builtins"}
