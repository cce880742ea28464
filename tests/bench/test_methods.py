"""The table over methods, and what a run leaves when it is cut short."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from onepass.bench.accuracy import one_recipe, plan, summarise
from onepass.bench.lines import read_lines
from onepass.bench.methods import compare, cost_and_time
from onepass.bench.runs import Run, read_suite, run_all, run_once
from onepass.bench.subsets import leave_one_out, task_scaling
from onepass.cli.app import app
from onepass.errors import ConfigError, OnepassError


def line(run: Run, **scores: float) -> str:
    """What a finished run leaves."""
    known = {"key": run.key, "suite": "tasks", "method": run.method, "seed": run.seed, "seconds": 1.0}
    return json.dumps(known | {"average": sum(scores.values()) / len(scores), "tasks": scores}) + "\n"


def test_cost_and_time_of_a_method_are_those_of_the_suites_tasks(suite: Path) -> None:
    found = cost_and_time(Run(str(suite), "single", 0), tokens=16)
    assert (found["tasks"], found["passes"]) == (3, 3)
    assert found["time"] > 0
    assert found["ratio"] == pytest.approx(3, abs=0.1)


def test_the_table_has_accuracy_and_cost_of_every_method_from_runs_that_are_done(suite: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    runs = plan(str(suite), ["mtdnn", "single"], 2, ["train.teachers=0"])
    output.write_text("".join(line(run, topic=80.0 + run.seed, tone=60.0, same=70.0) for run in runs))
    found = compare(str(suite), ["mtdnn", "single"], seeds=2, output=output, tokens=16)
    assert (found["done"], found["planned"]) == (4, 4)
    row = found["rows"][0]
    assert row["mean"] == pytest.approx(70 + 1 / 6)
    assert {"std", "passes", "parameters", "parameters_per_task", "multiplications", "ratio", "time"} <= row.keys()
    assert row["difference"] == 0.0


def test_no_method_has_teachers_unless_all_may_have_them(suite: Path) -> None:
    assert one_recipe(str(suite), ["train.epochs=2"]) == ["train.epochs=2", "train.teachers=0"]
    assert one_recipe(str(suite), ["train.teachers=2"]) == ["train.teachers=2"]


def test_a_suite_with_groups_is_for_methods_that_have_them(suite: Path, tmp_path: Path) -> None:
    text = suite.read_text()
    suite.write_text(text.replace("    text: text\n", "    text: text\n    group: news\n"))
    assert one_recipe(str(suite), []) == ["train.teachers=0"]
    assert compare(str(suite), ["readers"], seeds=0, output=tmp_path / "lines.jsonl", tokens=16)["rows"]


def test_texts_too_long_for_the_encoder_are_told_of_before_anything_trains(suite: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--tokens is 65, but .* has positions for 64 tokens"):
        compare(str(suite), ["mtdnn"], seeds=1, output=tmp_path / "lines.jsonl", tokens=65)
    assert not (tmp_path / "lines.jsonl").exists()


def test_without_seeds_nothing_is_trained_and_the_cost_remains(suite: Path, tmp_path: Path) -> None:
    found = compare(str(suite), ["mtdnn"], seeds=0, output=tmp_path / "lines.jsonl", tokens=16)
    assert found["rows"][0]["passes"] == 1
    assert (found["done"], found["planned"]) == (0, 0)
    assert not (tmp_path / "lines.jsonl").exists()


def test_faults_of_any_method_are_said_before_anything_trains(suite: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="depth"):
        compare(str(suite), ["mtdnn", "camtl:depth=2"], seeds=1, output=tmp_path / "lines.jsonl")
    assert not (tmp_path / "lines.jsonl").exists()


def test_a_limit_stops_the_runs_and_the_lines_there_are_count(suite: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    runs = plan(str(suite), ["mtdnn"], 2, [])
    output.write_text(line(runs[0], topic=80.0))
    lines = run_all(runs, output, progress=False, limit_s=0)
    assert [found["seed"] for found in lines] == [0]
    with pytest.raises(OnepassError, match="No run is done yet"):
        summarise([])


def test_a_run_leaves_its_scores_and_can_be_told_where_to_keep_checkpoints(suite: Path, tmp_path: Path) -> None:
    run = Run(str(suite), "frozen", 1, ("train.batch_size=4",), ("topic", "same"), trust=True)
    found = run_once(run, tmp_path / "kept")
    assert (found["key"], found["seed"], found["chosen"]) == (run.key, 1, ["topic", "same"])
    assert found["average"] == pytest.approx(sum(found["tasks"].values()) / 2)
    assert [row["task"] for row in found["trust"]["rows"]] == ["topic", "same"]
    (row,) = summarise([found])["rows"]
    assert row["trust"] == [found["trust"]["mean"]] and row["trust"][0]["target"] == 0.9


@pytest.mark.slow
def test_a_failing_run_does_not_stop_the_others(suite: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    overrides = ("train.evaluate_every=1",)
    runs = [Run(str(suite), "nonsense", 0, overrides), Run(str(suite), "frozen", 0, overrides)]
    with pytest.raises(OnepassError, match="nonsense, seed 0 failed"):
        run_all(runs, output, jobs=1, progress=False)
    (done,) = read_lines(output)
    assert done["method"] == "frozen"
    assert set(done["tasks"]) == {"topic", "tone", "same"}
    assert list((tmp_path / ".lines").iterdir()) == []  # nothing is left of a run that is done


def test_a_run_on_some_of_the_tasks_has_a_key_of_its_own(suite: Path) -> None:
    whole, part = Run(str(suite), "mtdnn", 0), Run(str(suite), "mtdnn", 0, (), ("topic", "same"))
    assert whole.key != part.key
    assert list(read_suite(part).tasks) == ["topic", "same"]
    with pytest.raises(ConfigError, match=r"Unknown task 'topik'\. Did you mean 'topic'"):
        read_suite(Run(str(suite), "mtdnn", 0, (), ("topik",)))


def test_scaling_scores_the_first_tasks_in_every_training(suite: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    recipe = ("train.teachers=0",)
    one, all_three = (Run(str(suite), "mtdnn", 0, recipe, tasks) for tasks in (("topic",), ("topic", "tone", "same")))
    output.write_text(line(one, topic=80.0) + line(all_three, topic=82.0, tone=60.0, same=50.0))
    found = task_scaling(str(suite), ["mtdnn"], [1, 3], output=output)
    assert [(row["tasks"], row["first"], row["all"]) for row in found["rows"]] == [(1, 80.0, 80.0), (3, 82.0, 64.0)]
    with pytest.raises(ConfigError, match="from 1 to 3"):
        task_scaling(str(suite), ["mtdnn"], [4], output=output)


@pytest.mark.parametrize("command", [["scaling", "--methods", "mtdnn mtdnn", "--counts", "3,1,3"], ["affinity"]])
def test_of_a_bench_on_parts_of_a_suite_that_was_stopped_whole_seeds_count(
    suite: Path, tmp_path: Path, command: list[str]
) -> None:
    output, names = tmp_path / "lines.jsonl", ("topic", "tone", "same")
    arguments = ["bench", *command, "--suite", str(suite), "--limit", "0", "-o", str(output), "train.teachers=0"]

    def run(*more: str) -> Any:
        return CliRunner().invoke(app, [*arguments, *more])

    stopped = run()
    assert stopped.exit_code == 2
    assert "0 of" in stopped.stderr and "Run the same command again" in stopped.stderr
    parts = {1: [("topic",), names], 0: [(), *(tuple(n for n in names if n != name) for name in names)]}
    for part in parts[command[0] == "scaling"]:
        trained = Run(str(suite), "mtdnn", 0, ("train.teachers=0",), part)
        with output.open("a") as file:
            file.write(line(trained, **dict.fromkeys(part or names, 80.0)))
    with output.open("a") as file:  # the second seed has one run
        file.write(line(Run(str(suite), "mtdnn", 1, ("train.teachers=0",), parts[1][0]), topic=60.0))
    found = json.loads(run("--seeds", "2", "--json").stdout)
    assert found["seeds"] == 1 and found["planned"] == 2 * len(parts[command[0] == "scaling"])
    if command[0] == "scaling":
        assert [(row["tasks"], row["first"]) for row in found["rows"]] == [(1, 80.0), (3, 80.0)]


def test_leaving_a_task_out_says_what_it_gave_the_others(suite: Path, tmp_path: Path) -> None:
    output, names = tmp_path / "lines.jsonl", ["topic", "tone", "same"]
    scores = dict.fromkeys(names, 80.0)
    lines = [line(Run(str(suite), "mtdnn", 0), **scores)]
    for left, name in enumerate(names):
        rest = tuple(other for other in names if other != name)
        lines.append(line(Run(str(suite), "mtdnn", 0, (), rest), **dict.fromkeys(rest, 80.0 - left)))
    output.write_text("".join(lines))
    assert leave_one_out(str(suite), "mtdnn", output=output)["gains"]["same"] == {"topic": 2.0, "tone": 2.0}


def test_the_command_prints_one_row_a_method(suite: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    runs = plan(str(suite), ["mtdnn", "frozen"], 1, ["train.teachers=0"])
    output.write_text("".join(line(run, topic=80.0, tone=60.0, same=70.0) for run in runs))
    arguments = ["bench", "methods", "--suite", str(suite), "--methods", "mtdnn frozen", "--seeds", "1"]
    result = CliRunner().invoke(app, [*arguments, "--tokens", "16", "-o", str(output), "--json"])
    assert result.exit_code == 0, result.output
    assert [row["method"] for row in json.loads(result.stdout)["rows"]] == ["mtdnn", "frozen"]
    shown = CliRunner().invoke(app, [*arguments, "--tokens", "16", "-o", str(output)]).stdout
    assert "2 of 2 runs" in shown
    assert "frozen" in shown
