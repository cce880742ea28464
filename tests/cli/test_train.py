"""onepass train: what it writes, and every wrong thing a user may own or type."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from onepass.training.checkpoint import Checkpoints

Change = Callable[[Path], object]


def replace(name: str, old: str, new: str) -> Change:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


def write(name: str, content: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content)


WRONG: dict[str, tuple[Change, list[str]]] = {
    "a missing column": (
        replace("tasks.yaml", "label: topic", "label: topics"),
        ["topic.csv", "'topics'", "Did you mean 'topic'?"],
    ),
    "an unknown label in validation": (
        replace("topic-validation.csv", ",sport", ",sports"),
        ["topic-validation.csv, row 1", "'topic'", "'sports'", "politics, sport"],
    ),
    "an empty file": (write("topic.csv", b""), ["topic.csv", "empty"]),
    "a file that is not UTF-8": (
        write("topic.csv", "text,topic\ncafé,sport\n".encode("latin-1")),
        ["topic.csv", "line 2", "0xe9", "UTF-8", "iconv"],
    ),
    "a single-class task": (
        lambda folder: [replace(name, ",politics", ",sport")(folder) for name in ("topic.csv", "topic-validation.csv")],
        ["topic.csv", "'topic'", "at least two labels", "'sport'"],
    ),
    "a task name with a slash": (
        replace("tasks.yaml", "  topic:\n", "  news/topic:\n"),
        ["tasks.yaml, line 4", "'news/topic'", "'news_topic'"],
    ),
    "two tasks of one name": (
        replace("tasks.yaml", "  tone:", "  topic:"),
        ["tasks.yaml, line 9", "'topic' twice", "line 4"],
    ),
    "an unknown method": (
        replace("tasks.yaml", "tasks:\n", "method: raeders\ntasks:\n"),
        ["'raeders'", "Did you mean 'readers'?", "mtdnn"],
    ),
    "an unknown option of the method": (
        replace("tasks.yaml", "tasks:\n", "method: {name: readers, dept: 1}\ntasks:\n"),
        ["'dept'", "Did you mean 'depth'?"],
    ),
    "an option of another method": (
        replace("tasks.yaml", "tasks:\n", "method: {name: mtop, experts: 2}\ntasks:\n"),
        ["'experts'", "It is an option of 'mttag'", "prompt_length: int = 2"],
    ),
    "a share of layers above 1": (
        replace("tasks.yaml", "tasks:\n", "method: {name: camtl, frozen_share: 1.5}\ntasks:\n"),
        ["frozen_share is 1.5", "possible: from 0 to 1"],
    ),
    "no experts": (
        replace("tasks.yaml", "tasks:\n", "method: {name: mttag, experts: 0}\ntasks:\n"),
        ["experts is 0", "possible: a whole number from 1"],
    ),
    "a sampler that asks the model with a method that does not allow it": (
        lambda folder: [
            replace("tasks.yaml", "epochs: 1", "sampler: uncertainty, epochs: 1")(folder),
            replace("tasks.yaml", "tasks:\n", "method: single\ntasks:\n")(folder),
        ],
        ["train.sampler", "'single' does not allow", "Possible: proportional, uniform, square_root, annealed"],
    ),
    "an unknown training option": (
        replace("tasks.yaml", "epochs: 1", "epoch: 1"),
        ["'epoch'", "Did you mean 'epochs'?"],
    ),
    "a missing encoder folder": (
        replace("tasks.yaml", "encoder: ", "encoder: /nowhere"),
        ["/nowhere"],
    ),
    "a missing data file": (
        replace("tasks.yaml", "train: tone.csv", "train: tones.csv"),
        ["tones.csv", "tone.csv"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_thing_gets_a_clear_message_and_leaves_nothing(run, news, tmp_path, case):
    change, expected = WRONG[case]
    change(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = run("train", news, "-o", tmp_path / "runs" / "news", "--quiet")
    assert result.exit_code == 2, result.output
    assert [part for part in expected if part not in result.stderr] == []
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_all_faults_are_told_at_once(run, news, tmp_path):
    replace("tasks.yaml", "epochs: 1", "epoch: 1")(tmp_path)
    replace("tasks.yaml", "  topic:\n", "  news/topic:\n")(tmp_path)
    result = run("train", news, "-o", tmp_path / "out", "method=raeders")
    assert result.stderr.startswith("3 faults:\n")


def test_a_fault_reaches_the_shell_as_exit_code_2(process, news, tmp_path):
    result = process("train", news, "-o", tmp_path / "out", "train.epochs=many")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("train.epochs is 'many'")
    assert result.stderr.count("\n") == 1


def test_a_trained_model_is_written_and_replaced_only_by_force(process, run, news, tmp_path):
    output = tmp_path / "runs" / "news"
    result = process("train", news, "-o", output, "seed=1")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert "seed=1" in result.stderr and f"onepass predict {output}" in result.stderr

    again = run("train", news, "-o", output, "--quiet", "seed=2")
    assert again.exit_code == 2
    assert "exists already" in again.stderr and "--force" in again.stderr
    assert seed_of(output) == 1

    forced = run("train", news, "-o", output, "--quiet", "--force", "seed=2")
    assert (forced.exit_code, forced.stdout, forced.stderr) == (0, "", "")
    assert seed_of(output) == 2
    assert [path.name for path in output.parent.iterdir()] == ["news"]


def test_three_rows_are_enough(run, news, tmp_path):
    (tmp_path / "few.csv").write_text("text,label\nlate goal,sport\nsenate vote,politics\nlate match,sport\n")
    encoder = next(line for line in news.read_text().splitlines() if line.startswith("encoder:"))
    (tmp_path / "few.yaml").write_text(f"{encoder}\ntasks:\n  few: {{train: few.csv, text: text, label: label}}\n")
    result = run("train", tmp_path / "few.yaml", "-o", tmp_path / "out", "max_length=64")
    assert result.exit_code == 0, result.stderr
    # What goes by the number of rows is told with them, and not as a nought before.
    assert "3 training rows of 1 tasks: 20 epochs, batches of 64 rows" in result.stderr
    assert " epochs=0" not in result.stderr and "batch_size=0" not in result.stderr


def seed_of(output: Path) -> int:
    return json.loads((output / "config.json").read_text())["training"]["options"]["seed"]


def test_of_several_processes_one_warns(run, news, tmp_path, monkeypatch):
    never = ["epochs=1", "tasks.topic.threshold.target_precision=0.9"]  # two validation rows cannot show that
    assert "warning: topic" in run("train", news, "-o", tmp_path / "first", *never, "-q").stderr
    monkeypatch.setenv("RANK", "1")
    result = run("train", news, "-o", tmp_path / "second", *never)
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize(("options", "place"), [([], ".model.training"), (["teachers=1"], ".model.teachers")])
def test_who_stops_a_training_hears_how_to_go_on(run, news, tmp_path, monkeypatch, options, place):
    save = Checkpoints.save

    def save_and_stop(*given):
        save(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "save", save_and_stop)
    result = run("train", news, "-o", tmp_path / "model", "epochs=2", "checkpoint_every_s=0", *options)
    assert result.exit_code == 130
    told = f"What is done so far is in {tmp_path / place}. To go on, give the same command with --resume.\n"
    assert result.stderr.endswith(told + "Stopped.\n")


def test_who_stops_a_training_hears_nothing_of_what_another_left(run, news, tmp_path, monkeypatch):
    (tmp_path / ".model.training").mkdir()
    os.utime(tmp_path / ".model.training", (0, 0))

    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "due", stop)
    result = run("train", news, "-o", tmp_path / "model", "epochs=2")
    assert result.exit_code == 130 and "What is done so far" not in result.stderr


def test_the_last_line_asks_what_the_tasks_read(run, news, tmp_path):
    tasks = news.read_text()
    news.write_text("".join(line for line in tasks.splitlines(True) if "tone" not in line))
    assert run("train", news, "-o", tmp_path / "all", "epochs=1").stderr.endswith(f'{tmp_path / "all"} "some text"\n')
    start, end = tasks.index("  topic:"), tasks.index("  same:")
    news.write_text(tasks[:start] + tasks[end:])
    told = run("train", news, "-o", tmp_path / "pairs", "epochs=1").stderr
    assert told.endswith(f'onepass predict {tmp_path / "pairs"} --pair "one text" "another"\n')
    assert run("predict", tmp_path / "pairs", "--pair", "one text", "another").exit_code == 0
