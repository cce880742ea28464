"""Marked parts of a text as tools for annotation write them: where each begins and ends, and its label."""

from collections.abc import Iterable, Sequence
from typing import Any

Span = tuple[int, int, str]
_KEYS = (("start", "end"), ("start_offset", "end_offset"))


def spans_in(cell: Any) -> list[Span] | None:
    """The spans of a cell; None if it holds something else.

    >>> spans_in([[0, 4, "place"], {"start": 9, "end": 12, "labels": ["time"]}])
    [(0, 4, 'place'), (9, 12, 'time')]
    """
    if not isinstance(cell, (list, tuple)):
        return None
    found = [_span(item) for item in cell]
    return None if None in found else [span for span in found if span is not None]


def _span(item: Any) -> Span | None:
    if isinstance(item, dict):  # of Prodigy and Argilla, of doccano, of Label Studio
        keys = next((keys for keys in _KEYS if keys[0] in item), _KEYS[0])
        labels = item.get("labels", [item.get("label")])
        item = [item.get(keys[0]), item.get(keys[1]), *(labels if isinstance(labels, list) else [labels])]
    if not isinstance(item, (list, tuple)) or len(item) != 3:
        return None
    start, end, label = item
    right = type(start) is int and type(end) is int and isinstance(label, str) and label.strip()
    return (start, end, label.strip()) if right else None


def tags_of(spans: Iterable[Span], words: Sequence[tuple[int, int]], outside: str) -> list[str]:
    """A tag for each word, of which the characters are given; ValueError if spans do not fit to the words.

    >>> tags_of([(0, 8, "place")], [(0, 3), (4, 8), (9, 11)], "O")
    ['B-place', 'I-place', 'O']
    """
    tags = [outside] * len(words)
    for start, end, label in spans:
        inside = [place for place, (first, last) in enumerate(words) if first < end and start < last]
        if not inside:
            raise ValueError(f"has the span [{start}, {end}, {label!r}], in which no word stands.")
        if any(tags[place] != outside for place in inside):
            raise ValueError(f"has the span [{start}, {end}, {label!r}], which shares a word with another one.")
        tags[inside[0]] = f"B-{label}"
        for place in inside[1:]:
            tags[place] = f"I-{label}"
    return tags
