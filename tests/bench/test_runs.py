"""A run that was killed does not train again what it had trained."""

import json
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

import onepass.training
from onepass.bench.lines import add_line, begin_lines, read_lines
from onepass.bench.processes import claimed
from onepass.bench.runs import Run, holds_of, place_of, run_all, run_once
from onepass.bench.transfer import TransferRun, run_transfer
from onepass.training.loop import Trainer

FEW = ("train.epochs=1",)


def stop(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that were trained."""
    trained: list[str] = []

    def run(self: Trainer, resume: bool = False) -> None:
        trained.append(self.model.choice.name)
        ran(self, resume)

    ran = Trainer.run
    monkeypatch.setattr(Trainer, "run", run)
    return trained


def test_a_run_killed_while_it_is_tested_is_tested_again(
    suite: Path, tmp_path: Path, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(str(suite), "mtdnn", 0, FEW)
    with monkeypatch.context() as patch:
        patch.setattr(onepass.training, "evaluate", stop)
        with pytest.raises(KeyboardInterrupt):
            run_once(run, tmp_path / "place")
    found = run_once(run, tmp_path / "place")
    assert trainings == ["mtdnn"]
    expected = run_once(run)
    assert {key: found[key] for key in expected if key != "seconds"} == {
        key: expected[key] for key in expected if key != "seconds"
    }


def test_what_a_run_left_that_was_killed_while_it_cleaned_up_is_removed(suite: Path, tmp_path: Path) -> None:
    run, place = Run(str(suite), "mtdnn", 0, FEW), tmp_path / "place"
    run_once(run, place)
    for name in (".place.teachers", ".place.joint", ".place.training", ".place.finetune.training"):
        (tmp_path / name).mkdir()
    run_once(run, place)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".place.") and path.is_dir()] == []


def test_a_first_line_that_a_kill_cut_short_spoils_no_later_one(tmp_path: Path) -> None:
    output = tmp_path / "runs.jsonl"
    output.write_text('{"ke')
    lines = [{"key": "one"}, {"key": "two"}]
    for line in lines:
        begin_lines(output)
        add_line(output, line)
    assert list(read_lines(output)) == lines


def test_a_run_killed_at_its_new_tasks_does_not_train_the_others_again(
    suite: Path, tmp_path: Path, trainings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = (*FEW, "train.dropout=0.5")
    run = TransferRun(str(suite), "mtdnn", 0, overrides, new=("same",), ways=(json.dumps({"share": 0.5}),))
    with monkeypatch.context() as patch:
        patch.setattr("onepass.analysis.transfer.learn_new_task", stop)
        with pytest.raises(KeyboardInterrupt):
            run_transfer(run, tmp_path / "place")
    found = run_transfer(run, tmp_path / "place")
    assert trainings == ["mtdnn"] and found["cells"] == run_transfer(run)["cells"]


def test_a_run_that_another_bench_is_at_is_waited_for_and_not_trained_again(suite: Path, tmp_path: Path) -> None:
    run, output = Run(str(suite), "mtdnn", 0, FEW), tmp_path / "lines.jsonl"
    holds = holds_of([run])[run]
    theirs = {"key": run.key, "method": run.label, "holds": holds}
    claim = claimed(place_of(run, holds, output))
    assert run_all([run], output, progress=False, limit_s=0.5) == []

    def end() -> None:
        add_line(output, theirs)
        claim.close()

    Timer(0.5, end).start()
    assert run_all([run], output, progress=False, limit_s=60) == [theirs]


def test_a_run_that_another_bench_gave_up_is_trained_here(suite: Path, tmp_path: Path) -> None:
    run, output = Run(str(suite), "mtdnn", 0, FEW), tmp_path / "lines.jsonl"
    claim = claimed(place_of(run, holds_of([run])[run], output))
    Timer(0.5, claim.close).start()
    assert [line["key"] for line in run_all([run], output, progress=False, limit_s=60)] == [run.key]
    assert list(output.with_name(".lines").iterdir()) == []
