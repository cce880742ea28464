import csv
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import onepass
from onepass.data import check, seen
from onepass.data.check import check_data
from onepass.data.findings import Finding, Report
from onepass.errors import DataError
from onepass.heads import make_kind
from onepass.tasks import Task, TaskFile


def table(path: Path, rows: Iterable[Sequence[Any]], columns: Sequence[str] = ("text", "label")) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def rows(count: int, labels: Sequence[Any] = ("no", "yes"), start: str = "a text with number") -> list[tuple[str, Any]]:
    return [(f"{start} {i}", labels[i % len(labels)]) for i in range(count)]


def report(*tasks: dict[str, Any], **train: Any) -> Report:
    made = [Task(**{"name": "tone", "text": ("text",), "label": "label", **task}) for task in tasks]
    file = TaskFile(path=Path("tasks.yaml"), tasks={task.name: task for task in made}, train=train)
    return check_data(file, {task.name: make_kind(task) for task in made})


def one(found: Report, sort: str) -> Finding:
    (finding,) = (finding for finding in found.findings if finding.sort == sort)
    return finding


def sorts(found: Report) -> list[str]:
    return [finding.sort for finding in found.findings]


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """400 rows without a fault."""
    return table(tmp_path / "train.csv", rows(400))


def test_good_data_have_counts_and_no_findings(tmp_path: Path, train: Path) -> None:
    validation = table(tmp_path / "validation.csv", rows(40, start="another"))
    test = table(tmp_path / "test.csv", rows(30, ("yes", "no", "no"), start="a third"))
    found = report({"train": train, "validation": validation, "test": test})
    assert found.findings == []
    assert found.tasks["tone"].rows == {"train": 400, "validation": 40, "test": 30}
    assert found.tasks["tone"].labels["test"] == {"no": 20, "yes": 10}
    assert found.lines() == [
        "tone (classification): train 400, validation 40, test 30",
        "  train: no (200), yes (200)",
        "  validation: no (20), yes (20)",
        "  test: no (20), yes (10)",
        "0 faults, 0 warnings.",
    ]


def test_the_report_is_json(tmp_path: Path, train: Path) -> None:
    found = report({"train": train, "test": table(tmp_path / "test.csv", [("a", "maybe"), ("a", "yes")])})
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["tasks"]["tone"]["rows"] == {"train": 400, "test": 2}
    assert plain["tasks"]["tone"]["validation_share"] == 0.1
    (fault,) = plain["faults"]
    assert (fault["task"], fault["sort"], fault["rows"], fault["count"]) == ("tone", "unknown label", [1], 1)
    assert {warning["sort"] for warning in plain["warnings"]} == {"duplicates", "conflicts"}


def test_all_faults_of_all_files_are_found_in_one_run(tmp_path: Path, train: Path) -> None:
    validation = table(tmp_path / "v.csv", [*rows(30, start="b"), ("c", "yess"), ("d", "never"), ("e", "yess")])
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "a", "label": "x"}\n{"text": \n{"text": "b", "label": "y"}\n[]\n')
    latin = tmp_path / "latin.csv"
    latin.write_bytes(b"text,label\ncaf\xe9,x\n")
    found = report(
        {"train": train, "validation": validation},
        {"name": "column", "train": train, "label": "lable"},
        {"name": "single", "train": table(tmp_path / "single.csv", rows(50, ("yes",)))},
        {"name": "broken", "train": broken},
        {"name": "latin", "train": latin},
        {"name": "missing", "train": tmp_path / "missing.csv"},
        {"name": "empty", "train": table(tmp_path / "empty.csv", [("a", ""), ("b", "")])},
        {"name": "score", "kind": "regression", "train": table(tmp_path / "n.csv", [("a", 1), ("b", "x"), ("c", 2)])},
    )
    faults = [(finding.task, finding.sort) for finding in found.faults]
    assert faults == [
        ("tone", "unknown label"),
        ("tone", "unknown label"),
        ("column", "missing column"),
        ("single", "single label"),
        ("broken", "broken row"),
        ("broken", "broken row"),
        ("latin", "unreadable file"),
        ("missing", "unreadable file"),
        ("empty", "no rows"),
        ("score", "bad row"),
    ]
    lines = "\n".join(found.lines())
    assert "task 'tone' has the label 'yess' in validation, which is not among its labels" in lines
    assert f"({validation}, rows 31, 33)" in lines
    assert "Labels: no, yes. Did you mean 'yes'?" in lines
    assert "task 'column' reads the column 'lable', which is not there" in lines
    assert "Columns: text, label. Did you mean 'label'?" in lines
    assert "task 'single' has nothing to learn: every training row says 'yes'" in lines
    assert f"({broken}, row 2)" in lines and f"({broken}, row 4)" in lines
    assert "not UTF-8" in lines and "There is no file" in lines
    assert "the column 'label' is blank in 2 rows" in lines
    assert "task 'score' has 'x' where a number is needed" in lines
    assert lines.endswith("10 faults, " + f"{len(found.warnings)} warnings.")


def test_a_file_that_several_tasks_read_is_read_once_and_its_faults_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = table(tmp_path / "wide.csv", [("a", "x", "1"), ("b", "y"), ("c", "", "2")], ("text", "one", "two"))
    reads: list[Any] = []
    read_chunks = check.read_chunks
    monkeypatch.setattr(check, "read_chunks", lambda *a, **k: reads.append(a) or read_chunks(*a, **k))
    found = report({"name": "one", "train": wide, "label": "one"}, {"name": "two", "train": wide, "label": "two"})
    assert len(reads) == 1
    assert one(found, "broken row").rows == (2,)
    assert "task 'one' (and two) has a row that cannot be read: " in str(one(found, "broken row"))
    assert [counts.rows["train"] for counts in found.tasks.values()] == [1, 2]


def test_a_file_read_in_part_gives_no_verdict_on_labels(tmp_path: Path) -> None:
    train = tmp_path / "train.csv"
    train.write_bytes(b"text,label\n" + b"".join(b"text %d,yes\n" % i for i in range(9000)) + b"\xff,no\n")
    validation = table(tmp_path / "validation.csv", rows(30, start="b"))
    assert sorts(report({"train": train, "validation": validation})) == ["unreadable file"]


def test_labels_that_the_task_names_are_the_only_possible_ones(tmp_path: Path, train: Path) -> None:
    found = report({"train": train, "labels": ("no", "Yes", "maybe")})
    assert one(found, "unknown label").count == 200
    assert "Did you mean 'Yes'?" in one(found, "unknown label").advice
    assert "2 labels without a row in train: Yes, maybe" in one(found, "label not in train").found
    assert "'Yes', 'yes'" in one(found, "label variants").found


def test_many_unknown_labels_are_summed_up(tmp_path: Path, train: Path) -> None:
    test = table(tmp_path / "test.csv", rows(60, [f"other{i}" for i in range(30)], start="b"))
    faults = report({"train": train, "test": test}).faults
    assert len(faults) == 21
    assert "10 other labels in test" in faults[-1].found and faults[-1].count == 20


def test_a_constant_number_cannot_be_learned(tmp_path: Path) -> None:
    found = report({"kind": "regression", "train": table(tmp_path / "n.csv", rows(300, ("1.5", "1.50")))})
    assert "every training row says 1.5" in one(found, "single label").found


def test_blank_texts_are_a_warning_because_training_passes_them_over(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", [*rows(300), ("", "yes"), (" \t", "no"), ("", "")])
    found = report({"train": path})
    assert (one(found, "blank text").severity, one(found, "blank text").rows) == ("warning", (301, 302))
    assert found.tasks["tone"].rows == {"train": 300}


def test_repeated_texts_are_found_whatever_their_case_and_space(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", [("A  Text With number 7 ", "yes"), *rows(300), ("a text with number 8", "no")])
    found = report({"train": path})
    assert (one(found, "duplicates").rows, one(found, "duplicates").count) == ((9, 302), 2)
    assert "conflicts" not in sorts(found)


def test_conflicts_name_every_row_of_the_text(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", [*rows(300), ("a text with number 8", "yes"), ("a text with number 8", "no")])
    found = report({"train": path})
    assert one(found, "conflicts").rows == (9, 301, 302)
    assert "labels 1 text differently from row to row in train" in one(found, "conflicts").found


def test_a_text_with_other_words_marked_is_another_question(tmp_path: Path) -> None:
    marked = [(f"{n} the man saw the dog as it ran", "it", who, n % 2) for n in range(60) for who in ("man", "dog")]
    marked += [
        ("0 The man saw the  dog as it ran", "it", "man", 1),
        ("1 the man saw the dog as it ran", "it", "dog", 1),
    ]
    path = table(tmp_path / "wsc.csv", marked, ("text", "one", "other", "label"))
    asked = ("0 the man saw the dog as it ran", "the", "it", 1), ("1 the man saw the dog as it ran", "it", "man", 0)
    test = table(tmp_path / "test.csv", asked, ("text", "one", "other", "label"))
    found = report({"kind": "words", "options": {"words": ["one", "other"]}, "train": path, "test": test})
    assert one(found, "duplicates").rows == (121, 122)
    assert one(found, "conflicts").rows == (1, 121)
    assert "has 2 of 2 rows of test in train too, 1 of them with another label" in one(found, "leakage").found


def test_negative_numbers_conflict_too(tmp_path: Path) -> None:
    path = table(tmp_path / "n.csv", [*rows(300, (1, 2)), ("same", -1), ("same", -2)])
    assert one(report({"kind": "regression", "train": path}), "conflicts").rows == (301, 302)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_texts_of_train_in_other_splits_are_leakage(tmp_path: Path, train: Path, split: str) -> None:
    extra = [("A text with number 3", "yes"), ("a text with number 4", "yes")]
    other = table(tmp_path / "other.csv", [*rows(40, start="b"), *extra])
    finding = one(report({"train": train, split: other}), "leakage")
    assert f"2 of 42 rows of {split} in train too, 1 of them with another label" in finding.found
    assert (finding.rows, finding.file) == ((41, 42), str(other))


def test_the_same_file_twice_is_leakage(train: Path) -> None:
    assert "the same file as train and as test" in one(report({"train": train, "test": train}), "leakage").found


def test_texts_of_a_test_in_the_training_data_of_other_tasks_are_leakage(tmp_path: Path, train: Path) -> None:
    other = table(tmp_path / "other.csv", [*rows(300, start="b"), ("a text with number 1", "no")])
    test = table(tmp_path / "test.csv", [("b 7", "no"), *rows(3), *rows(30, start="c")])
    found = report(
        {"train": train},
        {"name": "other", "train": other, "test": test},
        {"name": "third", "train": train},
    )
    finding = one(found, "leakage between tasks")
    # The second row of "a text with" is in the task's own train: it has its own finding.
    assert (finding.task, finding.rows) == ("other", (2, 4))
    assert "2 rows of test in the train of other tasks: tone (2), third (2)" in finding.found
    assert one(found, "leakage").rows == (1, 3)


def test_pairs_leak_only_as_pairs(tmp_path: Path) -> None:
    columns = ("text", "other", "label")
    train = table(tmp_path / "a.csv", [(f"a{i}", f"b{i}", "yn"[i % 2]) for i in range(300)], columns)
    test = table(tmp_path / "b.csv", [("a1", "b2", "y"), ("b3", "a3", "n"), ("a4 b4", "", "n")], columns)
    found = report({"train": train, "test": test, "text": ("text", "other")})
    assert sorts(found) == ["blank text"]


@pytest.mark.parametrize(
    ("labels", "sort", "message"),
    [
        (["yes"] * 200 + ["no"] * 100 + ["No"] * 50, "label variants", "'no', 'No'"),
        (["new york"] * 200 + ["new  york"] * 100, "label variants", "'new york', 'new  york'"),
        (["1"] * 200 + ["1.0"] * 100 + ["0"] * 50, "label variants", "'1', '1.0'"),
        (
            ["caf\u00e9"] * 200 + ["cafe\u0301"] * 100 + ["no"] * 50,
            "label variants",
            r"written 'caf\xe9', 'cafe\u0301'",
        ),
        (["yes"] * 200 + ["yes\u200b"] * 100 + ["no"] * 50, "label variants", r"written 'yes', 'yes\u200b'"),
        (["yes", "no", "NA"] * 20, "missing values", "look like missing values: NA (20)"),
        (["yes"] * 200 + ["no"] * 7 + ["so"] * 8, "rare labels", "1 label with fewer than 8 rows in train: no (7)"),
        (["yes", "no", "nan"] * 20 + ["None"] * 20, "missing values", "look like missing values: nan (20), None (20)"),
        (["yes", "no", "\\N"] * 20, "missing values", "look like missing values: \\N (20)"),
        (["film", "news", "news/film"] * 20, "joined labels", "made of its other labels: news/film (20)"),
        (["film", "news", "film\nnews"] * 20, "joined labels", r"made of its other labels: film\nnews (20)"),
        (["yes"] * 211 + ["no"] * 10, "imbalance", "211 rows in train are 'yes', 10 'no'"),
        ([f"label {i // 2}" for i in range(300)] + ["x"], "rare labels", "151 labels with fewer than 8 rows"),
        ([f"label {i}" for i in range(300)], "many labels", "300 different labels in 300 rows"),
    ],
)
def test_odd_labels_are_warned_of(tmp_path: Path, labels: list[str], sort: str, message: str) -> None:
    path = table(tmp_path / "t.csv", [(f"text {i}", label) for i, label in enumerate(labels)])
    found = report({"train": path})
    assert found.faults == []
    assert message in one(found, sort).found


def test_rows_of_a_multilabel_task_with_a_blank_cell_are_told(tmp_path: Path) -> None:
    labels = ["a;b", "", "b", "[]"] * 50
    path = table(tmp_path / "t.csv", [(f"text {i}", label) for i, label in enumerate(labels)])
    found = report({"train": path, "kind": "multilabel", "validation": 0.2})
    assert found.tasks["tone"].rows == {"train": 150}
    (finding,) = found.findings
    assert finding.found == "passes over 50 rows of train with a blank cell in 'label'"
    assert "write [] where none of the labels fits" in finding.advice
    assert sorts(report({"train": path, "validation": 0.2})) == []


def test_a_single_tag_cannot_be_learned(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"text": ["w"] * n, "label": ["O"] * n}) + "\n" for n in range(1, 200)))
    assert "every training row says" in one(report({"train": path, "kind": "tagging"}), "single label").found


def test_what_training_does_not_refuse_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    tagged = [{"text": [f"n{n}", "in", f"p{n}"], "label": ["B-person", "O", "B-place"]} for n in range(200)]
    path.write_text("".join(json.dumps(row) + "\n" for row in tagged))
    found = report({"train": path, "kind": "tagging"})
    assert not found.faults and "the same answer in every training row" in one(found, "one answer").found


@pytest.mark.parametrize(
    ("kind", "row", "reason"),
    [
        ("multilabel", {"text": "w {}", "label": ["x"]}, "each of its 60 training rows has 'x'"),
        ("extraction", {"text": "w {}", "context": "w", "label": []}, "none of its 60 training rows has one"),
    ],
)
def test_what_is_a_fault_is_refused_by_training(
    tmp_path: Path, encoder: Path, kind: str, row: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row | {"text": row["text"].format(n)}) + "\n" for n in range(60)))
    text = ("text", "context") if "context" in row else ("text",)
    task = {"train": path, "validation": path, "text": text, "kind": kind}
    assert "has nothing to learn" in one(report(task), "single label").found
    listed = ", ".join(text)
    tasks = f"tasks: {{a: {{train: t.jsonl, validation: t.jsonl, text: [{listed}], label: label, kind: {kind}}}}}\n"
    (tmp_path / "tasks.yaml").write_text(f"encoder: {encoder}\ntrain: {{max_length: 32}}\n{tasks}")
    with pytest.raises(DataError, match=reason):
        onepass.train(tmp_path / "tasks.yaml", progress=False)


def test_labels_named_in_options_are_among_those_found(tmp_path: Path, train: Path) -> None:
    found = report({"train": train, "options": {"class_weights": {"yess": 2.0}}}, {"name": "b", "train": train})
    (fault,) = found.faults
    assert fault.task == "tone" and "class_weights: Unknown label 'yess'. Did you mean 'yes'?" in fault.found


def test_long_numbers_are_not_the_same_for_being_close(tmp_path: Path) -> None:
    ids = table(tmp_path / "ids.csv", rows(100, ("90071992547409921", "90071992547409922")))
    assert "label variants" not in sorts(report({"train": ids}))
    same = table(tmp_path / "same.csv", rows(100, ("1", "1.0", "2")))
    assert "'1', '1.0'" in one(report({"train": same}), "label variants").found


def test_twenty_times_as_many_rows_are_even_enough(tmp_path: Path) -> None:
    labels = ["yes"] * 200 + ["no"] * 10
    assert sorts(report({"train": table(tmp_path / "t.csv", [(f"t {i}", x) for i, x in enumerate(labels)])})) == []


def test_a_short_validation_is_warned_of(tmp_path: Path, train: Path) -> None:
    validation = table(tmp_path / "v.csv", rows(19, start="b"))
    found = report({"train": train, "validation": validation})
    assert "has 19 rows in validation" in one(found, "short validation").found
    found = report({"train": table(tmp_path / "small.csv", rows(150))})
    assert "validates on 0.1 of 150 rows, about 15" in one(found, "short validation").found


def test_a_label_without_a_row_in_validation_is_warned_of(tmp_path: Path) -> None:
    train = table(tmp_path / "t.csv", rows(300, ("a", "b", "c")))
    found = report({"train": train, "validation": table(tmp_path / "v.csv", rows(30, ("a", "b"), start="b"))})
    assert "1 label in train without a row in validation: c (100)" in one(found, "label not in validation").found


def test_long_texts_are_warned_of_by_the_length_that_is_read(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", [*rows(300), ("x" * 2048, "yes"), ("x" * 2049, "no")])
    assert one(report({"train": path}), "long text").rows == (302,)
    assert sorts(report({"train": path}, max_length=256)) == []


def test_hub_sets_are_said_not_to_be_checked() -> None:
    found = report({"train": "hub:glue/sst2"})
    assert one(found, "not checked").severity == "warning"
    assert found.lines()[0] == "tone (classification): no rows"


def test_a_column_of_texts_taken_for_labels_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "MAX_LABELS", 50)
    train = table(tmp_path / "t.csv", rows(400, [f"label {i}" for i in range(200)]))
    found = report({"train": train, "test": table(tmp_path / "v.csv", rows(30, ("label 199", "x"), start="b"))})
    assert len(found.tasks["tone"].labels["train"]) == 50
    assert found.faults == [] and "many labels" in sorts(found)


def test_odd_characters_in_labels_stay_on_one_line(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", rows(300, ("yes\nno", "\x1b[31mred", "x" * 500)))
    assert all(line.isprintable() and len(line) < 400 for line in report({"train": path}).lines())


def test_checking_needs_no_torch() -> None:
    code = "import sys, onepass.data.check, onepass.data.guess; sys.exit('torch' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0


def test_a_tag_of_every_text_makes_a_task_no_uneven_one(tmp_path: Path) -> None:
    tags = [json.dumps(["O", "B-place" if i % 10 == 0 else "O"]) for i in range(400)]
    path = table(tmp_path / "train.csv", [(f"near w{i}", tag) for i, tag in enumerate(tags)])
    assert sorts(report({"train": path, "kind": "tagging"})) == []


def test_tags_that_are_numbers_are_told_for_each_word_would_be_a_span(tmp_path: Path) -> None:
    named, numbered = (tmp_path / name for name in ("named.csv", "numbered.csv"))
    for path, names in ((named, ["O", "B-place"]), (numbered, [0, 1])):
        table(path, [(f"near w{i}", json.dumps([names[0], names[i % 2]])) for i in range(400)])
    found = report({"train": numbered, "kind": "tagging"})
    assert "has tags that are numbers, and no 'O': 0 (400), 1 (200)" in one(found, "numbered tags").found
    assert sorts(report({"train": named, "kind": "tagging"})) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": ["a", "list"], "label": "yes"}, "has a list in 'text' where a text is needed"),
        ({"text": {"title": "a"}, "label": "yes"}, "has an object in 'text' where a text is needed"),
        ({"text": "a text", "label": ["yes"]}, "has a list where one label is needed. Rows with any number of labels"),
    ],
)
def test_lists_and_objects_are_no_texts_and_no_labels(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(json.dumps(row) for _ in range(3)))
    assert message in one(report({"train": path}), "bad row").found


def test_bytes_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": [b"a", b"b"], "label": ["yes", "no"]}), path)
    assert "has bytes in 'text' where a text is needed" in one(report({"train": path}), "bad row").found


def test_labels_that_are_made_of_others_are_told(tmp_path: Path) -> None:
    labels = ("Film, TV", "News", "Film", "TV")
    found = report({"train": table(tmp_path / "train.csv", rows(400, labels))})
    assert one(found, "joined labels").found.endswith("made of its other labels: Film, TV (100)")
    assert sorts(report({"train": table(tmp_path / "train.csv", rows(400, labels[:2]))})) == []


def test_a_first_line_that_looks_like_a_row_is_told(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("\n".join(f"this is the text {i},{'ab'[i % 2]}" for i in range(40)))
    found = report({"train": path, "text": "this is the text 0", "label": "a"})
    assert "'a' for a column and for a label" in one(found, "no header").found


def test_a_file_that_breaks_off_gives_no_verdict_on_labels(tmp_path: Path) -> None:
    """After a wrong quote it is open where rows begin."""
    train = table(tmp_path / "train.csv", rows(400, ("a", "b", "c")))
    lines = train.read_text().splitlines()
    train.write_text("\n".join([lines[0], "first,a", '"bad" quote,b', *lines[1:]]))
    validation = table(tmp_path / "validation.csv", rows(60, ("a", "b", "c"), start="another"))
    found = report({"train": train, "validation": validation, "options": {"class_weights": {"c": 2}}})
    assert [finding.sort for finding in found.findings if finding.severity == "fault"] == ["broken row"]
