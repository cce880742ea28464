from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepass.data.examples import Examples, text_hash
from onepass.data.items import Reading
from onepass.data.split import split
from onepass.errors import ConfigError


def examples_of(texts: Sequence[str], targets: Any) -> Examples:
    """Examples of one token a row."""
    count = len(texts)
    return Examples(
        ids=np.arange(count, dtype=np.int32),
        offsets=np.arange(count + 1),
        firsts=np.ones(count, np.int32),
        targets=np.asarray(targets),
        rows=np.arange(1, count + 1),
        hashes=np.array([text_hash((text,)) for text in texts], np.uint64),
        cut=np.zeros(count, np.bool_),
        blank_rows=[99],
    )


labelled_rows = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 4)), min_size=1, max_size=80)


@given(labelled_rows, st.floats(0, 0.99), st.integers(0, 3), st.randoms())
def test_a_split_loses_nothing_and_keeps_equal_texts_together(
    rows: list[tuple[int, int]], share: float, seed: int, random: Any
) -> None:
    def parts(rows: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        examples = examples_of([f"text {text}" for text, _ in rows], [label for _, label in rows])
        return [sorted(rows[number - 1] for number in part.rows) for part in split(examples, share, seed)]

    train, validation = parts(rows)
    assert sorted(train + validation) == sorted(rows)
    assert not {text for text, _ in train} & {text for text, _ in validation}
    assert {label for _, label in train} == {label for _, label in rows}
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert parts(shuffled) == [train, validation]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.floats(0.01, 0.9), st.integers(0, 3))
def test_every_label_gets_its_share_of_the_validation_rows(sizes: list[int], share: float, seed: int) -> None:
    targets = np.repeat(np.arange(len(sizes)), sizes)
    _, validation = split(examples_of([f"text {i}" for i in range(len(targets))], targets), share, seed)
    found = Counter(validation.targets.tolist())
    for label, size in enumerate(sizes):
        assert abs(found[label] - min(share * size, size - 1)) <= 1
        if size >= 2 and share * size >= 0.5:
            assert found[label] >= 1


def test_many_small_labels_still_give_a_validation_set() -> None:
    targets = np.repeat(np.arange(150), 4)
    train, validation = split(examples_of([f"text {i}" for i in range(600)], targets), 0.1, 0)
    assert len(validation) == 60
    assert max(Counter(validation.targets.tolist()).values()) == 1
    assert set(train.targets) == set(range(150))


def test_another_seed_gives_another_split_and_the_same_seed_the_same() -> None:
    examples = examples_of([f"text {i}" for i in range(200)], np.zeros(200, np.int64))
    first, again, other = (split(examples, 0.2, seed)[1].rows.tolist() for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == len(other) == 40


def test_numbers_are_split_without_labels() -> None:
    train, validation = split(examples_of([f"text {i}" for i in range(100)], np.linspace(0, 5, 100)), 0.1, 0)
    assert (len(train), len(validation)) == (90, 10)


@given(st.lists(st.sets(st.integers(0, 3)), min_size=1, max_size=40), st.floats(0, 0.9))
def test_every_label_of_many_stays_in_training(labels: list[set[int]], share: float) -> None:
    targets = np.zeros((len(labels), 4), np.bool_)
    for row, found in enumerate(labels):
        targets[row, list(found)] = True
    train, _ = split(examples_of([f"text {i}" for i in range(len(labels))], targets), share, 0)
    assert train.targets.any(0).tolist() == targets.any(0).tolist()


def test_a_rare_label_of_many_reaches_validation() -> None:
    targets = np.zeros((100, 2), np.bool_)
    targets[:, 0] = True
    targets[:8, 1] = True
    _, validation = split(examples_of([f"text {i}" for i in range(100)], targets), 0.1, 0)
    assert validation.targets.sum(0).tolist() == [10, 1]


def test_rows_of_a_group_stay_together_and_the_others_are_split_by_their_texts() -> None:
    texts, targets = [f"text {i}" for i in range(200)], np.arange(200) % 2
    groups = [f"question {i // 5}" for i in range(200)]
    examples = examples_of(texts, targets)
    grouped = replace(examples, readings=[Reading(group=group) for group in groups])
    train, validation = split(grouped, 0.1, 0)
    assert not {r.group for r in train.readings or ()} & {r.group for r in validation.readings or ()}
    assert len(validation) == 20 and len({r.group for r in validation.readings or ()}) == 4
    alone = replace(examples, readings=[Reading() for _ in groups])
    assert split(alone, 0.1, 0)[1].rows.tolist() == split(examples, 0.1, 0)[1].rows.tolist()


def test_a_text_of_two_groups_keeps_them_together() -> None:
    texts = [f"text {i // 2}" for i in range(160)]
    groups = [f"question {i % 40}" for i in range(160)]
    grouped = replace(examples_of(texts, np.arange(160) % 2), readings=[Reading(group=group) for group in groups])
    for seed in range(3):
        train, validation = split(grouped, 0.2, seed)
        assert len(validation) and not set(train.hashes) & set(validation.hashes)
        assert not {r.group for r in train.readings or ()} & {r.group for r in validation.readings or ()}


def test_groups_that_are_larger_than_the_share_are_split_by_their_texts() -> None:
    texts, targets = [f"text {i}" for i in range(100)], np.arange(100) % 2
    examples = examples_of(texts, targets)
    grouped = replace(examples, readings=[Reading(group="all")] * 100)
    assert split(grouped, 0.1, 0)[1].rows.tolist() == split(examples, 0.1, 0)[1].rows.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_beside_a_group_that_is_larger_than_the_share_the_others_stay_together(seed: int) -> None:
    texts = [f"text {i // 2}" for i in range(60)] + [f"answer {i}" for i in range(140)]
    groups = ["large"] * 60 + [f"small {i // 5}" for i in range(140)]
    grouped = replace(examples_of(texts, np.arange(200) % 2), readings=[Reading(group=group) for group in groups])
    train, validation = split(grouped, 0.2, seed)
    sides = [{r.group for r in side.readings or ()} for side in (train, validation)]
    assert sides[0] & sides[1] == {"large"} and len(sides[1]) > 1
    assert not set(train.hashes) & set(validation.hashes)


def test_blank_rows_stay_with_the_training_rows() -> None:
    train, validation = split(examples_of(["a", "b", "c"], [0, 0, 0]), 0.4, 0)
    assert (train.blank_rows, validation.blank_rows) == ([99], [])


@pytest.mark.parametrize("share", [-0.1, 1.0, 3.0, float("nan")])
def test_a_share_outside_zero_and_one_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="share"):
        split(examples_of(["a"], [0]), share, 0)


def test_the_same_text_is_mostly_on_the_same_side_in_two_tasks() -> None:
    texts = [f"text {i}" for i in range(400)]
    sides: dict[str, set[int]] = defaultdict(set)
    for targets in (np.arange(400) % 2, np.arange(400) % 3):
        validation = split(examples_of(texts, targets), 0.1, 0)[1]
        for row in validation.rows:
            sides[texts[row - 1]].add(len(np.unique(targets)))
    # Chance alone would put 4 of the 40 in both.
    assert sum(len(tasks) == 2 for tasks in sides.values()) > 25
