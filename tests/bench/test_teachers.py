"""Teachers that the runs of a bench share."""

from pathlib import Path

import pytest

from onepass.bench.accuracy import plan, summarise
from onepass.bench.runs import Run, read_suite, run_once
from onepass.bench.teachers import run_taught, teachers_of
from onepass.errors import OnepassError
from onepass.training.options import train_options
from onepass.training.teachers import teacher_files


def test_rows_share_the_teachers_that_are_trained_alike(suite: Path) -> None:
    rows = ["train.teachers=3", "train.preset=best", "train.seed=0"]
    few, best, none = plan(str(suite), ["readers"], 1, (), vary=rows)
    assert [len(teachers_of(run)) for run in (few, best, none)] == [3, 5, 0]  # none: as always on a CPU
    assert teachers_of(best)[:3] == teachers_of(few)
    assert [run.seed for run in teachers_of(best)] == [1000, 2000, 3000, 4000, 5000]


@pytest.mark.parametrize(
    "given",
    [
        "method={name: readers, depth: 1}",
        "train={preset: best, epochs: 2, teachers: 1}",
        "train={teachers: 1, teacher_encoder: someone/larger}",
    ],
)
def test_a_teachers_run_trains_what_a_training_trains_for_itself(suite: Path, given: str) -> None:
    text = suite.read_text()
    key, value = given.split("=", 1)
    suite.write_text(
        "\n".join(line for line in text.splitlines() if not line.startswith(f"{key}:")) + f"\n{key}: {value}\n"
    )
    run = Run(str(suite), "readers:tokens=1", 0, ("train.task_teachers=1", "train.effort=2", "encoder=embedded"))
    file = read_suite(run)
    options = train_options(file.train)
    expected = [one for some in teacher_files(file, options, options.teachers or 0) for one in some]
    found = [read_suite(teacher) for teacher in teachers_of(run)]
    assert [(one.method, one.train, one.encoder) for one in found] == [
        (one.method, one.train, one.encoder) for one in expected
    ]


def test_models_per_task_are_in_no_group(suite: Path) -> None:
    text = suite.read_text()
    suite.write_text(text.replace("    text: text\n", "    text: text\n    group: news\n"))
    together, *alone = teachers_of(Run(str(suite), "readers", 0, ("train.teachers=1", "train.task_teachers=1")))
    assert read_suite(together).tasks["topic"].group == "news"
    assert [task.group for run in alone for task in read_suite(run).tasks.values()] == [None] * 3


def test_models_per_task_are_trained_in_several_processes(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onepass.bench.teachers.PART", 2)
    teachers = teachers_of(Run(str(suite), "readers", 0, ("train.task_teachers=2",)))
    assert [run.tasks for run in teachers] == [("topic", "same"), ("tone",)] * 2
    assert [run.seed for run in teachers] == [1000, 1000, 2000, 2000]


def test_a_run_learns_from_shared_teachers_what_it_learns_from_its_own(suite: Path, tmp_path: Path) -> None:
    output = tmp_path / "lines.jsonl"
    runs = plan(str(suite), ["readers"], 2, ("train.epochs=2",), vary=["train.teachers=1", "train.teachers=0"])
    lines = run_taught(runs, output, jobs=2, progress=False)
    assert [line["method"] for line in lines] == ["readers train.teachers=1", "readers train.teachers=0"] * 2
    own = run_once(runs[0])
    assert {key: lines[0][key] for key in ("tasks", "validation", "average")} == {
        key: own[key] for key in ("tasks", "validation", "average")
    }
    assert list((tmp_path / ".lines").iterdir()) == []
    assert run_taught(runs, output, progress=False, limit_s=0) == lines  # nothing is trained twice
    assert [row["seeds"] for row in summarise(lines)["rows"]] == [2, 2]


def test_runs_whose_teacher_fails_do_not_wait_for_it(suite: Path, tmp_path: Path) -> None:
    rows = suite.with_name("tone.csv")
    header, *_ = rows.read_text().splitlines()
    rows.write_text(f"{header}\n")  # told of when the rows are read
    runs = plan(str(suite), ["readers"], 2, ("train.teachers=1",))
    with pytest.raises(OnepassError, match=r"readers, seed 1000 failed[^$]*tone\.csv"):
        run_taught(runs, tmp_path / "lines.jsonl", progress=False)
