from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onepass.data.samplers import SAMPLERS, make_sampler
from onepass.errors import ConfigError

sizes_of_tasks = st.lists(st.integers(0, 500_000) | st.integers(0, 5), min_size=1, max_size=60)
GLUE = [8_551, 67_349, 3_668, 5_749, 363_846, 392_702, 104_743, 2_490]


@pytest.mark.parametrize("name", SAMPLERS)
@given(sizes=sizes_of_tasks, epoch=st.integers(0, 4))
def test_counts_sum_to_the_rows_and_forget_no_task(name: str, sizes: list[int], epoch: int) -> None:
    counts = make_sampler(name).counts(sizes, epoch, 5)
    assert sum(counts) == sum(sizes)
    assert all(type(count) is int for count in counts)
    assert all((count >= 1) == (size > 0) and count >= 0 for count, size in zip(counts, sizes, strict=True))


@pytest.mark.parametrize("name", SAMPLERS)
@given(sizes=st.lists(st.integers(1, 10_000), min_size=1, max_size=20), epoch=st.integers(0, 4))
def test_larger_tasks_never_get_fewer_rows(name: str, sizes: list[int], epoch: int) -> None:
    counts = make_sampler(name).counts(sorted(sizes), epoch, 5)
    # Equal remainders are settled by place, which may turn two neighbours around by one row.
    assert all(later >= earlier - 1 for earlier, later in pairwise(counts))


@given(sizes=sizes_of_tasks)
def test_proportional_gives_every_task_its_own_rows(sizes: list[int]) -> None:
    assert make_sampler("proportional").counts(sizes, 0, 1) == sizes


def test_uniform_gives_every_task_the_same() -> None:
    assert make_sampler("uniform").counts([1000, 100, 10, 0], 0, 1) == [370, 370, 370, 0]
    assert make_sampler("uniform").counts([3, 1, 1, 0, 3], 0, 1) == [2, 2, 2, 0, 2]
    assert make_sampler("uniform").counts([4, 1], 0, 1) == [3, 2]


def test_square_root_by_hand() -> None:
    assert make_sampler("square_root").counts([900, 100], 0, 1) == [750, 250]


def test_annealed_goes_from_proportional_to_nearly_uniform() -> None:
    annealed = make_sampler("annealed")
    assert annealed.counts(GLUE, 0, 5) == GLUE
    # alpha = 1 - 0.8 * 4 / 4 = 0.2 in the last epoch
    shares = [size**0.2 for size in GLUE]
    for count, share in zip(annealed.counts(GLUE, 4, 5), shares, strict=True):
        assert abs(count - share / sum(shares) * sum(GLUE)) < 1
    smallest = [annealed.counts(GLUE, epoch, 5)[-1] for epoch in range(5)]
    assert smallest == sorted(set(smallest))


def test_annealed_in_a_single_epoch_is_proportional() -> None:
    assert make_sampler("annealed").counts(GLUE, 0, 1) == GLUE


def test_annealed_with_a_drop_of_one_ends_in_uniform() -> None:
    assert make_sampler("annealed", drop=1).counts([30, 10], 2, 3) == [20, 20]


def test_no_rows_at_all_give_no_counts() -> None:
    assert make_sampler("uniform").counts([0, 0], 0, 1) == [0, 0]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("anealed", {}, "Unknown sampler 'anealed'. Did you mean 'annealed'?"),
        ("annealed", {"dorp": 1}, "Unknown option of sampler 'annealed' 'dorp'. Did you mean 'drop'? Known: drop."),
        ("uniform", {"alpha": 1}, "Sampler 'uniform' has no options. Found: alpha."),
        ("annealed", {"drop": 2}, "'drop' of sampler 'annealed' is 2. Give a number from 0 to 1."),
        ("annealed", {"drop": "much"}, "'drop' of sampler 'annealed' is 'much'."),
    ],
)
def test_wrong_names_and_options_say_what_is_possible(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        make_sampler(name, **options)
    assert message in str(error.value)


# --- uncertainty ----------------------------------------------------------------------------------------------------


def test_the_paper_wants_the_rows_that_are_least_sure() -> None:
    sampler = make_sampler("uncertainty", score="paper")
    tasks, entropies = np.array([0, 0, 1, 1]), np.array([0.2, 0.9, 0.5, 0.6])
    assert sampler.choose(tasks, entropies).tolist() == [1, 3, 2, 0]


def test_the_code_favours_tasks_that_are_unsure_as_a_whole() -> None:
    sampler = make_sampler("uncertainty")
    tasks, entropies = np.array([0, 0, 1, 1]), np.array([0.0, 0.8, 0.7, 0.7])
    # Means 0.4 and 0.7: the row with 0.8 counts 0.8 * 0.4 / 0.7.
    assert sampler.scores(tasks, entropies).tolist() == pytest.approx([0.0, 0.8 * 0.4 / 0.7, 0.7, 0.7])
    assert sampler.choose(tasks, entropies).tolist() == [2, 3, 1, 0]


def test_a_task_without_entropies_is_chosen_as_often_as_an_average_one() -> None:
    sampler = make_sampler("uncertainty", score="paper")
    generator = np.random.default_rng(0)
    tasks = np.repeat([0, 1, 2], 100)
    entropies = generator.random(300)
    entropies[tasks == 1] = 0.0
    chosen = tasks[sampler.choose(tasks, entropies)[:90]]
    assert np.bincount(chosen)[1] == pytest.approx(30, abs=3)


def test_where_nothing_is_known_all_tasks_take_turns() -> None:
    tasks = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    chosen = make_sampler("uncertainty").choose(tasks, np.zeros(9))[:3]
    assert sorted(tasks[chosen].tolist()) == [0, 1, 2]


def test_the_loss_is_the_mean_over_tasks_of_their_means() -> None:
    tasks = np.array([0, 0, 0, 2])
    by_task, by_row = make_sampler("uncertainty"), make_sampler("uncertainty", loss="rows")
    losses = np.array([1.0, 2.0, 3.0, 8.0])
    assert (by_task.weights(tasks) * losses).mean() == pytest.approx((2.0 + 8.0) / 2)
    assert by_row.weights(tasks).tolist() == [1.0] * 4


@pytest.mark.parametrize("options", [{"score": "best"}, {"loss": "sum"}, {"candidates": 1}, {"candidates": 2.5}])
def test_impossible_options_of_uncertainty_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ConfigError, match=f"Option '{name}' of sampler 'uncertainty'"):
        make_sampler("uncertainty", **options)
