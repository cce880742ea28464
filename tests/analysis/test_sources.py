"""Choosing among subsets of sources."""

from onepass.analysis.sources import Removal, Subset

FOUND = Removal(
    [
        Subset((), 80.0, 70.0),
        Subset(("a",), 82.0, 71.0),
        Subset(("b",), 79.0, 75.0),
        Subset(("a", "b"), 82.0, 76.0),
    ]
)


def test_the_chosen_subset_is_best_on_validation_and_the_smallest_change_among_equals() -> None:
    assert FOUND.chosen(0).removed == ()
    assert FOUND.chosen(1).removed == ("a",)
    assert FOUND.chosen(2).removed == ("a",)


def test_the_oracle_is_best_on_test() -> None:
    assert FOUND.all_sources().test == 70.0
    assert FOUND.oracle(1).removed == ("b",)
    assert FOUND.oracle(2).test == 76.0
