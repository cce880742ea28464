"""Parting a task's rows into training and validation."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onepass.data.examples import Examples
from onepass.errors import ConfigError


def split(examples: Examples, share: float, seed: int) -> tuple[Examples, Examples]:
    """Part the rows into training and validation; every label keeps its share as nearly as whole rows allow.

    The choice depends on the texts and the seed alone, not on the order of the rows, and rows with the same text stay
    together. Every label keeps a row for training. Labels are integer targets, or the columns of two-dimensional ones.
    Rows of a group are scored together, and so stay together too, unless their group is larger than the share.
    """
    if not 0 <= share < 1:
        raise ConfigError(f"validation: {share:g} is no share of the rows. Give a file, or a number from 0 to below 1.")
    hashes, text_of_row = np.unique(_inseparable(examples, share), return_inverse=True)
    ranks = _mixed(hashes, seed)
    chosen = np.zeros(len(hashes), np.bool_)  # texts that go to validation
    strata = sorted(_texts_by_label(examples.targets, text_of_row, len(hashes)), key=len)
    strata = [texts[np.argsort(ranks[texts])] for texts in strata]
    settled = np.zeros(len(hashes), np.bool_)
    # Rare labels choose first: a text with several labels is settled by its rarest, which has the least choice.
    for texts in strata:
        wanted = min(math.floor(share * len(texts) + 0.5), len(texts) - 1) - int(chosen[texts].sum())
        chosen[texts[~settled[texts]][: max(wanted, 0)]] = True
        settled[texts] = True
    _fill(chosen, strata, math.floor(share * len(hashes) + 0.5), share)
    for texts in strata:
        if chosen[texts].all():
            chosen[texts[-1]] = False
    in_validation = chosen[text_of_row]
    train, validation = (examples.take(np.flatnonzero(side)) for side in (~in_validation, in_validation))
    train.blank_rows.extend(examples.blank_rows)
    return train, validation


def _inseparable(examples: Examples, share: float) -> NDArray[np.uint64]:
    """Equal for rows that stay together: those of one text, of one group, or linked by rows of both.

    Of a part that is larger than the share only rows of one text are: whole, it would leave validation without a row,
    or take most of them there.
    """
    groups = [reading.group for reading in examples.readings or ()]
    if not any(groups):
        return examples.hashes
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    grouped = np.flatnonzero(np.array(groups) != "")
    texts, text = np.unique(examples.hashes, return_inverse=True)
    names, group = np.unique(groups, return_inverse=True)
    ends = text[grouped], len(texts) + group[grouped]
    links = coo_array((np.ones(len(grouped)), ends), shape=(len(texts) + len(names),) * 2)
    part = connected_components(links, directed=False)[1][text]  # of each row
    large = np.bincount(part)[part] > share * len(examples)
    least = np.full(part.max() + 1, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(least, part, examples.hashes)
    return np.where(large, examples.hashes, least[part])


def _fill(chosen: NDArray[np.bool_], strata: list[NDArray[np.int64]], total: int, share: float) -> None:
    """Choose one more text of labels that rounding left short, until validation has its share of the whole.

    Without this, 150 labels of 4 texts each would leave a validation share of 0.1 empty.
    """
    missing = [share * len(texts) - int(chosen[texts].sum()) for texts in strata]
    for index in sorted(range(len(strata)), key=lambda index: -missing[index]):
        if missing[index] <= 0 or int(chosen.sum()) >= total:
            break
        left = strata[index][~chosen[strata[index]]]
        if len(left) > 1:
            chosen[left[0]] = True


def _texts_by_label(targets: NDArray[Any], text_of_row: NDArray[np.int64], texts: int) -> list[NDArray[np.int64]]:
    """The distinct texts of each label; texts without any label stand together as one more."""
    if targets.ndim == 2:
        rows, labels = np.nonzero(targets)
    elif targets.ndim == 1 and np.issubdtype(targets.dtype, np.integer):
        rows, labels = np.arange(len(targets)), targets
    else:
        rows = labels = np.zeros(0, np.int64)
    # One number for each (label, text) sorts the pairs by label, many times faster than np.unique(axis=...).
    pairs = np.unique(labels.astype(np.int64) * texts + text_of_row[rows])
    label, text = np.divmod(pairs, max(texts, 1))
    groups = np.split(text, np.flatnonzero(np.diff(label)) + 1)
    unlabelled = np.ones(texts, np.bool_)
    unlabelled[text] = False
    return [group for group in (*groups, np.flatnonzero(unlabelled)) if len(group)]


def _mixed(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """The hashes mixed with the seed, so that another seed orders the texts differently (splitmix64)."""
    z = hashes + np.uint64(((seed + 1) * 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
