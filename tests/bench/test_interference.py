"""What tasks do to each other, by hand."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onepass.bench.interference import find_transfer, judge, plan_transfer
from onepass.bench.runs import Run
from onepass.cli.app import app
from onepass.errors import ConfigError, OnepassError

# a gains and burdens nobody; b suffers; c gains and costs the others; d suffers and costs.
MEANS = {
    ("a",): {"a": 70.0}, ("b",): {"b": 83.0}, ("c",): {"c": 60.0}, ("d",): {"d": 55.0},
    ("a", "b", "c", "d"): {"a": 72.0, "b": 80.0, "c": 65.0, "d": 50.0},
    ("b", "c", "d"): {"b": 80.0, "c": 64.0, "d": 50.0},
    ("a", "c", "d"): {"a": 72.0, "c": 65.0, "d": 50.3},
    ("a", "b", "d"): {"a": 75.0, "b": 80.0, "d": 50.0},
    ("a", "b", "c"): {"a": 73.0, "b": 82.0, "c": 66.0},
}  # fmt: skip


def write_lines(output: Path, runs: list[Run]) -> None:
    """Results of finished runs: two tasks are two points better each for every other task in the mix, `tone` worse."""
    lines = []
    for run in runs:
        helped = 2.0 * (len(run.tasks) - 1) + run.seed
        scores = {name: 70.0 + (-helped if name == "tone" else helped) for name in run.tasks}
        known = {"key": run.key, "method": run.method, "seed": run.seed, "chosen": list(run.tasks), "tasks": scores}
        lines.append(json.dumps(known | {"average": 70.0}))
    output.write_text("\n".join(lines) + "\n")


def test_tasks_are_kept_isolated_or_dropped_by_what_they_have_and_cost() -> None:
    rows = {row["task"]: row for row in judge(MEANS, margin=0.5)}
    assert {name: row["advice"] for name, row in rows.items()} == {
        "a": "keep",
        "b": "isolate",
        "c": "isolate",
        "d": "drop",
    }
    assert rows["b"]["gain"] == pytest.approx(-3.0) and rows["b"]["burden"] == pytest.approx(0.1)
    assert rows["c"]["burden"] == pytest.approx(1.0) and rows["c"]["most_burdened"] == "a"
    assert {row["advice"] for row in judge(MEANS, margin=6.0)} == {"keep"}


def test_every_task_runs_alone_together_and_left_out(suite: Path) -> None:
    runs = plan_transfer(str(suite), "mtdnn", 2)
    assert [run.tasks for run in runs[:7]] == [
        ("topic", "tone", "same"), ("topic",), ("tone",), ("same",),
        ("tone", "same"), ("topic", "same"), ("topic", "tone"),
    ]  # fmt: skip
    assert len(runs) == 14 and len({run.key for run in runs}) == 14


def test_the_report_is_made_of_finished_runs_and_says_when_some_are_missing(suite: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    runs = plan_transfer(str(suite), "mtdnn", 2)
    write_lines(output, runs)
    rows = {row["task"]: row for row in find_transfer(str(suite), "mtdnn", seeds=2, output=output)["rows"]}
    assert rows["topic"]["gain"] == pytest.approx(4.0) and rows["tone"]["gain"] == pytest.approx(-4.0)
    assert rows["topic"]["burden"] == pytest.approx(0.0)  # `tone` has 2 more without it, `same` 2 less
    assert rows["tone"]["advice"] == "isolate"
    write_lines(output, runs[:8])  # of the second seed one run is there, which is compared with nothing
    found = find_transfer(str(suite), "mtdnn", seeds=2, output=output, progress=False, limit_s=0)
    assert (found["seeds"], found["done"], found["planned"]) == (1, 8, 14)
    assert {row["task"]: row["gain"] for row in found["rows"]} == {"topic": 4.0, "tone": -4.0, "same": 4.0}
    write_lines(output, runs[:3])
    with pytest.raises(OnepassError, match="3 of 14 runs are done"):
        find_transfer(str(suite), "mtdnn", seeds=2, output=output, progress=False, limit_s=0)


def test_one_task_has_nobody_to_suffer_from(suite: Path) -> None:
    text = suite.read_text()
    start = text.index("  tone:")
    suite.write_text(text[:start] + text[text.index("train: {epochs") :])
    with pytest.raises(ConfigError, match="has one task"):
        plan_transfer(str(suite), "readers", 1)


def test_the_command_prints_json(suite: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    write_lines(output, plan_transfer(str(suite), "readers", 1))
    arguments = ["bench", "transfer", "--suite", str(suite), "-o", str(output)]
    ran = CliRunner().invoke(app, [*arguments, "--json"])
    assert ran.exit_code == 0, ran.output
    assert [row["task"] for row in json.loads(ran.stdout)["rows"]] == ["same", "tone", "topic"]
    assert "give it a model of its own" in CliRunner().invoke(app, arguments, env={"COLUMNS": "160"}).output
