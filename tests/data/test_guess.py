import csv
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onepass.data.columns import SAMPLE, Column, sample_columns
from onepass.data.guess import guess_task_file
from onepass.errors import DataError
from onepass.heads import KINDS, check_kinds
from onepass.tasks import Task, TaskFile, read_task_file


def table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([columns, *rows])
    return path


def labelled(path: Path, labels: Sequence[Any] = ("no", "yes"), columns: Sequence[str] = ("text", "label")) -> Path:
    return table(path, columns, [(f"some words about {i}", labels[i % len(labels)]) for i in range(40)])


def loaded(folder: Path, *paths: Path, **options: Any) -> TaskFile:
    """The guessed file, written, and read as training would read it."""
    written = folder / "tasks.yaml"
    written.write_text(guess_task_file(paths, base=folder, **{"kinds": KINDS, **options}), encoding="utf-8")
    return read_task_file(written, checks=[check_kinds])


def only(file: TaskFile) -> Task:
    (task,) = file.tasks.values()
    return task


def test_one_file_is_one_task_with_its_name(tmp_path: Path) -> None:
    task = only(loaded(tmp_path, labelled(tmp_path / "data" / "Hot Topics!.csv")))
    assert (task.name, task.kind, task.text, task.label) == ("hot_topics", "classification", ("text",), "label")
    assert task.train == tmp_path / "data" / "Hot Topics!.csv"


def test_every_guess_is_explained_and_other_options_are_shown(tmp_path: Path) -> None:
    text = guess_task_file([labelled(tmp_path / "tone.csv", ("calm", "angry", "angry"))], base=tmp_path, kinds=KINDS)
    assert text.splitlines()[3:] == [
        "# encoder: embedded  # the default; or a hub name, or a folder with published weights",
        "# method: readers  # the default; with options: {name: readers, depth: 2, tokens: 2}",
        "",
        "tasks:",
        "  tone:",
        "    kind: classification  # 'label' has 2 different values",
        "    train: tone.csv",
        "    text: text  # by its name",
        "    label: label  # by its name",
        "    # in all 40 rows: angry (26), calm (14)",
        "    # labels: [angry, calm]  # without it, those found in the file of train",
        "    # metric: accuracy  # the default; or macro_f1, f1, matthews",
        "    # validation: 0.1  # the default: this share of train; or a file",
        "    # test: FILE  # what the trained model is measured on",
        "    # weight: 1.0  # the default: factor of this task's loss",
        "",
        "# train: {epochs: 5, max_length: 128, seed: 0}  # for example; the defaults go by the number of rows",
    ]


def test_paths_are_as_seen_from_the_task_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labelled(tmp_path / "data" / "a.csv")
    monkeypatch.chdir(tmp_path)
    assert "train: data/a.csv\n" in guess_task_file(["data/a.csv"])
    assert "train: ../data/a.csv\n" in guess_task_file(["data/a.csv"], base="configs")


@pytest.mark.parametrize(
    "names",
    [
        ("x-train.csv", "x-validation.csv", "x-test.csv"),
        ("x_train.csv", "x_dev.csv", "x_test.csv"),
        ("x.train.csv", "x.valid.csv", "x.test.csv"),
        ("x/train.csv", "x/val.csv", "x/test.csv"),
        ("x/train-00000-of-00001.csv", "x/validation-00000-of-00001.csv", "x/test-00000-of-00001.csv"),
        ("train_x.csv", "dev_x.csv", "test_x.csv"),
        ("train/x.csv", "dev/x.csv", "test/x.csv"),
        ("x.csv", "X-Dev.csv", "x-TEST.csv"),
        ("x/train_small.csv", "x/dev.csv", "x/test.csv"),
    ],
)
def test_splits_of_a_task_are_joined(tmp_path: Path, names: tuple[str, ...]) -> None:
    paths = [labelled(tmp_path / name) for name in names]
    task = only(loaded(tmp_path, *reversed(paths)))
    assert task.name.casefold() == "x"
    assert [task.train, task.validation, task.test] == paths


def test_hidden_files_of_a_folder_are_no_data(tmp_path: Path) -> None:
    (tmp_path / "data" / ".cache").mkdir(parents=True)
    for name in ("tone.csv", "._tone.csv", ".cache/old.csv"):
        (tmp_path / "data" / name).write_text("text,label\n" + "a good day,yes\na bad day,no\n" * 4)
    assert list(loaded(tmp_path, tmp_path / "data").tasks) == ["tone"]


def test_several_files_are_several_tasks_and_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    for name in ("a.csv", "b-train.csv", "b-test.csv", "c/train.csv", "c/test.csv"):
        labelled(tmp_path / "data" / name)
    (tmp_path / "data" / "README.md").write_text("not data")
    file = loaded(tmp_path, tmp_path / "data")
    assert {name: task.test is not None for name, task in file.tasks.items()} == {"a": False, "b": True, "c": True}


def test_a_file_that_has_only_a_test_to_its_name_is_trained_on_and_says_so(tmp_path: Path) -> None:
    path = labelled(tmp_path / "x-test.csv")
    assert only(loaded(tmp_path, path)).train == path
    assert "# No file for train was given; the one for test takes its place." in guess_task_file([path])


def test_a_second_file_of_the_same_split_is_left_out_and_named(tmp_path: Path) -> None:
    paths = [labelled(tmp_path / "x" / name) for name in ("train.csv", "dev.csv", "dev_hard.csv")]
    assert only(loaded(tmp_path, *paths)).validation == paths[1]
    assert "# dev_hard.csv was left out: dev.csv is its validation." in guess_task_file(paths)


def test_a_test_without_labels_is_left_out(tmp_path: Path) -> None:
    train = labelled(tmp_path / "x-train.csv", (0, 1))
    hidden = labelled(tmp_path / "x-test.csv", (-1,))
    other = labelled(tmp_path / "x-dev.csv", (0, 1), ("text", "lable"))
    task = only(loaded(tmp_path, train, hidden, other))
    assert (task.test, task.validation) == (None, 0.1)
    text = guess_task_file([train, hidden, other], base=tmp_path)
    assert "# test: x-test.csv  # left out: its labels are others, -1 (40)" in text
    assert "# validation: x-dev.csv  # left out: it has no column 'label'" in text


def test_a_wide_table_gives_a_task_for_each_column_of_labels(tmp_path: Path) -> None:
    rows = [(i, f"headline about {i}", "xyz"[i % 3], "yes" if i % 4 else "", 4 - i % 5) for i in range(40)]
    path = table(tmp_path / "news.csv", ["id", "headline", "Main Topic", "is_urgent", "mood"], rows)
    file = loaded(tmp_path, path)
    found = {name: (task.train, task.text, task.label) for name, task in file.tasks.items()}
    assert found == {
        "main_topic": (path, ("headline",), "Main Topic"),
        "is_urgent": (path, ("headline",), "is_urgent"),
        "mood": (path, ("headline",), "mood"),
    }


def test_a_wide_test_is_shared_by_the_tasks_it_has_labels_for(tmp_path: Path) -> None:
    labelled(tmp_path / "topic.csv", "xyz", ("text", "topic"))
    labelled(tmp_path / "tone.csv", "ab", ("text", "tone"))
    labelled(tmp_path / "other.csv", "pq")
    rows = [(f"new text {i}", "xyz"[i % 3], "ab"[i % 2]) for i in range(9)]
    test = table(tmp_path / "test.csv", ["text", "topic", "tone"], rows)
    file = loaded(tmp_path, tmp_path)
    assert {name: task.test for name, task in file.tasks.items()} == {"other": None, "tone": test, "topic": test}


def test_beside_a_column_named_label_other_columns_are_only_mentioned(tmp_path: Path) -> None:
    rows = [(f"some words {i}", "ab"[i % 2], "pqr"[i % 3], i / 7) for i in range(40)]
    path = table(tmp_path / "x.csv", ["text", "label", "domain", "length"], rows)
    assert only(loaded(tmp_path, path)).label == "label"
    text = guess_task_file([path])
    assert "# Other columns of few values, which could be tasks: domain (3)." in text
    assert "# Other columns of numbers, which could be tasks: length." in text


def test_of_a_label_and_its_name_the_name_is_taken(tmp_path: Path) -> None:
    rows = [(f"some words {i}", i % 3, ("red", "green", "blue")[i % 3]) for i in range(40)]
    path = table(tmp_path / "x.csv", ["text", "label", "label_text"], rows)
    assert only(loaded(tmp_path, path)).label == "label_text"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["premise", "hypothesis"], ("premise", "hypothesis")),
        (["Sentence_1", "sentence 2"], ("Sentence_1", "sentence 2")),
        (["question", "answer"], ("question", "answer")),
        (["title", "text"], ("text",)),
        (["body", "headline"], ("headline",)),
        (["reviewText", "reviewer"], ("reviewText",)),
        (["long", "short"], ("long",)),
    ],
)
def test_text_columns_are_found_by_name_then_by_length(
    tmp_path: Path, columns: list[str], expected: tuple[str, ...]
) -> None:
    rows = [(f"the longer one of the two, number {i}", f"a shorter {i}", "ab"[i % 2]) for i in range(40)]
    assert only(loaded(tmp_path, table(tmp_path / "x.csv", [*columns, "label"], rows))).text == expected


def test_an_answer_of_yes_or_no_is_no_text(tmp_path: Path) -> None:
    rows = [(f"is it so with {i}?", ("yes", "no")[i % 2]) for i in range(40)]
    task = only(loaded(tmp_path, table(tmp_path / "x.csv", ["question", "answer"], rows)))
    assert (task.text, task.label) == (("question",), "answer")


def test_ids_dates_and_addresses_are_neither_text_nor_label(tmp_path: Path) -> None:
    rows = [
        (f"0a9f-{i:030}", i, f"2024-01-{i % 28 + 1:02}", f"https://x.org/{i % 3}", f"some words {i}", "ab"[i % 2])
        for i in range(60)
    ]
    path = table(tmp_path / "x.csv", ["key", "n", "published", "where", "said", "verdict"], rows)
    task = only(loaded(tmp_path, path))
    assert (task.text, task.label) == (("said",), "verdict")


@pytest.mark.parametrize(
    ("labels", "kind", "reason"),
    [
        ((0, 1), "classification", "'label' has 2 different values"),
        ((1, 2, 3, 4, 5), "classification", "'label' holds 5 numbers; regression if their order matters"),
        ([i / 8 for i in range(40)], "regression", "'label' holds 40 different numbers, 0 to 4.875"),
        (list(range(100, 500, 10)), "regression", "'label' holds 40 different numbers, 100 to 490"),
        (("yes",), "classification", "one label alone cannot be learned"),
        ([f"l{i}" for i in range(40)], "classification", "is it the label?"),
    ],
)
def test_the_kind_follows_from_the_values(tmp_path: Path, labels: Sequence[Any], kind: str, reason: str) -> None:
    path = labelled(tmp_path / "x.csv", labels)
    assert only(loaded(tmp_path, path)).kind == kind
    assert f"    kind: {kind}  # " in (text := guess_task_file([path])) and reason in text


@pytest.mark.parametrize("labels", [("a|b", "a", "b|c", "c"), ("a, b", "b", "b, c"), ("['a']", "['a', 'b']")])
def test_several_labels_in_a_cell_are_multilabel_where_there_is_that_kind(tmp_path: Path, labels: list[str]) -> None:
    path = labelled(tmp_path / "x.csv", labels)
    assert only(loaded(tmp_path, path)).kind == "multilabel"
    assert "# multilabel would be the right kind: " in guess_task_file([path])
    assert "\n    kind: multilabel  # the cells of 'label'" in guess_task_file([path], kinds={"multilabel": None})


def test_parts_of_a_table_are_one_task(tmp_path: Path) -> None:
    for part in range(3):
        labelled(tmp_path / "tone" / "data" / f"train-0000{part}-of-00003.csv")
        labelled(tmp_path / "mood" / "train" / f"data-0000{part}-of-00003.csv", columns=("text", "mood"))
    (tmp_path / "mood" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    for name, files in ("tone", "data/train-*-of-00003.csv"), ("mood", "train/data-*-of-00003.csv"):
        task = only(loaded(tmp_path, tmp_path / name))
        assert (task.name, task.train) == (name, tmp_path / name / files)
        assert "# in all 120 rows" in (tmp_path / "tasks.yaml").read_text()


def test_a_column_of_one_text_is_not_what_is_asked_about(tmp_path: Path) -> None:
    rows = [("Rate this!", f"some words about {i}", ["no", "yes"][i % 2]) for i in range(40)]
    path = table(tmp_path / "x.csv", ("Title", "Input.body", "Answer.label"), rows)
    assert only(loaded(tmp_path, path)).text == ("Input.body",)


def test_a_name_with_text_in_it_goes_before_summaries(tmp_path: Path) -> None:
    rows = [(f"short words {i}", f"more words about {i}", ["no", "yes"][i % 2]) for i in range(40)]
    path = table(tmp_path / "x.csv", ("summary", "reviewText", "label"), rows)
    assert only(loaded(tmp_path, path)).text == ("reviewText",)


@pytest.mark.parametrize(
    ("column", "labels", "kind"),
    [
        ("label", range(77), "classification"),
        ("label", range(1, 78), "classification"),
        ("label", range(0, 770, 10), "regression"),
        ("rating", range(77), "regression"),
        ("label", [n + 0.5 for n in range(77)], "regression"),
    ],
)
def test_numbers_of_many_classes_are_no_regression(tmp_path: Path, column: str, labels: Any, kind: str) -> None:
    rows = [(f"some words about {i}", labels[i % 77]) for i in range(770)]
    assert only(loaded(tmp_path, table(tmp_path / "x.csv", ("text", column), rows))).kind == kind


def test_marked_parts_of_a_text_are_tagging(tmp_path: Path) -> None:
    for name, spans in ("label", [[5, 10, "sort"]]), ("spans", [{"start": 5, "end": 10, "label": "sort"}]):
        rows = [{"text": f"some words about {i}", name: spans if i % 2 else []} for i in range(40)]
        path = tmp_path / "x.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        task = only(loaded(tmp_path, path))
        assert (task.kind, task.text, task.label) == ("tagging", ("text",), name)


def test_options_that_are_objects_are_no_candidates(tmp_path: Path) -> None:
    rows = [
        {"text": f"some words about {i}", "options": [{"id": "a"}, {"id": "b"}], "accept": ["ab"[i % 2]], "answer": "x"}
        for i in range(40)
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    task = only(loaded(tmp_path, path))
    assert (task.kind, task.label) == ("multilabel", "accept")


def test_several_choices_of_label_studio_are_multilabel_beside_single_ones(tmp_path: Path) -> None:
    task = only(loaded(tmp_path, labelled(tmp_path / "x.csv", ("ham", "spam", "ham", '{"choices": ["ham", "odd"]}'))))
    assert (task.kind, task.options) == ("multilabel", {})


def test_lists_in_json_are_multilabel(tmp_path: Path) -> None:
    rows = [{"text": f"some words {i}", "labels": ["a", "b"][: i % 3]} for i in range(30)]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert "kind: multilabel" in guess_task_file([path], kinds={"multilabel": None})


@pytest.mark.parametrize("labels", [("arts, crafts", "home, garden"), ("1,5", "2,5", "1,0")])
def test_a_comma_does_not_make_several_labels(tmp_path: Path, labels: list[str]) -> None:
    assert "multilabel" not in guess_task_file([labelled(tmp_path / "x.csv", labels)])


def test_a_file_sorted_by_label_shows_all_its_labels(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", ["text", "label"], ((f"some words {i}", f"l{i // 3000}") for i in range(9000)))
    (_, label) = sample_columns(path)
    assert set(label.counts) == {"l0", "l1", "l2"}
    assert SAMPLE / 4 < len(label.cells) <= SAMPLE
    text = guess_task_file([path])
    assert f"# in a sample of {len(label.cells):,} rows: l" in text
    assert "# labels:" not in text  # perhaps not all of them were seen


def test_rows_that_alternate_are_sampled_evenly(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", ["text", "label"], ((f"some words {i}", "ab"[i % 2]) for i in range(9000)))
    counts = sample_columns(path)[1].counts
    assert 0.8 < counts["a"] / counts["b"] < 1.25


def test_names_are_made_different(tmp_path: Path) -> None:
    rows = [(f"some words {i}", "ab"[i % 2], "xyz"[i % 3]) for i in range(40)]
    one = table(tmp_path / "one.csv", ["text", "tone", "topic"], rows)
    two = table(tmp_path / "two.csv", ["text", "tone", "topic"], rows)
    three = [labelled(tmp_path / name) for name in ("x.csv", "x.tsv", "deep/x.csv")]
    names = list(loaded(tmp_path, one, two, *three).tasks)
    assert names == ["tone", "topic", "two_tone", "two_topic", "x", "x_2", "x_3"]


def test_a_given_name_is_the_task_s_or_stands_before_the_names(tmp_path: Path) -> None:
    one, two = labelled(tmp_path / "one.csv"), labelled(tmp_path / "two.csv")
    assert list(loaded(tmp_path, one, name="My Task").tasks) == ["my_task"]
    assert list(loaded(tmp_path, one, two, name="desk").tasks) == ["desk_one", "desk_two"]


def test_a_first_line_that_looks_like_a_row_is_told(tmp_path: Path) -> None:
    rows = [("politics", "senate votes on the budget"), ("sport", "a match in the rain")]
    path = table(tmp_path / "x.csv", ["sport", "late goal wins the match"], rows)
    with pytest.raises(DataError, match=r"looks like a row\. The first line must name the columns"):
        guess_task_file([path], base=tmp_path)


def test_where_nothing_can_be_guessed_the_error_shows_what_to_write(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", ["id", "price", "text"], [(i, i * 7 % 11, "") for i in range(30)])
    with pytest.raises(DataError) as error:
        guess_task_file([path], base=tmp_path)
    assert f"{path} has the columns id, price, text (all blank)." in str(error.value)
    assert "\ntasks:\n  x:\n    train: x.csv\n    text: " in str(error.value)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_few_rows_are_enough_for_columns_that_are_named_text_and_label(tmp_path: Path, rows: int) -> None:
    path = table(tmp_path / "x.csv", ["text", "label"], [(f"some words {i}", f"very good {i}") for i in range(rows)])
    assert only(loaded(tmp_path, path)).label == "label"


def test_a_first_line_that_is_a_row_is_remarked_on(tmp_path: Path) -> None:
    path = labelled(tmp_path / "x.csv", columns=["Late goal wins it", "no"])
    remark = "# The first line of x.csv looks like a row. It must name the columns: put `text,label` above it."
    assert remark in guess_task_file([path])
    assert remark not in guess_task_file([labelled(path, columns=["Late goal", "no"])])  # a column `spam` may say spam
    assert remark not in guess_task_file([labelled(path, columns=["Late goal wins it", "label"])])


def test_a_file_without_a_task_beside_others_is_mentioned(tmp_path: Path) -> None:
    good = labelled(tmp_path / "a.csv")
    bad = table(tmp_path / "b.csv", ["id", "price"], [(i, i * 7 % 11) for i in range(30)])
    assert list(loaded(tmp_path, good, bad).tasks) == ["a"]
    text = guess_task_file([good, bad], base=tmp_path)
    assert "# b.csv: no text or no label was found. Columns: id, price." in text


def test_files_that_cannot_be_read_are_named_all_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError) as error:
        guess_task_file([tmp_path / "empty.csv", tmp_path / "missing.csv", labelled(tmp_path / "a.csv")])
    assert "empty.csv" in str(error.value) and "missing.csv" in str(error.value)
    (tmp_path / "folder").mkdir()
    for paths in ([], [tmp_path / "folder"]):
        with pytest.raises(DataError, match="data file"):
            guess_task_file(paths)


def test_text_without_spaces_between_words_is_text() -> None:
    assert Column("x", [f"今天天气很好我们去公园{i}" for i in range(20)]).is_text
    assert not Column("x", [f"0a9f-77b2-{i}" for i in range(20)]).is_text


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), min_size=1, max_size=8).filter(
    lambda name: name.strip() and name.strip() != "said"
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(names, st.sets(names, min_size=2, max_size=4))
def test_whatever_the_columns_and_labels_are_called_the_file_loads(
    tmp_path: Path, column: str, labels: set[str]
) -> None:
    rows = [(f"some words {i}", sorted(labels)[i % len(labels)]) for i in range(20)]
    try:
        file = loaded(tmp_path, table(tmp_path / "x.csv", ["said", column], rows))
    except DataError:
        return  # ids, dates and addresses are no labels
    assert only(file).label == column.strip()
    written = tmp_path / "tasks.yaml"
    shown = written.read_text("utf-8")
    written.write_text(shown.replace("    # labels: ", "    labels: "), encoding="utf-8")
    read = only(read_task_file(written)).labels
    assert set(read) == {label.strip() for label in labels} or "# labels: " not in shown


def test_labels_with_a_comma_keep_it_where_another_sign_stands_between_them(tmp_path: Path) -> None:
    names = ("Arts, Crafts", "Music", "Film, TV", "News")
    cells = [*names, *("|".join(pair) for pair in pairwise(names))]
    task = only(loaded(tmp_path, labelled(tmp_path / "sections.csv", cells)))
    assert (task.kind, task.options) == ("multilabel", {"separator": "|"})


def test_a_file_that_only_lies_in_a_folder_is_left_out_if_it_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    labelled(tmp_path / "data" / "tone.csv")
    stray = tmp_path / "data" / "settings.json"
    stray.write_text('{"a": 1}')
    assert list(loaded(tmp_path, tmp_path / "data").tasks) == ["tone"]
    assert "settings.json" in caplog.text and "It is left out." in caplog.text
    with pytest.raises(DataError, match=r"settings\.json"):
        loaded(tmp_path, tmp_path / "data", stray)


def test_times_that_python_cannot_hold_are_in_nobodys_way(tmp_path: Path) -> None:
    when = pyarrow.array([1_600_000_000_000_000_001 + i for i in range(40)], pyarrow.timestamp("ns"))
    texts, labels = [f"some words about {i}" for i in range(40)], ["no", "yes"] * 20
    table = pyarrow.table({"text": texts, "label": labels, "when": when})
    pyarrow.parquet.write_table(table, tmp_path / "tone.parquet")
    assert only(loaded(tmp_path, tmp_path / "tone.parquet")).label == "label"


def test_a_broken_file_of_a_task_is_not_left_out_for_another_of_its_files(tmp_path: Path) -> None:
    labelled(tmp_path / "data" / "test.csv")
    (tmp_path / "data" / "train.csv").write_bytes(b"text,label\ncaf\xe9 opens,yes\n")
    with pytest.raises(DataError, match=r"train\.csv, line 2: byte .* is not UTF-8"):
        loaded(tmp_path, tmp_path / "data")


def test_a_file_of_which_no_row_can_be_read_is_not_said_to_have_none(tmp_path: Path) -> None:
    path = tmp_path / "tone.csv"
    path.write_text('text,label\n"Stop!" he said,yes\n')
    with pytest.raises(DataError, match=r"row 1 \(line 2\)"):
        guess_task_file([path])


def test_a_file_with_rows_that_cannot_be_read_is_not_said_to_be_read_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "tone.csv").write_text('text,tone\nso it goes,calm\nno way at all,angry\n"never closed,calm\n')
    columns = sample_columns(tmp_path / "tone.csv")
    assert [column.cells for column in columns][1] == ["calm", "angry"] and not columns[1].whole
