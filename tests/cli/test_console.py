"""What commands write."""

import json

import numpy as np
import pytest

from onepass.cli.console import write_json


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    write_json(
        {"row": {"x": float("nan")}, "scores": (1.5, float("-inf"), np.float64("nan")), "labels": ["a", None, 2]}
    )
    written = capsys.readouterr().out
    found = json.loads(written, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert found == {"row": {"x": None}, "scores": [1.5, None, None], "labels": ["a", None, 2]}
