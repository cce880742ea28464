"""Cutting a long text into windows that overlap, at the borders of words where there are some."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepass.data.items import Windows


def cut(text: str, pieces: NDArray[np.int64], room: int, windows: Windows) -> list[tuple[int, int]]:
    """The characters of each window: at most `room` of the text's pieces, whose characters (n, 2) are given.

    >>> pieces = np.array([(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)])
    >>> cut("a b c d e", pieces, 3, Windows(most=3, overlap=0.34))
    [(0, 5), (3, 9)]
    """
    count = len(pieces)
    starts_word = np.array([start == 0 or text[start - 1].isspace() for start in pieces[:, 0].tolist()], np.bool_)
    starts_word &= np.diff(pieces[:, 0], prepend=-1) > 0  # some tokenizers begin a word with a piece of no letter
    found: list[tuple[int, int]] = []
    first = last = 0
    while len(found) < windows.most:
        # With the space before it a word makes the same tokens again.
        begin, end = min(int(pieces[first - 1, 1]), int(pieces[first, 0])) if first else 0, first + room
        if end >= count:
            found.append((begin, len(text)))
            break
        end = _border(starts_word, end, least=max(first + room // 2, last))
        found.append((begin, int(pieces[end - 1, 1])))
        again = end - (room - windows.step(room))
        # Not so far back that the next window would end where this one does.
        least = max(again - room // 2, first, end - room)
        first, last = (_border(starts_word, again, least) if again > least else end), end
    return found


def _border(starts_word: NDArray[np.bool_], place: int, least: int) -> int:
    """The last place up to `place`, and not before `least`, at which a word begins; else `place`."""
    for candidate in range(place, max(least, 0), -1):
        if starts_word[candidate]:
            return candidate
    return place


def without_spaces(pieces: NDArray[Any], text: str) -> NDArray[Any]:
    """The characters (n, 2) of pieces without the space that some tokenizers count to the word behind it.

    >>> without_spaces(np.array([(0, 1), (1, 4)]), "a bc").tolist()
    [[0, 1], [2, 4]]
    """
    solid = np.append(np.flatnonzero([not character.isspace() for character in text]), len(text))
    begins = solid[np.searchsorted(solid, pieces[:, 0])].astype(pieces.dtype)
    return np.stack([np.minimum(begins, pieces[:, 1]), pieces[:, 1]], 1)


def owners(words: NDArray[np.int32], windows: list[tuple[int, int]]) -> NDArray[np.int32]:
    """For each word (M, 2) the window in which it has the most text around it, -1 if no window holds it.

    >>> owners(np.array([(0, 1), (4, 5), (8, 9)], np.int32), [(0, 5), (4, 9)]).tolist()
    [0, 0, 1]
    """
    best = np.full(len(words), -1, np.int32)
    most = np.full(len(words), -1, np.int64)
    for number, (start, end) in enumerate(windows):
        before = words[:, 0] - start if number else np.full(len(words), 2**31)  # nothing was cut off before the first
        after = end - words[:, 1] if number < len(windows) - 1 else np.full(len(words), 2**31)
        around = np.minimum(before, after)
        inside = (words[:, 0] >= start) & (words[:, 1] <= end) & (around > most)
        best[inside], most[inside] = number, around[inside]
    return best
