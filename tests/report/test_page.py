"""The page about a model."""

import html.parser
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onepass.cli.app import app
from onepass.errors import ConfigError
from onepass.report.page import curves, render, write_report


class Tags(html.parser.HTMLParser):
    """Collects the words of a page, and where it would fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.fetched: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words += data.split()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [str(value) for key, value in attrs if key in ("src", "href")]


def test_the_page_names_every_task_and_fetches_nothing(model: Path):
    page = Tags()
    page.feed(render(model))
    assert {"topic", "tone", "same", "classification", "regression", "readers"} <= set(page.words)
    assert page.fetched == []


def test_the_command_writes_it_into_the_folder_which_stays_whole(model: Path, tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    assert "<h1>3 tasks in one pass</h1>" in (folder / "report.html").read_text()
    from onepass.contents import model_files

    assert "report.html" in model_files(folder)
    assert CliRunner().invoke(app, ["report", str(folder), "-o", str(tmp_path / "elsewhere.html")]).exit_code == 0
    assert (tmp_path / "elsewhere.html").is_file()


def test_what_a_label_says_is_text_and_no_markup(model: Path, tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    path = folder / "tasks" / "topic" / "task.json"
    path.write_text(path.read_text().replace('"sport"', '"<script>"'))
    assert "<script>" not in render(folder) and "&lt;script&gt;" in render(folder)


def test_what_the_method_tells_of_its_tasks_is_shown(model: Path, tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    config = json.loads((folder / "config.json").read_text())
    config["training"]["findings"] = {"topic": {"expert_use": [[0.25, 0.75], [0.1, 0.9]]}}
    (folder / "config.json").write_text(json.dumps(config))
    assert "<h2>Expert use</h2>" in render(folder)
    assert "<tr><td>topic</td><td>25 / 75</td><td>10 / 90</td></tr>" in render(folder)
    assert "Expert use" not in render(model)


def test_thresholds_are_shown_with_what_they_reach(model: Path, tmp_path: Path):
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    path = folder / "tasks" / "topic" / "task.json"
    known = json.loads(path.read_text())
    choice = {"threshold": 0.8125, "precision": 0.9, "recall": 0.25, "given": 12}
    never = {"threshold": None, "precision": None, "recall": None, "given": 0, "reason": "too few"}
    known["options"]["threshold"] = {"target_precision": 0.9, "per": "label"}
    for reached, shown in (
        ({"sport": choice, "politics": never}, ["sport 0.812 0.900 0.250 12", "politics - - - 0 too few"]),
        ({}, ["all - - -"]),
    ):
        path.write_text(json.dumps(known | {"thresholds": {"reached": reached}}))
        page = Tags()
        page.feed(render(folder))
        for row in shown:
            assert f"topic target precision 0.9, per label {row}" in " ".join(page.words)
    known["options"]["threshold"] = 0.5
    path.write_text(json.dumps(known))
    page = Tags()
    page.feed(render(folder))
    assert "topic all 0.500 - -" in " ".join(page.words)
    assert "Thresholds" not in render(model)


def test_a_curve_goes_from_the_lowest_score_to_the_highest():
    history = [
        {"stage": "train", "epoch": 1.0, "average": 50.0, "scores": {"a": 40.0, "b": 60.0}},
        {"stage": "train", "epoch": 2.0, "average": 70.0, "scores": {"a": 60.0, "b": 80.0}},
    ]
    (curve,) = curves(history)
    assert (curve["low"], curve["high"], curve["last"]) == (40.0, 80.0, 2.0)
    assert curve["tasks"]["a"] == "0.0,220.0 640.0,110.0" and curve["mean"] == "0.0,165.0 640.0,55.0"
    assert curves(history[:1]) == []


def test_a_report_takes_the_place_of_no_other_file(tmp_path: Path):
    (tmp_path / "rows.csv").write_text("text,label\n")
    with pytest.raises(ConfigError, match=r"Give a name that ends in \.html"):
        write_report(tmp_path, tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_text() == "text,label\n"
