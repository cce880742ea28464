"""Cutting long texts."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onepass.data.items import Windows
from onepass.data.windows import cut, owners


def pieces_of(text: str) -> np.ndarray:
    """One piece for every two letters of a word."""
    found, place = [], 0
    for word in text.split(" "):
        found += [(place + i, min(place + i + 2, place + len(word))) for i in range(0, len(word), 2)]
        place += len(word) + 1
    return np.array(found, np.int64).reshape(-1, 2)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(4, 20), st.floats(0, 0.6), st.integers(1, 100))
def test_windows_hold_all_of_a_text_in_order_and_fit(lengths: list[int], room: int, overlap: float, most: int) -> None:
    text = " ".join("x" * length for length in lengths)
    pieces = pieces_of(text)
    windows = cut(text, pieces, room, Windows(most, overlap))
    assert len(windows) <= most
    assert windows[0][0] == 0
    for start, end in windows:
        assert 0 < ((pieces[:, 0] >= start) & (pieces[:, 1] <= end)).sum() <= room
    for (_, end), (start, later) in pairwise(windows):
        assert text[end:start].strip() == "" and later > end  # nothing is left out, every window goes on
    if most == 100:
        assert windows[-1][1] == len(text)


def test_windows_end_and_begin_where_words_do() -> None:
    text = "aaaa bbbb cccc dddd eeee ffff"
    assert [text[a:b].strip() for a, b in cut(text, pieces_of(text), 5, Windows(9, 0.2))] == [
        "aaaa bbbb",
        "bbbb cccc",
        "cccc dddd",
        "dddd eeee",
        "eeee ffff",
    ]


def test_a_word_belongs_to_the_window_that_shows_most_around_it() -> None:
    words = np.array([(0, 2), (10, 12), (16, 18), (28, 30), (50, 52)], np.int32)
    assert owners(words, [(0, 20), (8, 30)]).tolist() == [0, 0, 1, 1, -1]
