from collections.abc import Sequence
from typing import Any

import numpy as np

from onepass.data.examples import Examples, text_hash


def examples_of(texts: Sequence[str], targets: Any) -> Examples:
    """Examples whose row i has i % 5 + 1 tokens, all of them i."""
    lengths = np.arange(len(texts)) % 5 + 1
    return Examples(
        ids=np.repeat(np.arange(len(texts), dtype=np.int32), lengths),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        firsts=np.ones(len(texts), np.int32),
        targets=np.asarray(targets),
        rows=np.arange(1, len(texts) + 1),
        hashes=np.array([text_hash((text,)) for text in texts], np.uint64),
        cut=np.zeros(len(texts), np.bool_),
    )


def test_the_hash_ignores_case_and_white_space_but_not_where_a_pair_is_cut() -> None:
    assert text_hash(("Straße  AM\tMeer ",)) == text_hash(("strasse am meer",))
    assert text_hash(("a b", "c")) != text_hash(("a", "b c"))
    assert text_hash(("a", "b")) != text_hash(("a b",))
    assert 0 <= text_hash(("\ud800",)) < 2**64


def test_taken_rows_keep_their_tokens() -> None:
    examples = examples_of([f"text {i}" for i in range(20)], np.arange(20))
    part = examples.take(np.array([7, 3, 3, 19]))
    for place, row in enumerate([7, 3, 3, 19]):
        for ours, theirs in zip(part.sequence(place), examples.sequence(row), strict=True):
            assert ours.tolist() == theirs.tolist()
    assert part.targets.tolist() == [7, 3, 3, 19] and part.rows.tolist() == [8, 4, 4, 20]
    assert len(examples.take(np.zeros(0, np.int64))) == 0
