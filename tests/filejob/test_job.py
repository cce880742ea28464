"""A whole job: what is written, and going on after it was stopped."""

import csv
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import onepass
from onepass.errors import ConfigError, DataError, FolderError
from onepass.filejob import journal as journals
from onepass.filejob.job import rejects_beside

SCRIPT = Path(__file__).with_name("toy.py")
ADDED = ["topic", "topic_score", "tone", "tags", "tags_score", "truncated"]


def rows_of(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


class Stopped(BaseException):
    pass


def stop(progress):
    raise Stopped


@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet", "arrow", "json"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.usefixtures("small_pieces")
def test_every_row_is_in_the_output_or_in_the_rejects(toy, write, tmp_path, source, ending):
    path, output = write(source, 40), tmp_path / f"out.{ending}"
    summary = toy.job(path, output).run()
    rows, rejects = rows_of(output), rows_of(tmp_path / f"out.{ending}.rejects.jsonl")
    assert (summary.rows, summary.rejected, summary.added) == (38, 2, ADDED)
    assert [int(row["id"]) for row in rows] == [n for n in range(40) if n % 17 != 16]
    assert [reject["row"] for reject in rejects] == [17, 34]
    assert {reject["reason"] for reject in rejects} == {"there is no text in 'text'."}
    expected = toy.Toy().label([row["text"] for row in rows])
    assert [row["topic"] for row in rows] == [labelled.tasks["topic"].label for labelled in expected]
    tags = [row["tags"] if isinstance(row["tags"], list) else json.loads(row["tags"]) for row in rows]
    assert tags == [labelled.tasks["tags"].label for labelled in expected]
    assert names_in(tmp_path) == sorted([path.name, output.name, f"out.{ending}.rejects.jsonl"])


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet"])
@pytest.mark.usefixtures("small_pieces")
def test_a_job_stopped_after_any_piece_ends_with_the_same_bytes(toy, write, tmp_path, source, ending):
    path, clean, output = write(source, 60), tmp_path / f"clean.{ending}", tmp_path / f"out.{ending}"
    toy.job(path, clean).run()

    for _ in range(15):
        with pytest.raises(Stopped):
            toy.job(path, output).run(stop)
        assert not output.exists()
    summary = toy.job(path, output).run(stop)
    assert (summary.rows, summary.resumed) == (57, 60)
    assert output.read_bytes() == clean.read_bytes()
    assert rejects_beside(output).read_bytes() == rejects_beside(clean).read_bytes()


@pytest.mark.parametrize("ending", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("small_pieces")
def test_a_job_stopped_at_any_write_ends_with_the_same_bytes(toy, write, tmp_path, monkeypatch, ending):
    path, clean, output = write("csv", 18), tmp_path / f"clean.{ending}", tmp_path / f"out.{ending}"
    toy.job(path, clean).run()

    for last in range(1, 500):
        count = 0

        def counted(call, last=last):
            def run(*arguments, **options):
                nonlocal count
                count += 1
                if count == last:
                    raise Stopped
                return call(*arguments, **options)

            return run

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace"):
                patch.setattr(os, name, counted(getattr(os, name)))
            try:
                toy.job(path, output).run()
                break
            except Stopped:
                pass
        if not output.exists() or journals.Journal(output).path.exists():
            toy.job(path, output).run()
        assert output.read_bytes() == clean.read_bytes(), last
        assert rejects_beside(output).read_bytes() == rejects_beside(clean).read_bytes(), last
        for left in tmp_path.glob("out.*"):
            left.unlink()
    assert last > 20
    assert [name for name in names_in(tmp_path) if name.endswith(".job")] == []


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("ending", "kills"), [("csv", 3), pytest.param("csv", 20, marks=SLOW), pytest.param("parquet", 20, marks=SLOW)]
)
def test_a_killed_job_ends_with_the_same_bytes(toy, write, tmp_path, ending, kills):
    path, clean, output = write("csv", 30_000), tmp_path / f"clean.{ending}", tmp_path / f"out.{ending}"
    toy.job(path, clean).run()
    environment = os.environ | {"PYTHONPATH": str(Path(onepass.__file__).parents[1])}
    random = np.random.default_rng(kills)
    done = 0
    for _ in range(kills):
        # The delay makes the whole job longer than the waits together.
        process = subprocess.Popen([sys.executable, SCRIPT, path, output, str(0.01 * kills)], env=environment)
        journal = journals.Journal(output)
        while journal.read() is None and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        state = journal.read()
        assert state is not None and state.rows >= done
        done = state.rows
    assert done and not output.exists()
    summary = toy.job(path, output).run()
    assert summary.resumed >= done
    assert output.read_bytes() == clean.read_bytes()
    assert [name for name in names_in(tmp_path) if name.startswith(".")] == []


@pytest.mark.usefixtures("small_pieces")
def test_a_full_disk_keeps_what_is_done(toy, write, tmp_path):
    path, clean, output = write("csv", 60), tmp_path / "clean.csv", tmp_path / "out.csv"
    toy.job(path, clean).run()
    # No file may grow beyond this: the system refuses the write, as on a full disk.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(DataError, match=r"cannot be written: .* rows are done and kept in .*run the same command"):
            toy.job(path, output).run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not output.exists()
    assert toy.job(path, output).run().resumed > 0
    assert output.read_bytes() == clean.read_bytes()


def test_a_full_disk_of_the_rejects_is_named(toy, write, tmp_path, monkeypatch):
    path, output, place = write("csv", 20), tmp_path / "out.csv", tmp_path / "elsewhere"
    place.mkdir()
    rejects = place / "bad.csv"
    replace, copy = os.replace, shutil.copyfile

    def across(source, target):
        if Path(target) == rejects and Path(source).parent != place:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        replace(source, target)

    def filled(source, target):
        Path(target).write_bytes(b"row,")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", across)
    monkeypatch.setattr(shutil, "copyfile", filled)
    with pytest.raises(
        DataError, match=r"bad\.csv cannot be written: there is no space left.* 20 rows are done and kept"
    ):
        toy.job(path, output, rejects=rejects).run()
    assert names_in(place) == [] and not output.exists()
    monkeypatch.setattr(shutil, "copyfile", copy)
    assert toy.job(path, output, rejects=rejects).run().resumed == 20
    assert len(rows_of(rejects)) == 1 and names_in(tmp_path) == ["elsewhere", "in.csv", "out.csv"]


def test_the_same_text_is_asked_once_a_piece(toy, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text\n" + "late goal\nvote\n" * 100)
    model = toy.Toy()
    assert toy.job(path, tmp_path / "out.csv", model=model).run().rows == 200
    assert model.asked == [["late goal", "vote"]]


def test_long_texts_are_marked_as_cut(toy, tmp_path):
    path, output = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("text\nshort\n" + "long " * 200_000 + "\n")
    assert toy.job(path, output).run().truncated == 1
    assert [row["truncated"] for row in rows_of(output)] == ["False", "True"]
    assert rows_of(output)[1]["text"] == "long " * 200_000


def test_a_wide_table_needs_the_text_of_one_task(toy, tmp_path):
    path, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [{"text": "a"}, {"first": "b", "second": "c"}, {"text": "a", "first": "b", "second": "c"}, {"first": "b"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    summary = toy.job(path, output, text=[], tasks=["topic", "same"]).run()
    assert (summary.rows, summary.rejected) == (3, 1)
    answered = [[row["topic"] is not None, row["same"] is not None] for row in rows_of(output)]
    assert answered == [[True, False], [False, True], [True, True]]
    assert "no text in 'text' and 'second'" in rows_of(tmp_path / "out.jsonl.rejects.jsonl")[0]["reason"]


def test_times_in_nanoseconds_are_kept(toy, tmp_path):
    path, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    kinds = {
        "at": pa.timestamp("ns"),
        "zone": pa.timestamp("ns", "UTC"),
        "took": pa.duration("ns"),
        "of": pa.time64("ns"),
    }
    times = {name: pa.array([1, 2000, None], kind) for name, kind in kinds.items()}
    pq.write_table(pa.table({"text": ["a", "b", "c"], **times}), path)
    assert toy.job(path, output).run().rejected == 0
    assert pq.read_table(output).select(list(times)).equals(pq.read_table(path).select(list(times)))
    toy.job(path, tmp_path / "out.jsonl").run()
    assert [row["at"] for row in rows_of(tmp_path / "out.jsonl")] == [
        "1970-01-01 00:00:00.000000001",
        "1970-01-01 00:00:00.000002",
        None,
    ]


def write_arrow(path, table):
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


IN_LISTS = pa.struct([("at", pa.timestamp("ns")), ("n", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.list_(pa.timestamp("ns")), [1, None], ["1970-01-01 00:00:00.000000001", None]),
        (pa.list_(pa.list_(pa.duration("ns"))), [[1], []], [["1"], []]),
        (pa.list_(IN_LISTS), [{"at": 1, "n": 2}], [{"at": "1970-01-01 00:00:00.000000001", "n": 2}]),
        (pa.map_(pa.string(), pa.time64("ns")), [("a", 1)], [["a", "00:00:00.000000001"]]),
        (pa.timestamp("ms"), 10**18, "<value out of range: 1000000000000000000>"),
        (pa.timestamp("us", "UTC"), 10**18, "<value out of range: 1000000000000000000>"),
        (pa.timestamp("ns", "Europe/Berlin"), 1, "1970-01-01 01:00:00.000000001+0100"),
        (pa.timestamp("us", "tzlocal()"), 1, "1970-01-01 00:00:00.000001Z"),
        (pa.duration("s"), 10**14, "100000000000000"),
        (pa.date32(), 2**31 - 1, "<value out of range: 2147483647>"),
    ],
)
def test_times_that_only_arrow_has_cost_no_row(toy, tmp_path, kind, value, text):
    path, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    table = pa.table({"text": ["a", "b"], "other": pa.array([value, None], kind)})
    pq.write_table(table, path)
    assert toy.job(path, output).run().rejected == 0
    assert pq.read_table(output)["other"].equals(table["other"])
    toy.job(path, tmp_path / "out.jsonl").run()
    assert [row["other"] for row in rows_of(tmp_path / "out.jsonl")] == [text, None]
    toy.job(path, tmp_path / "out.csv").run()
    cells = [text if isinstance(text, str) else json.dumps(text), ""]
    assert [row["other"] for row in rows_of(tmp_path / "out.csv")] == cells


def test_times_in_encoded_columns_cost_no_row(toy, tmp_path):
    path, output = tmp_path / "in.arrow", tmp_path / "out.csv"
    times = pa.array([1, 1], pa.timestamp("ns"))
    runs = pa.RunEndEncodedArray.from_arrays([2], times[:1])
    write_arrow(path, pa.table({"text": ["a", "b"], "coded": times.dictionary_encode(), "runs": runs}))
    assert toy.job(path, output).run().rejected == 0
    assert [{row["coded"], row["runs"]} for row in rows_of(output)] == [{"1970-01-01 00:00:00.000000001"}] * 2


@pytest.mark.parametrize(
    "other",
    [
        pa.RunEndEncodedArray.from_arrays([2], ["x"]),
        pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
        pa.array([b"", None], pa.binary(0)),
        pa.array([1, 2], pa.timestamp("s")).dictionary_encode(),
    ],
    ids=lambda other: str(other.type),
)
def test_a_column_that_parquet_cannot_hold_is_told_before_the_work(toy, tmp_path, other):
    path, model = tmp_path / "in.arrow", toy.Toy()
    write_arrow(path, pa.table({"text": ["a", "b"], "id": [1, 2], "other": other}))
    with pytest.raises(ConfigError, match=r"out\.parquet cannot hold the column 'other' .*\.csv or \.jsonl") as caught:
        toy.job(path, tmp_path / "out.parquet", model=model).run()
    assert str(other.type) in str(caught.value)
    assert model.asked == [] and names_in(tmp_path) == ["in.arrow"]
    assert toy.job(path, tmp_path / "out.jsonl").run().rows == 2


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.list_(pa.timestamp("s", "UTC"))], ids=str)
def test_seconds_that_parquet_cannot_hold_are_told_with_their_column(toy, tmp_path, kind):
    path, value = tmp_path / "in.arrow", 10**18
    listed = pa.types.is_list(kind)
    write_arrow(path, pa.table({"text": ["a"], "other": pa.array([[value] if listed else value], kind)}))
    with pytest.raises(ConfigError, match=r"cannot hold the column 'other' .*overflow.*\.csv or \.jsonl"):
        toy.job(path, tmp_path / "out.parquet").run()
    assert names_in(tmp_path) == ["in.arrow"]
    toy.job(path, tmp_path / "out.csv").run()
    assert f"<value out of range: {value}>" in rows_of(tmp_path / "out.csv")[0]["other"]


@pytest.mark.skipif(not hasattr(pa, "bool8"), reason="Arrow has this type from 18 on")
def test_a_value_that_arrow_does_not_take_back_is_told_with_its_column(toy, tmp_path):
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8()))
    pq.write_table(pa.table({"text": ["a"], "flag": flags}), tmp_path / "in.parquet")
    with pytest.raises(ConfigError, match=r"cannot hold the column 'flag' .*\.csv or \.jsonl"):
        toy.job(tmp_path / "in.parquet", tmp_path / "out.parquet").run()
    assert toy.job(tmp_path / "in.parquet", tmp_path / "out.jsonl").run().rows == 1


def test_whole_numbers_of_many_digits_are_kept_beside_others(toy, tmp_path):
    path, output = tmp_path / "in.jsonl", tmp_path / "out.parquet"
    path.write_text(f'{{"text": "a", "n": 0.5}}\n{{"text": "b", "n": {2**60 + 1}}}\n')
    toy.job(path, output).run()
    assert pq.read_table(output)["n"].to_pylist() == ["0.5", str(2**60 + 1)]


@pytest.mark.parametrize(("name", "other"), [("topic_score", "task 'topic'"), ("truncated", "the mark of cut texts")])
def test_no_answer_is_written_over_another(toy, tmp_path, name, other):
    path, model = tmp_path / "in.csv", toy.Toy()
    path.write_text("text\ngoal\n")
    model.tasks[3] = model.tasks[0].model_copy(update={"name": name})
    with pytest.raises(ConfigError, match=f"Task '{name}' and {other} would both write the column '{name}'"):
        toy.job(path, tmp_path / "out.csv", model=model, tasks=None).run()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (["a"], "holds no text but a list"),
        ({"a": 1}, "holds no text but a dict"),
        ("  ", "there is no text"),
        (3, None),
    ],
)
def test_cells_that_are_no_text_are_rejected(toy, tmp_path, value, reason):
    path, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text(json.dumps({"text": value}))
    summary = toy.job(path, output).run()
    assert summary.rejected == (reason is not None)
    if reason:
        assert reason in rows_of(tmp_path / "out.jsonl.rejects.jsonl")[0]["reason"]


@pytest.mark.usefixtures("small_pieces")
def test_outputs_that_differ_in_their_ending_have_rejects_of_their_own(toy, tmp_path):
    for count, ending in enumerate(("csv", "parquet", "jsonl"), 1):
        path = tmp_path / f"in-{ending}.jsonl"
        path.write_text("\n".join(json.dumps({"text": text}) for text in ["late goal", *[None] * count]))
        assert toy.job(path, tmp_path / f"out.{ending}").run().rejected == count
    for count, ending in enumerate(("csv", "parquet", "jsonl"), 1):
        assert len(rows_of(tmp_path / f"out.{ending}.rejects.jsonl")) == count


def test_the_file_that_a_link_leads_to_is_written(toy, tmp_path):
    source, place = tmp_path / "in.csv", tmp_path / "elsewhere"
    source.write_text('text\na\n""\n')
    place.mkdir()
    for name in ("out.csv", "bad.jsonl"):
        (tmp_path / name).symlink_to(place / name)
    job = toy.job(source, tmp_path / "out.csv", rejects=tmp_path / "bad.jsonl")
    assert job.journal.folder.parent == place.resolve()
    job.run()
    assert sorted(path.name for path in place.iterdir()) == ["bad.jsonl", "out.csv"]
    assert (tmp_path / "out.csv").is_symlink() and (tmp_path / "bad.jsonl").is_symlink()


def test_a_named_reject_file_is_written_even_if_nothing_is_rejected(toy, tmp_path):
    path, rejects = tmp_path / "in.csv", tmp_path / "bad.csv"
    path.write_text("text\ngoal\n")
    toy.job(path, tmp_path / "out.csv", rejects=rejects).run()
    assert rejects.read_text() == "row,line,reason,start\n"
    path.write_text("id,text\n1,goal\n2,\n")
    toy.job(path, tmp_path / "out.csv", rejects=rejects, overwrite=True).run()
    assert rows_of(rejects) == [{"row": "2", "line": "3", "reason": "there is no text in 'text'.", "start": "2"}]


@pytest.mark.usefixtures("small_pieces")
def test_an_unfinished_job_of_other_options_is_not_mixed_in(toy, write, tmp_path):
    path, output = write("csv", 30), tmp_path / "out.csv"

    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toy.job(path, output).run(stop)
    with pytest.raises(ConfigError, match=r"differs in: model, prefix\. .*--force"):
        toy.job(path, output, model_id="other", prefix="p_").run()
    os.utime(path, ns=(0, 0))
    with pytest.raises(ConfigError, match="differs in: input's size and time"):
        toy.job(path, output).run()
    assert toy.job(path, output, overwrite=True).run().resumed == 0


def test_two_processes_cannot_do_the_same_job(toy, write, tmp_path):
    path, output = write("csv", 10), tmp_path / "out.csv"
    second = []

    def again(progress):
        with pytest.raises(FolderError, match="another process"):
            toy.job(path, output).run()
        second.append(progress)

    assert toy.job(path, output).run(again).rows == 10
    assert [(step.rows, step.expected, step.resumed) for step in second] == [(10, 10, 0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rejects": "bad.parquet"}, "Possible endings: .csv, .tsv, .jsonl"),
        ({"rejects": "out.jsonl"}, "both for the answers and for the rejected rows"),
        ({"rejects": "sub/../out.jsonl"}, "both for the answers and for the rejected rows"),
        ({"rejects": "link/out.jsonl"}, "both for the answers and for the rejected rows"),
        ({"rejects": "in.csv"}, "is the input"),
        ({"rejects": "sub/../in.csv"}, "is the input"),
        ({"rejects": "nowhere/bad.csv"}, "There is no folder"),
        ({"spreadsheet_safe": True}, "--spreadsheet-safe is for .csv and .tsv"),
    ],
)
def test_outputs_that_cannot_be_are_told_before_the_work(toy, write, tmp_path, options, message):
    path = write("csv", 3)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    if "rejects" in options:
        options = {"rejects": tmp_path / options["rejects"]}
    with pytest.raises(ConfigError, match=message):
        toy.job(path, tmp_path / "out.jsonl", **options)


def test_a_failed_start_leaves_nothing(toy, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("id,text\n")
    with pytest.raises(DataError, match="has no rows"):
        toy.job(path, tmp_path / "out.csv").run()
    assert names_in(tmp_path) == ["in.csv"]


def test_spreadsheet_safe_cells_are_escaped_and_numbers_are_not(toy, tmp_path):
    path, output = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text('=id,text\n+1,"=HYPERLINK(""x"")"\n')
    toy.job(path, output, spreadsheet_safe=True).run()
    (row,) = rows_of(output)
    assert (row["'=id"], row["text"]) == ("'+1", '\'=HYPERLINK("x")')
    assert float(row["tone"]) == toy.Toy().label(['=HYPERLINK("x")'])[0].tasks["tone"].label


@pytest.mark.usefixtures("small_pieces")
def test_what_appears_in_the_place_of_the_output_meanwhile_is_not_replaced(toy, write, tmp_path):
    path, output = write("csv", 60), tmp_path / "out.csv"

    with pytest.raises(Stopped):
        toy.job(path, output).run(stop)
    output.write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        toy.job(path, output)
    assert output.read_text() == "mine"
    assert toy.job(path, output, overwrite=True).run().resumed > 0  # with leave it goes on where it was
    before = output.read_bytes()
    with pytest.raises(Stopped):
        toy.job(path, output, overwrite=True).run(stop)
    toy.job(path, output).run()  # the leave that it began with holds
    assert output.read_bytes() == before


@pytest.mark.parametrize("name", ["out.csv", "bad.jsonl"])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.usefixtures("small_pieces")
def test_leave_to_replace_covers_what_was_there_when_it_was_given(toy, write, tmp_path, name, there):
    path, files = write("csv", 20), (tmp_path / "out.csv", tmp_path / "bad.jsonl")
    if there:
        for file in files:
            file.write_text("old")
    with pytest.raises(Stopped):
        toy.job(path, files[0], rejects=files[1], overwrite=True).run(stop)
    (tmp_path / "new").write_text("of another job")
    (tmp_path / "new").replace(tmp_path / name)
    with pytest.raises(ConfigError, match=f"{name} exists already"):
        toy.job(path, files[0], rejects=files[1])
    assert (tmp_path / name).read_text() == "of another job"
    summary = toy.job(path, files[0], rejects=files[1], overwrite=True).run()
    assert summary.resumed == 4 and len(rows_of(files[0])) == 19 and len(rows_of(files[1])) == 1


@pytest.mark.parametrize("name", ["out.csv", "bad.jsonl"])
@pytest.mark.usefixtures("small_pieces")
def test_what_appears_while_a_resumed_job_runs_is_not_replaced(toy, write, tmp_path, name):
    path, files = write("csv", 20), (tmp_path / "out.csv", tmp_path / "bad.jsonl")
    with pytest.raises(Stopped):
        toy.job(path, files[0], rejects=files[1], overwrite=True).run(stop)

    def appear(progress):
        (tmp_path / name).write_text("mine")

    with pytest.raises(ConfigError, match=f"{name} appeared while the job was under way"):
        toy.job(path, files[0], rejects=files[1]).run(appear)
    assert (tmp_path / name).read_text() == "mine"
    (tmp_path / name).unlink()
    assert toy.job(path, files[0], rejects=files[1]).run().resumed == 20
    assert len(rows_of(files[0])) == 19 and len(rows_of(files[1])) == 1


@pytest.mark.usefixtures("small_pieces")
def test_leave_that_is_given_on_the_way_holds_from_then_on(toy, write, tmp_path):
    path, output = write("csv", 40), tmp_path / "out.csv"
    with pytest.raises(Stopped):
        toy.job(path, output).run(stop)
    output.write_text("old")
    with pytest.raises(Stopped):
        toy.job(path, output, overwrite=True).run(stop)
    assert toy.job(path, output).run().resumed == 8 and len(rows_of(output)) == 38


@pytest.mark.usefixtures("small_pieces")
def test_a_resumed_job_leaves_no_rejects_of_the_output_that_it_replaces(toy, tmp_path):
    path, output = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text('text\ngoal\n""\n')
    toy.job(path, output).run()
    assert len(rows_of(rejects_beside(output))) == 1
    path.write_text("text\n" + "goal\n" * 20)
    with pytest.raises(Stopped):
        toy.job(path, output, overwrite=True).run(stop)
    assert toy.job(path, output).run().rejected == 0
    assert names_in(tmp_path) == ["in.csv", "out.csv"] and len(rows_of(output)) == 20


@pytest.mark.usefixtures("small_pieces")
def test_a_journal_of_an_older_form_is_refused(toy, write, tmp_path):
    path, output = write("csv", 20), tmp_path / "out.csv"
    with pytest.raises(Stopped):
        toy.job(path, output, overwrite=True).run(stop)
    journal = journals.Journal(output)
    state = json.loads(journal.path.read_text()) | {"format": 1, "overwrite": True}
    del state["replaceable"]
    journal.path.write_text(json.dumps(state))
    output.write_text("mine")
    with pytest.raises(ConfigError, match=r"of another version\. Start anew by removing"):
        toy.job(path, output)
    assert output.read_text() == "mine"


@pytest.mark.parametrize("name", ["out.csv", "bad.jsonl"])
def test_what_appears_while_the_job_runs_is_not_replaced_and_the_work_not_lost(toy, write, tmp_path, name):
    path, files = write("csv", 20), (tmp_path / "out.csv", tmp_path / "bad.jsonl")

    def appear(progress):
        (tmp_path / name).write_text("mine")

    with pytest.raises(ConfigError, match="appeared while the job was under way"):
        toy.job(path, files[0], rejects=files[1]).run(appear)
    assert (tmp_path / name).read_text() == "mine"
    (tmp_path / name).unlink()
    assert toy.job(path, files[0], rejects=files[1]).run().resumed == 20
    assert len(rows_of(files[0])) == 19 and len(rows_of(files[1])) == 1


def test_what_is_no_object_in_a_json_file_costs_that_row_alone(toy, tmp_path):
    path, output = tmp_path / "in.json", tmp_path / "out.jsonl"
    path.write_text('[7, {"id": 1, "text": "late goal"}, [3], null, {"id": 2, "text": "vote"}, "x"]')
    summary = toy.job(path, output).run()
    assert [row["id"] for row in rows_of(output)] == [1, 2] and summary.rejected == 4
    assert [(reject["row"], reject["reason"]) for reject in rows_of(rejects_beside(output))] == [
        (row, f"a row must be a JSON object, this is {what}.")
        for row, what in ((1, "a number"), (3, "a list"), (4, "a null"), (6, "a string"))
    ]
    path.write_text("[1, 2]")
    with pytest.raises(DataError, match="must be a JSON object"):
        toy.job(path, tmp_path / "other.jsonl").run()


def test_columns_of_a_json_file_keep_their_types_in_parquet(toy, tmp_path):
    path, output = tmp_path / "in.json", tmp_path / "out.parquet"
    path.write_text('[{"id": 1, "text": "late goal", "price": 2, "ok": true}, {"id": null, "text": "", "price": 1.5}]')
    toy.job(path, output).run()
    (row,) = rows_of(output)
    assert (row["id"], row["price"], row["ok"]) == (1, 2.0, True)


def test_two_jobs_do_not_write_their_rejects_to_one_file(toy, write, tmp_path):
    path, rejects = write("csv", 20), tmp_path / "bad.jsonl"

    def begin(progress):
        with pytest.raises(FolderError, match=r"bad\.jsonl"):
            toy.job(path, tmp_path / "other.csv", rejects=rejects).run()

    toy.job(path, tmp_path / "out.csv", rejects=rejects).run(begin)
    assert len(rows_of(rejects)) == 1 and names_in(tmp_path) == sorted([path.name, "out.csv", "bad.jsonl"])


@pytest.mark.parametrize("ending", ["json", "parquet", "arrow"])
def test_a_row_with_a_nul_in_a_column_that_is_not_asked_is_rejected(toy, tmp_path, ending):
    rows = [{"text": "late goal", "note": "x"}, {"text": "late vote", "note": "x\0y"}]
    path, output = tmp_path / f"in.{ending}", tmp_path / "out.csv"
    if ending == "json":
        path.write_text(json.dumps(rows))
    elif ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    summary = toy.job(path, output).run()
    assert (summary.rows, summary.rejected) == (1, 1) and b"\0" not in output.read_bytes()
    (reject,) = rows_of(rejects_beside(output))
    assert reject["row"] == 2 and reject["reason"] == "column 'note' holds a NUL character."
    assert reject["start"] == "late vote | x\\x00y"


def test_a_csv_of_a_file_with_a_nul_in_the_name_of_a_column_can_be_read(toy, tmp_path):
    path, output = tmp_path / "in.json", tmp_path / "out.csv"
    path.write_text(json.dumps([{"text": "late goal", "b\0": 1}, {"text": "vote"}]))
    rejects = tmp_path / "bad.csv"
    summary = toy.job(path, output, rejects=rejects).run()
    assert (summary.rows, summary.rejected) == (1, 1)
    assert b"\0" not in output.read_bytes() + rejects.read_bytes()
    assert toy.job(output, tmp_path / "again.csv", prefix="again_").run().rows == 1
