"""What is made of the lines of many runs."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from onepass.bench.accuracy import bootstrap, plan, summarise
from onepass.bench.fingerprint import suite_fingerprint
from onepass.bench.plot import check_plot, plot_accuracy
from onepass.bench.processes import Running
from onepass.bench.runs import Run, run_all
from onepass.cli.app import app
from onepass.errors import ConfigError, OnepassError
from onepass.tasks import read_task_file


def line(method: str, seed: int, **tasks: float) -> dict[str, Any]:
    return {"suite": "news", "method": method, "seed": seed, "tasks": tasks, "seconds": 2.0}


LINES = [
    line("single", 0, topic=80.0, tone=60.0),
    line("single", 1, topic=82.0, tone=60.0),
    line("readers", 0, topic=84.0, tone=59.0),
    line("readers", 1, topic=86.0, tone=61.0),
    line("readers", 2, topic=88.0, tone=57.0),
]


def test_a_row_is_the_mean_over_seeds_and_the_difference_to_a_model_per_task():
    single, readers = summarise(LINES)["rows"]
    assert single["mean"] == 70.5 and single["seeds"] == 2 and "difference" not in single
    assert readers["tasks"] == {"topic": 86.0, "tone": 59.0}
    assert readers["mean"] == 72.5 and readers["median"] == 72.5 and readers["std"] == pytest.approx(1.0)
    assert readers["difference"] == 2.0 and readers["at_or_above"] == 1
    low, high = readers["interval"]
    assert low < 0 < 2.0 < high  # one task gained, one lost


def test_one_seed_has_no_spread_and_one_score_each_no_interval(tmp_path: Path):
    of_one_task = [line("single", 0, topic=80.0), line("readers", 0, topic=84.0)]
    readers = summarise(of_one_task)["rows"][1]
    assert readers["std"] is None and readers["difference"] == 4.0 and "interval" not in readers
    plot_accuracy(summarise(of_one_task), tmp_path / "one.png")
    assert "interval" in summarise([*of_one_task, line("readers", 1, topic=85.0)])["rows"][1]


def test_a_varied_row_is_compared_with_the_baseline_at_the_same_value():
    scores = {"single a=1": 60.0, "single a=2": 70.0, "readers a=1": 61.0, "readers a=2": 71.0}
    rows = summarise([line(method, 0, topic=score) for method, score in scores.items()])["rows"]
    assert [row.get("difference") for row in rows] == [None, 10.0, 1.0, 1.0]


def test_the_same_scores_in_another_order_are_no_less():
    scores = (100 * 15 / 30, 100 * 26 / 30, 100 * 26 / 30)
    lines = [line("single", seed, topic=score) for seed, score in enumerate(scores)]
    lines += [line("readers", seed, topic=score) for seed, score in enumerate(scores[::-1])]
    assert np.mean(scores[::-1]) < np.mean(scores)
    assert summarise(lines)["rows"][1]["at_or_above"] == 1


def test_the_interval_has_no_width_without_spread_and_widens_with_tasks_and_with_seeds():
    flat = np.full((3, 4), 70.0)
    assert bootstrap(flat + 1, flat) == [1.0, 1.0]
    by_task = flat + np.array([0.0, 1.0, 2.0, 3.0])
    by_seed = flat + np.array([[0.0], [1.0], [2.0]])
    for ours in (by_task, by_seed):
        low, high = bootstrap(ours, flat)
        assert low < ours.mean() - 70 < high
    # What both methods find hard in the same way is no uncertainty about their difference.
    assert bootstrap(by_task + 1, by_task) == [1.0, 1.0]


def test_the_plot_is_an_image_and_other_names_are_refused(tmp_path: Path):
    check_plot(tmp_path / "plots" / "news.png")
    plot_accuracy(summarise(LINES), tmp_path / "plots" / "news.png")
    assert (tmp_path / "plots" / "news.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"one of \.png, \.svg, \.pdf"):
        check_plot(tmp_path / "news.gif")


def test_tasks_can_be_left_out_of_a_suite(suite: Path):
    runs = plan(str(suite), ["readers"], 2, (), ["tone"])
    assert [run.tasks for run in runs] == [("topic", "same")] * 2
    with pytest.raises(ConfigError, match="tome"):
        plan(str(suite), ["readers"], 1, (), ["tome"])
    with pytest.raises(ConfigError, match="All tasks"):
        plan(str(suite), ["readers"], 1, (), ["topic", "same", "tone"])


def test_the_faults_of_a_suite_are_told_once_before_anything_trains(suite: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^There is no task file .*nowhere.yaml\.[^\n]*$"):
        plan(str(tmp_path / "nowhere.yaml"), ["readers", "mtop"], 3, ())
    with pytest.raises(ConfigError, match=r"^Unknown method 'raeders'"):
        plan(str(suite), ["readers", "raeders"], 3, ())


def test_what_is_shown_of_a_part_of_the_runs_says_so(suite: Path, tmp_path: Path) -> None:
    output, names = tmp_path / "lines.jsonl", ("topic", "tone", "same")
    run = plan(str(suite), ["mtdnn"], 2, ())[0]
    output.write_text(json.dumps({"key": run.key, **line("mtdnn", 0, **dict.fromkeys(names, 80.0))}) + "\n")
    given = ["bench", "accuracy", "--suite", str(suite), "--methods", "mtdnn", "--seeds", "2", "--limit", "0"]
    found = json.loads(CliRunner().invoke(app, [*given, "-o", str(output), "--json"]).stdout)
    assert (found["done"], found["planned"]) == (1, 2)
    assert "1 of 2 runs are done" in CliRunner().invoke(app, [*given, "-o", str(output)]).stdout


def test_runs_are_added_to_no_file_of_something_else(suite: Path, tmp_path: Path) -> None:
    runs, output = plan(str(suite), ["readers"], 1, ()), tmp_path / "notes.jsonl"
    for theirs in ('{"text": "goal"}\n', "text,label\n", "\n\ntext of mine\n"):
        output.write_text(theirs)
        with pytest.raises(ConfigError, match=r"notes\.jsonl is no file of a bench's runs"):
            run_all(runs, output, limit_s=0)
        assert output.read_text() == theirs
    output.write_text('{"ke')  # a first line that a kill cut short
    assert run_all(runs, output, limit_s=0, progress=False) == []


def test_a_method_named_twice_is_one_method(suite: Path) -> None:
    assert [run.method for run in plan(str(suite), ["readers", "single", "readers"], 1, ())] == ["readers", "single"]


def test_a_line_counts_only_for_the_suite_and_the_rows_it_was_measured_on(suite: Path, tmp_path: Path) -> None:
    run, output = Run(str(suite), "readers", 0), tmp_path / "lines.jsonl"
    kept = {"key": run.key, "method": "readers", "holds": suite_fingerprint(str(suite))}
    output.write_text(json.dumps(kept) + "\n")
    assert run_all([run], output, progress=False, limit_s=0) == [kept]
    copy = tmp_path / "copy"
    shutil.copytree(suite.parent, copy, ignore=shutil.ignore_patterns("copy"))
    assert run_all([Run(str(copy / suite.name), "readers", 0)], output, progress=False, limit_s=0) == [kept]

    rows = suite.with_name("same.csv")
    before = rows.read_text()
    rows.write_text(before.replace("yes", "YES"))  # as long as before
    assert run_all([run], output, progress=False, limit_s=0) == []
    rows.write_text(before)
    assert run_all([run], output, progress=False, limit_s=0) == [kept]
    text = suite.read_text()
    suite.write_text(text.replace("epochs: 1", "epochs: 2"))
    assert run_all([run], output, progress=False, limit_s=0) == []
    suite.write_text(text)
    other = Path(shutil.copytree(read_task_file(suite).encoder, tmp_path / "other" / "encoder"))
    suite.write_text(text.replace(read_task_file(suite).encoder, str(other)))
    assert run_all([run], output, progress=False, limit_s=0) == [kept]  # wherever it is
    config = other / "config.json"
    config.write_text(config.read_text() + " ")
    assert run_all([run], output, progress=False, limit_s=0) == []


def test_a_line_counts_only_for_the_encoder_and_the_rows_that_an_override_names(suite: Path, tmp_path: Path) -> None:
    encoder = Path(shutil.copytree(read_task_file(suite).encoder, tmp_path / "other" / "encoder"))
    rows = Path(shutil.copy(suite.with_name("same.csv"), tmp_path / "other" / "same.csv"))
    given = (f"encoder={encoder}", f"tasks.same.train={rows}")
    run, output = Run(str(suite), "readers", 0, given), tmp_path / "lines.jsonl"
    kept = {"key": run.key, "method": "readers", "holds": suite_fingerprint(str(suite), given)}
    output.write_text(json.dumps(kept) + "\n")
    assert run_all([run, Run(str(suite), "readers", 1)], output, progress=False, limit_s=0) == [kept]
    for file in (encoder / "model.safetensors", rows):
        before = file.read_bytes()
        file.write_bytes(before[:-1] + b"x")
        assert run_all([run], output, progress=False, limit_s=0) == []
        file.write_bytes(before)
        assert run_all([run], output, progress=False, limit_s=0) == [kept]


def test_a_line_counts_only_for_the_teachers_it_learned_from(suite: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "teacher").mkdir()
    (folder / "MANIFEST.json").write_text("{}")
    for given in (f"train.teacher_encoder={folder}", f"train.distill={{teachers: [{folder}]}}"):
        known = suite_fingerprint(str(suite), [given])
        before = (folder / "MANIFEST.json").read_text()
        assert known == suite_fingerprint(str(suite), [given]) != suite_fingerprint(str(suite))
        (folder / "MANIFEST.json").write_text(before + " ")
        assert known != suite_fingerprint(str(suite), [given])


def test_the_last_of_two_values_of_an_option_makes_the_run() -> None:
    def key(*given: str, variant: str = "") -> str:
        return Run("news.yaml", "readers", 0, given, variant=variant).key

    assert key("train.epochs=1", variant="train.epochs=2") != key("train.epochs=2", variant="train.epochs=1")
    assert key("train.epochs=1", variant="train.epochs=2") == key("train.epochs=2")
    assert key("train.epochs=1", "encoder=embedded") == key("encoder=embedded", "train.epochs=1")


class Talkative(Run):
    module = "talkative"


def test_a_run_that_says_more_than_a_pipe_holds_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import sys\nsys.stderr.write('warning\\n' * 40_000)\nprint('{\"average\": 1}')\n"
    (tmp_path / "talkative.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    running = Running(Talkative("news.yaml", "readers", 0), "abc", tmp_path / "lines" / "run")
    running.process.wait(timeout=60)
    assert running.line() == {"average": 1, "holds": "abc"}


def test_a_run_that_was_killed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "talkative.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    running = Running(Talkative("news.yaml", "readers", 3), "abc", tmp_path / "lines" / "run")
    running.process.wait(timeout=60)
    with pytest.raises(OnepassError, match="readers, seed 3 was killed by signal 9"):
        running.line()


def test_a_run_that_failed_is_named_as_in_the_table_and_the_others_are_kept(suite: Path, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    runs = plan(str(suite), ["mtdnn"], 1, ["train.teachers=0"], vary=["train.epochs=1", f"encoder={empty}"])
    output = tmp_path / "lines.jsonl"
    with pytest.raises(OnepassError) as caught:
        run_all(runs, output, progress=False)
    assert str(caught.value).startswith(f"mtdnn encoder={empty}, seed 0 failed:")
    assert "\n1 of 2 runs are done and kept" in str(caught.value)
    assert [line["method"] for line in run_all(runs[:1], output, progress=False)] == ["mtdnn train.epochs=1"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_bench_that_is_told_to_end_ends_its_trainings(suite: Path, tmp_path: Path, number: signal.Signals) -> None:
    given = ["--suite", str(suite), "--methods", "readers", "--seeds", "1", "-o", str(tmp_path / "lines.jsonl")]
    command = [sys.executable, "-m", "onepass", "bench", "accuracy", *given, "train.epochs=100000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as bench:
        children = Path(f"/proc/{bench.pid}/task/{bench.pid}/children")
        while not (found := children.read_text().split()):
            assert bench.poll() is None
            time.sleep(0.1)
        bench.send_signal(number)
        assert bench.wait(timeout=60) == (143 if number == signal.SIGTERM else -signal.SIGKILL)
        if number == signal.SIGTERM:
            assert bench.stderr is not None and bench.stderr.read().endswith("Stopped.\n")
        deadline = time.monotonic() + 60
        while any(runs(child) for child in found):  # those of a bench that was killed see it in half a second
            assert time.monotonic() < deadline
            time.sleep(0.1)


def runs(process: str) -> bool:
    """Whether a process still computes; one that has ended may wait for somebody to ask how."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
