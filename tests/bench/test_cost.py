"""The cost of N tasks, on a tiny encoder."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onepass.bench.cost import MOST, PRECISIONS, cost, plot
from onepass.bench.engines import form_for
from onepass.cli.app import app
from onepass.errors import ConfigError


def test_every_method_has_a_row_for_every_number_of_tasks(encoder: Path, tmp_path: Path):
    found = cost([1, 9], texts=2, length=8, rounds=1, threads=1, encoder=str(encoder))
    assert found["threads"] == 1
    rows = {(row["method"], row["tasks"]): row for row in found["rows"]}
    assert set(rows) == {(method, n) for method in ("readers", "mtdnn", "mtop", "single") for n in (1, 9)}
    assert rows["readers", 9]["depth"] == 2 and rows["readers", 9]["runtime"] == "engine"
    assert all(row["ratio"] > 0 for row in rows.values()) and found["plain_ms"] > 0
    assert rows["readers", 9]["multiplications"] > rows["readers", 1]["multiplications"] > 0
    assert MOST["single"] < 9 and rows["single", 9]["extrapolated"]
    assert rows["single", 9]["ratio"] == pytest.approx(9 * rows["single", 1]["ratio"])
    plot(found, tmp_path / "cost.png")
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")


def test_what_a_plot_needs_is_there_or_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object, **__: object) -> None:
        assert (tmp_path / "plots").is_dir()
        raise ConfigError("measured")

    monkeypatch.setattr("onepass.bench.cost.cost", stop)
    given = ["bench", "cost", "--plot", str(tmp_path / "plots" / "cost.png")]
    assert "measured" in CliRunner().invoke(app, given).stderr
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "onepass[report]" in CliRunner().invoke(app, given).stderr


@pytest.mark.parametrize("precision", PRECISIONS)
def test_fewer_bits_are_measured_too(encoder: Path, precision: str):
    found = cost([200], ["readers"], texts=2, length=8, rounds=1, threads=1, encoder=str(encoder), precision=precision)
    assert found["rows"][0]["precision"] == precision and found["rows"][0]["readout"] == "attention"


def test_more_tasks_are_read_with_lighter_forms():
    forms = [form_for(count) for count in (8, 100, 1000)]
    assert [(form.depth, form.tokens, form.readout, form.pooler) for form in forms] == [
        (2, 2, "layer", "task"), (1, 1, "layer", "task"), (1, 1, "attention", "low_rank"),
    ]  # fmt: skip


def test_what_is_not_run_is_told(encoder: Path):
    found = cost([1, 101], ["mtop"], texts=2, length=8, rounds=1, threads=1, encoder=str(encoder))
    assert [row["tasks"] for row in found["rows"]] == [1]
    assert found["left_out"] == [{"method": "mtop", "tasks": 101}]
    for counts, methods in (([101, 300], ["mtop"]), ([8], [])):
        with pytest.raises(ConfigError, match="Nothing is left to measure"):
            cost(counts, methods, encoder=str(encoder))


def test_a_method_that_is_not_known_is_refused(encoder: Path):
    with pytest.raises(ConfigError, match="mtopp"):
        cost([1], ["mtopp"], encoder=str(encoder))
