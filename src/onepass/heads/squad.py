"""Exact match and F1 of answers, with SQuAD's normalisation.

Rajpurkar et al. 2016, arXiv:1606.05250: small letters, no punctuation, no articles, single spaces; of several right
answers the best counts. No answer is right where there is none to be had (arXiv:1806.03822).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_SIGNS = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """
    >>> normalised("The  Late-Goal, a!")
    'lategoal'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_SIGNS)).split())


def same(answer: str, wanted: str) -> float:
    return float(normalised(answer) == normalised(wanted))


def overlap(answer: str, wanted: str) -> float:
    """F1 of the words of an answer.

    >>> overlap("the red house", "a house")
    0.6666666666666666
    """
    one, other = normalised(answer).split(), normalised(wanted).split()
    if not one or not other:
        return float(one == other)
    common = sum((Counter(one) & Counter(other)).values())
    return 2 * common / (len(one) + len(other))


def _mean(measure: Callable[[str, str], float], answers: Sequence[str], wanted: Sequence[Sequence[str]]) -> float:
    """The mean over rows of the best over the right answers; '' is no answer."""
    best = [max(measure(answer, one) for one in right or [""]) for answer, right in zip(answers, wanted, strict=True)]
    return sum(best) / len(best) if best else 0.0


def exact_match(answers: Sequence[str], wanted: Sequence[Sequence[str]]) -> float:
    """The share of answers that are right to the letter, once normalised."""
    return _mean(same, answers, wanted)


def f1(answers: Sequence[str], wanted: Sequence[Sequence[str]]) -> float:
    """The mean F1 of the answers' words."""
    return _mean(overlap, answers, wanted)
