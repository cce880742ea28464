"""Tables of papers: every configuration can be run, and its figures stand beside ours."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onepass.analysis.cost import untrained_model
from onepass.bench.paper import (
    beside,
    figures_of,
    is_of_a_task,
    make_run,
    order_of,
    repeat,
    with_means,
)
from onepass.bench.runs import Run, run_once
from onepass.bench.table import Table, read_table
from onepass.bench.transfer import TransferRun, run_transfer
from onepass.cli.app import app
from onepass.encoder.loading import load_encoder
from onepass.errors import ConfigError

RECIPE = ("train.teachers=0",)  # what is added unless someone asks for teachers
CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "papers").glob("*.yaml"))


def write(path: Path, **changes: object) -> Path:
    """A small table, with some keys changed."""
    rows = [
        {"name": "first", "method": "mtdnn", "paper": {"average": 80.0}},
        {"name": "second", "method": {"name": "mtop", "stop_gradient": False}, "paper": {"average": 82.5}},
        {"name": "not here", "paper": {"average": 81.0}},
    ]
    path.write_text(json.dumps({"title": "A table", "paper": "arXiv:0", "rows": rows} | changes))
    return path


def line(run: Run, **found: object) -> str:
    return json.dumps({"key": run.key, "suite": "tasks", "method": run.method, "seed": run.seed, **found}) + "\n"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_names_methods_and_options_that_there_are(path: Path, encoder: Path) -> None:
    table = read_table(path)
    for row in (row for row in table.rows if row.method is not None):
        loaded, tokenizer = load_encoder(str(encoder), max_length=32)
        untrained_model(row.choice.name, loaded, tokenizer, 2, row.choice.options)
    assert f"configs/papers/{path.name}" in path.read_text()  # it says how it is run


def test_every_seed_has_one_of_the_prefix_papers_eight_orders() -> None:
    table = read_table(next(path for path in CONFIGS if path.stem == "prefix-figure2"))
    sources = ["mnli", "qnli", "qqp", "sst2", "yelp", "record", "winogrande"]
    orders = [order_of(table, sources, seed) for seed in range(9)]
    assert len(set(orders)) == 8 and orders[8] == orders[0]
    assert all(sorted(order) == sorted(sources) for order in orders)
    assert order_of(table, ["mnli", "qqp", "sst2"], 3) == ("qqp", "mnli", "sst2")


def test_there_is_a_configuration_for_each_of_the_four_papers() -> None:
    assert {path.stem.split("-")[0] for path in CONFIGS} == {"mtop", "camtl", "prefix", "mttag"}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_can_be_planned_on_a_suite_of_other_tasks(path: Path, suite: Path) -> None:
    table, short = read_table(path), ("train.max_length=16",)  # the tests' encoder has room for few prompts
    runs = [make_run(table, row, str(suite), 0, short) for row in table.rows if row.method is not None]
    assert all(isinstance(run, TransferRun) == (table.protocol != "train") for run in runs)
    assert len({run.key for run in runs}) == len(runs)


def test_what_is_no_table_is_said_with_all_its_faults(tmp_path: Path) -> None:
    rows = [{"method": "mtdnn"}, {"name": "b", "train": 3, "paper": {"average": "high"}}]
    with pytest.raises(ConfigError) as caught:
        read_table(write(tmp_path / "table.yaml", rows=rows, published=3))
    for place in ("rows, 1, name", "rows, 2, train", "rows, 2, paper, average", "published"):
        assert f"\n  - {place}: " in str(caught.value)
    with pytest.raises(ConfigError, match="two rows are named 'a'"):
        read_table(write(tmp_path / "table.yaml", rows=[{"name": "a", "method": "mtdnn"}, {"name": "a"}]))
    (tmp_path / "table.yaml").write_bytes(b"title: \xff")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_table(tmp_path / "table.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_is_trained_and_tested(path: Path, suite: Path) -> None:
    table = read_table(path)
    row = [row for row in table.rows if row.method is not None][-1]
    run = make_run(table, row, str(suite), 0, ("train.epochs=1", "train.max_length=16", *RECIPE))
    found = run_transfer(run) if isinstance(run, TransferRun) else run_once(run)
    assert found["key"] == run.key
    assert all(-100 <= score <= 100 for score in figures_of(table, found, list(found.get("tasks", ()))).values())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": [{"name": "x", "method": "mtpo"}]}, "Did you mean 'mtop'"),
        ({"rows": [{"name": "x", "method": {"name": "camtl", "depth": 2}}]}, "It is an option of 'readers'"),
        ({"rows": [{"name": "x", "train": {"epoch": 2}, "method": "mtop"}]}, "Did you mean 'epochs'"),
        ({"rows": [{"name": "x", "ways": [{"shared": 1}], "method": "mtop"}]}, "Did you mean 'share'"),
        ({"protocol": "new_tasks"}, "Did you mean 'new_task'"),
        ({"published": {"seeds": 5}}, "Unknown key of published 'seeds'. Known: encoder, target_train, train"),
        ({"titel": "x"}, "Did you mean 'title'"),
        ({"rows": 3}, "no list of rows"),
    ],
)
def test_faults_of_a_configuration_are_said(changes: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        read_table(write(tmp_path / "table.yaml", **changes))


def test_the_papers_figures_stand_beside_ours(suite: Path, tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "table.yaml"))
    output = tmp_path / "lines.jsonl"
    for seed in (0, 1):
        for row, gain in zip(table.rows[:2], (0.0, 3.0), strict=True):
            run = make_run(table, row, str(suite), seed, RECIPE)
            scores = {"topic": 70.0 + gain + seed, "tone": 50.0, "same": 60.0}
            with output.open("a") as file:
                file.write(line(run, tasks=scores))
    found = repeat(table, str(suite), seeds=2, output=output)
    second = found["rows"][1]["figures"]["average"]
    assert (second["paper"], second["seeds"]) == (82.5, 2)
    assert second["ours"] == pytest.approx(60 + 1 + 0.5 / 3)
    assert found["rows"][2]["figures"]["average"] == {"paper": 81.0, "ours": None, "spread": None, "seeds": 0}
    assert found["rows"][0]["tasks"]["topic"]["ours"] == 70.5
    assert (found["done"], found["planned"]) == (4, 4)
    arguments = ["bench", "paper", str(tmp_path / "table.yaml"), "--suite", str(suite), "--seeds", "2"]
    shown = CliRunner().invoke(app, [*arguments, "-o", str(output)])
    assert shown.exit_code == 0, shown.output
    assert "82.50" in shown.stdout
    assert "4 of 4 runs" in shown.stdout
    assert "topic" not in shown.stdout
    assert "topic" in CliRunner().invoke(app, [*arguments, "-o", str(output), "--all"]).stdout


def test_the_suite_may_come_from_the_environment(suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEPASS_SUITE", str(suite))
    path = write(tmp_path / "table.yaml", rows=[{"name": "not here", "paper": {"average": 81.0}}])
    result = CliRunner().invoke(app, ["bench", "paper", str(path), "--json", "-o", str(tmp_path / "lines.jsonl")])
    assert json.loads(result.stdout)["suite"] == "tasks"


def test_the_published_recipe_is_used_only_when_asked_for(suite: Path, tmp_path: Path, encoder: Path) -> None:
    recipe = {"encoder": str(encoder), "train": {"epochs": 40, "encoder_rate": 1e-05}}
    table = read_table(write(tmp_path / "table.yaml", published=recipe, rows=[{"name": "x", "method": "mtdnn"}]))
    output = tmp_path / "lines.jsonl"
    overrides = (f"encoder={encoder}", "train.epochs=40", "train.encoder_rate=1e-05", *RECIPE)
    published, own = Run(str(suite), "mtdnn", 0, overrides), Run(str(suite), "mtdnn", 0, RECIPE)
    output.write_text(line(published, tasks={"topic": 1.0}) + line(own, tasks={"topic": 2.0}))
    for asked, score in ((True, 1.0), (False, 2.0)):
        found = repeat(table, str(suite), seeds=1, as_published=asked, output=output)
        assert found["rows"][0]["figures"]["average"]["ours"] == score


def test_tasks_left_out_of_some_rows_are_left_out_of_all_averages(suite: Path, tmp_path: Path) -> None:
    rows = [{"name": "few", "method": "mtdnn", "without": ["cola"]}, {"name": "all", "method": "mtdnn"}]
    table = read_table(write(tmp_path / "table.yaml", rows=rows, groups={"small": ["topic"]}))
    few, every = (make_run(table, row, str(suite), 0, RECIPE) for row in table.rows)
    assert few.tasks == ("topic", "tone")  # a suite without CoLA leaves out its last task
    output = tmp_path / "lines.jsonl"
    output.write_text(
        line(few, tasks={"topic": 70.0, "tone": 60.0}) + line(every, tasks={"topic": 72.0, "tone": 64.0, "same": 10.0})
    )
    found = repeat(table, str(suite), seeds=1, output=output)
    assert [row["figures"]["average"]["ours"] for row in found["rows"]] == [65.0, 68.0]
    assert [row["figures"]["small"]["ours"] for row in found["rows"]] == [70.0, 72.0]


def test_new_tasks_are_reported_by_share_and_start() -> None:
    table = Table("t", "p", (), protocol="new_task")
    cells = [
        {"task": "a", "share": 0.01, "like": "x", "each": False, "test": 70.0},
        {"task": "b", "share": 0.01, "like": "y", "each": False, "test": 80.0},
        {"task": "a", "share": 0.0, "like": "x", "each": True, "test": 30.0},
    ]
    figures = figures_of(table, {"cells": cells, "new": ["a", "b"]}, [])
    assert figures == {"1%": 75.0, "a 1%": 70.0, "b 1%": 80.0, "0% like x": 30.0, "a 0% like x": 30.0}
    assert beside({"a 1%": 81.9}, [figures])["a 1%"]["paper"] == 81.9


def test_a_papers_figures_of_new_tasks_are_averaged_for_suites_that_have_others() -> None:
    table = Table("t", "p", (), protocol="new_task", new=("scitail", "snli"))
    figures = with_means(table, {"scitail 1%": 80.0, "snli 1%": 90.0, "scitail 0% like cola": 43.0})
    assert figures["1%"] == 85.0
    assert figures["0% like cola"] == 43.0
    assert [is_of_a_task(table, what, [["same"]]) for what in ("1%", "snli 1%", "same 1%", "0% like cola")] == [
        False, True, True, False,
    ]  # fmt: skip
