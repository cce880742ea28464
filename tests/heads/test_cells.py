"""Cells that hold a list."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepass.heads.cells import written_list

texts = st.one_of(st.text(max_size=6), st.text(st.sampled_from("'\"\\,[]nx \n"), max_size=6))
numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(st.one_of(texts, numbers, st.none(), st.booleans()), max_size=5))
def test_a_list_that_python_wrote_is_read_back(cells: list[Any]) -> None:
    assert repr(written_list(str(cells))) == repr(cells)


@pytest.mark.parametrize(
    "cell", ["['a', 'b' 'c']", "['a''b']", "[nan, 'a']", "[a]", "['a'", "[AP] 'late'", f"[{'-' * 100_000}1]"]
)
def test_what_is_no_list_stays_a_text(cell: str) -> None:
    assert written_list(cell) is None
