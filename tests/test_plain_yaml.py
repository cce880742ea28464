"""YAML without its surprises."""

import pytest

from onepass.plain_yaml import parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("2020-01-01", "2020-01-01"),
        ("1:30", "1:30"),
        ("007", "007"),
        ("1_000", 1000),
        ("-3", -3),
        ("2e-5", 2e-5),
        ("2.0e-5", 2e-5),
        (".5", 0.5),
        ("1.", 1.0),
        ("true", True),
        ("", None),
        ("~", None),
        ("null", None),
        ("[1, x, '2']", [1, "x", "2"]),
        ("{1: a, true: b, ~: c}", {"1": "a", "true": "b", "~": "c"}),
    ],
)
def test_plain_values_are_what_they_look_like(text, value):
    document = parse(text)
    assert document.faults == []
    assert document.value == value
    assert type(document.value) is type(value)


def test_every_key_has_its_line():
    assert parse("a: 1\nb:\n  c: 2\n").lines == {("a",): 1, ("b",): 2, ("b", "c"): 3}


def test_a_key_that_is_there_twice_is_a_fault_with_both_lines():
    faults = parse("a:\n  x: 1\n  y: 2\n  x: 3\n").faults
    assert faults == [(4, "a has 'x' twice, in line 2 and here. Keep one.")]


def test_values_can_stay_as_they_are_written():
    document = parse("labels: [1.50, true, ~]\nother: 1.50\n", as_written=lambda place: place[:1] == ("labels",))
    assert document.value == {"labels": ["1.50", "true", "~"], "other": 1.5}


def test_a_mapping_can_be_merged_into_another_without_being_a_duplicate():
    document = parse("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n")
    assert document.faults == []
    assert document.value["b"] == {"x": 3, "y": 2}


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: [1\nb: 2", 2, "not valid YAML"),
        ("a: 1\n\tb: 2", 2, "not valid YAML"),
        ("a:\n\tb: 2", 2, "Indent with spaces, not with tabs."),
        ("a: *nobody", 1, "undefined alias"),
        ("a: 1\n---\nb: 2", 2, "another document"),
        ("a: !!python/object/apply:os.system [ls]", 1, "tag"),
        ("a: !!timestamp x", 1, "tag"),
        ("a: !!int x", None, "not valid YAML"),
        ("a: !!bool x", None, "not valid YAML"),
        ("a: " + "9" * 5000, None, "not valid YAML"),
        ("a: 1\nb: \x07", 2, "character 0x7"),
        ('a: "\\ud800"', 1, "surrogate"),
        ("{[a]: 1}", 1, "cannot be a key"),
        ("a: " + "[" * 5000, None, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_a_fault(text, line, what):
    document = parse(text)
    assert document.value is None
    assert len(document.faults) == 1
    assert document.faults[0][0] == line
    assert what in document.faults[0][1]


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}"])
def test_a_value_that_holds_itself_ends(text):
    assert parse(text).faults == []


def test_aliases_of_aliases_are_not_written_out():
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert parse("l0: &l0 x\n" + levels).faults == []
