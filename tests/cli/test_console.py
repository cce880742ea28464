"""What commands write."""

import json

import numpy as np
import pytest

from onepass.cli.console import show, table, whole_numbers, write_json
from onepass.errors import ConfigError


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    write_json(
        {"row": {"x": float("nan")}, "scores": (1.5, float("-inf"), np.float64("nan")), "labels": ["a", None, 2]}
    )
    written = capsys.readouterr().out
    found = json.loads(written, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert found == {"row": {"x": None}, "scores": [1.5, None, None], "labels": ["a", None, 2]}


@pytest.mark.parametrize("text", ["2,x", "", "2,,4", "0,2", "-1", "1.5", "²"])
def test_numbers_of_an_option_are_whole_and_above_0(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--counts is .*Possible: whole numbers from 1"):
        whole_numbers("counts", text)


def test_a_table_that_goes_to_a_file_keeps_all_its_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [f"task-{number}" for number in range(40)]
    made = table(*names)
    made.add_row(*(f"{number}.25" for number in range(40)))
    show(made)
    written = capsys.readouterr().out
    assert all(name in written for name in names)
    assert "39.25" in written and max(map(len, written.splitlines())) < 1000
