"""How faults are told."""

from onepass.errors import listed, unknown


def test_the_faults_of_several_files_are_one_list():
    one, several = "a.csv: no text", listed(["b.csv, row 1: bad", "b.csv, row 2: worse"])
    assert listed([one]) == one and listed([several]) == several
    assert listed([one, several]) == "3 faults:\n  - a.csv: no text\n  - b.csv, row 1: bad\n  - b.csv, row 2: worse"


def test_a_list_that_belongs_to_a_name_stays_with_it():
    found = listed(["c.csv: " + listed(["x", "y"]), "z"])
    assert found == "2 faults:\n  - c.csv: 2 faults:\n  - x\n  - y\n  - z"


def test_of_very_many_names_the_nearest_and_some_are_told():
    found = unknown("task", "task-77x", [f"task-{number}" for number in range(1000)])
    assert "Did you mean 'task-77'" in found and found.endswith(" and 960 more.") and len(found) < 500
