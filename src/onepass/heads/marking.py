"""Finding a word in a text."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

LEAST_ALIKE = 0.5
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


def find_form(text: str, word: str, begin: int = 0) -> tuple[int, int] | None:
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
    parts = len(word.replace("-", " ").split())
    words = list(re.compile(r"\w+").finditer(text, begin))
    best, found = LEAST_ALIKE, None
    for place in range(len(words)):
        last = words[min(place + parts, len(words)) - 1]
        span = words[place].start(), last.end()
        other = text[slice(*span)].lower()
        alike = SequenceMatcher(None, word.lower(), other).ratio() + 0.2 * (other[:1] == word[:1].lower())
        if alike > best:
            best, found = alike, span
    return found
