"""Finding a word in a text."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher

LEAST_ALIKE, SAME_BEGINNING = 0.5, 0.2
MOST_PAIRS, SHORT = 50, 2000
"""Pairs of letters that are compared for each letter of a text, of a short one as if it had so many. All places of a
text can be looked at so for a word or a phrase of three; for a longer one those that are likeliest by their letters"""
# Frequent English words some of whose forms do not resemble them.
IRREGULAR = {
    "be": "am is are was were been being 's 're 'm",
    "do": "does did done doing",
    "go": "goes went gone going",
    "have": "has had having 've",
    "see": "sees saw seen",
    "take": "takes took taken taking",
    "tell": "tells told",
    "think": "thinks thought",
    "good": "better best",
    "bad": "worse worst",
}


def find_text(text: str, word: str, begin: int = 0) -> tuple[int, int] | None:
    """The characters of a word, case aside: as a word of its own if it is one, else inside another.

    >>> find_text("The bank of a riverbank.", "Bank"), find_text("riverbank", "bank"), find_text("river", "bank")
    ((4, 8), (5, 9), None)
    """
    for pattern in (rf"(?<!\w){re.escape(word)}(?!\w)", re.escape(word)):
        if match := re.compile(pattern, re.IGNORECASE).search(text, begin):
            return match.span()
    return None


def find_form(text: str, word: str, begin: int = 0, longest: int | None = None) -> tuple[int, int] | None:
    """The characters of a word or of its most similar form in a text.

    >>> find_form("The first tourists began to arrive.", "begin"), find_form("They went home", "drink")
    ((19, 24), None)
    >>> find_form("They went home", "go")
    (5, 9)
    """
    if found := find_text(text, word, begin):
        return found
    for other in IRREGULAR.get(word.lower(), "").split():
        if match := re.compile(rf"(?<!\w){re.escape(other)}(?!\w)", re.IGNORECASE).search(text, begin):
            return match.span()
    return _most_alike(text[:longest], word, begin)


def _most_alike(text: str, word: str, begin: int) -> tuple[int, int] | None:
    """The characters of the words that are most similar to a word, the first of several, if they are similar at all."""
    words = [match.span() for match in re.compile(r"\w+").finditer(text, begin)]
    parts = len(word.replace("-", " ").split())
    spans = [(start, words[min(place + parts, len(words)) - 1][1]) for place, (start, _) in enumerate(words)]
    first, word = word[:1].lower(), word.lower()
    letters, at_best = Counter(word).items(), []
    for start, end in spans:
        other = text[start:end].lower()
        common = sum([min(count, other.count(letter)) for letter, count in letters])  # in order they are not more
        at_best.append(2.0 * common / (len(word) + len(other)) + SAME_BEGINNING * (other[:1] == first))
    best, found, seen, pairs = LEAST_ALIKE, len(spans), set(), MOST_PAIRS * max(SHORT, len(text))
    for place in sorted(range(len(spans)), key=lambda place: -at_best[place]):
        if at_best[place] < best or pairs <= 0:
            break
        other = text[slice(*spans[place])].lower()
        if other in seen:
            continue
        seen.add(other)
        pairs -= len(word) * len(other)
        alike = SequenceMatcher(None, word, other).ratio() + SAME_BEGINNING * (other[:1] == first)
        if alike > best or (alike == best and place < found < len(spans)):
            best, found = alike, place
    return spans[found] if found < len(spans) else None
