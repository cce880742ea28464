"""Cells, targets, loss, answers and metrics of multilabel tasks, and a tiny training."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onepass
from onepass.data.check import check_data
from onepass.errors import ConfigError, DataError
from onepass.heads import KINDS, check_kinds, make_kind
from onepass.heads.multilabel import Multilabel, labels_of
from onepass.tasks import Task, read_task_file

LABELS = ("anger", "joy", "love")
TASK = Task(name="mood", kind="multilabel", text="text", label="mood", labels=LABELS)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "dear", "bad", "day"]


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        (["joy", "love"], ["joy", "love"]),
        (("joy", "joy"), ["joy"]),
        ([], []),
        ([1, 2.0, True], ["1", "2", "true"]),
        ('["joy", "lo|ve"]', ["joy", "lo|ve"]),
        (' ["don\'t", true] ', ["don't", "true"]),
        ("[]", []),
        ("['joy', 'love']", ["joy", "love"]),
        ("['joy', \"don't\"]", ["joy", "don't"]),
        ("joy|love", ["joy", "love"]),
        ("joy ; love ;", ["joy", "love"]),
        ("joy, love", ["joy", "love"]),
        ("a, b|c;d", ["a, b", "c;d"]),
        (" joy ", ["joy"]),
        (3, ["3"]),
        ([0, 1], ["0", "1"]),
        ('{"choices": ["joy", "lo}ve, hate"]}', ["joy", "lo}ve, hate"]),
        ({"choices": ["joy"]}, ["joy"]),
    ],
)
def test_a_cell_is_a_list_or_a_written_list_or_has_separators(cell: Any, labels: list[str]) -> None:
    assert labels_of(cell) == labels


def test_a_given_separator_is_the_only_one() -> None:
    assert labels_of("arts, crafts; home", ";") == ["arts, crafts", "home"]
    assert labels_of("arts, crafts", ";") == ["arts, crafts"]
    assert labels_of("[a]/[b]", "/") == ["[a]", "[b]"]
    assert labels_of('["a/b"]', "/") == ["a/b"]
    assert labels_of('{"choices": ["a", "b"]}', ",") == ["a", "b"]


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ('["joy", "love"', "has '[\"joy\", \"love\"', which does not parse, where labels are needed. Write them as"),
        ("['joy', 'love", "which does not parse"),
        ("[joy]", "which does not parse"),
        ('{"joy": 1}', "which does not parse"),
        ("[" * 5000, "which does not parse"),
        ({"joy": 1}, "has {'joy': 1} where a list of labels is needed. Write them as a JSON list"),
        (b"joy", "has b'joy' where a list of labels is needed."),
        (["joy", None], "has None among its labels in ['joy', None]. Labels are texts or numbers."),
        ([["joy"]], "has ['joy'] among its labels"),
        ("[NaN]", "has nan among its labels"),
        (["joy", " "], "has ' ' among its labels"),
        ([0.0, 1.0, 0.0], "has a list with a mark for each label, such as [0, 1, 0]"),
        ("[True, False, False]", "has a list with a mark for each label"),
        ('{"choices": "joy"}', "which does not parse"),
        ({"choices": "joy"}, "where a list of labels is needed"),
        (["joy" * 100], "where"),
    ],
)  # fmt: skip
def test_a_cell_that_does_not_parse_is_shown(cell: Any, found: str) -> None:
    if found == "where":
        cell = {"long": cell}
    with pytest.raises(ValueError) as caught:
        labels_of(cell)
    assert found in str(caught.value) and len(str(caught.value)) < 300


def test_targets_are_ones_and_zeros_over_the_labels() -> None:
    kind = Multilabel()
    for cell, wanted in ((["love", "anger"], [1, 0, 1]), ([], [0, 0, 0]), ("joy", [0, 1, 0])):
        target = kind.target({"mood": cell}, TASK, LABELS)
        assert target.dtype == np.float32 and target.tolist() == wanted
    assert kind.target({"mood": []}, TASK, ()).shape == (0,)


def test_only_a_missing_cell_is_blank() -> None:
    kind = Multilabel()
    blank = [kind.blank(TASK, {"mood": cell}) for cell in (None, "", float("nan"), [], "[]", "joy")]
    assert blank == [True, True, True, False, False, False]
    assert [list(kind.labels_in(TASK, {"mood": cell})) for cell in (None, [], "joy|love")] == [[], [], ["joy", "love"]]


def test_unknown_labels_are_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^has label 'jyo'\. Labels: anger, joy, love\.$"):
        Multilabel().target({"mood": ["joy", "jyo"]}, TASK, LABELS)
    with pytest.raises(ValueError, match=r"^has labels 'jyo', 'sad'\. Labels: "):
        Multilabel().target({"mood": "jyo,sad"}, TASK, LABELS)


def test_training_rows_need_a_label() -> None:
    assert Multilabel().faults(TASK, np.eye(3, dtype=np.float32)) == []
    assert Multilabel().faults(TASK, np.zeros((4, 3), np.float32)) == [
        "Task 'mood' needs at least one label to learn from; none of its 4 training rows has one."
    ]


def test_the_loss_is_the_sum_of_the_binary_cross_entropies_of_a_row() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(6, 3, generator=generator)
    targets = (torch.rand(6, 3, generator=generator) > 0.5).float()
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(-1)
    torch.testing.assert_close(Multilabel().loss(logits, targets), wanted)
    assert Multilabel().loss(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 1.0]])).item() == pytest.approx(
        3 * math.log(2)
    )


def test_loss_and_gradient_of_extreme_logits_are_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    loss = Multilabel().loss(logits, torch.tensor([[1.0, 0.0, 1.0]]).repeat(2, 1))
    loss.sum().backward()
    assert loss.tolist() == pytest.approx([math.log(2), 2e4 + math.log(2)])
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy(), [[0, 0, -0.5], [-1, 1, -0.5]], atol=1e-6)


def test_entropy_is_one_where_nothing_is_known_and_zero_where_all_is() -> None:
    quarter = math.log(1 / 3)  # of a probability of 1/4
    logits = torch.tensor([[0.0, 0.0], [50.0, -50.0], [quarter, -quarter], [1e4, 0.0]])
    of_a_quarter = -(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    assert Multilabel().entropy(logits).tolist() == pytest.approx([1.0, 0.0, of_a_quarter, 0.5], abs=1e-6)


def logits_of(*rows: list[float]) -> np.ndarray:
    p = np.array(rows, np.float32)
    return np.log(p / (1 - p))


def test_answers_are_the_labels_that_reach_their_thresholds() -> None:
    kind, logits = Multilabel(), logits_of([0.9, 0.2, 0.6], [0.1, 0.4, 0.3])
    both, none = kind.decode(TASK, logits)
    assert both.label == ["anger", "love"] and both.score == pytest.approx(0.6)
    assert list(both.scores) == list(LABELS) and list(both.scores.values()) == pytest.approx([0.9, 0.2, 0.6])
    assert none.label == [] and none.score == pytest.approx(0.6)  # that not even joy, 0.4, fits
    assert json.loads(json.dumps(both.to_dict()))["label"] == ["anger", "love"]
    assert kind.answers(TASK, logits).tolist() == [[1, 0, 1], [0, 0, 0]]
    assert kind.decode(TASK, np.zeros((1, 3), np.float32))[0].label == list(LABELS)


def test_thresholds_come_from_the_fitted_ones_then_from_the_option() -> None:
    kind, logits = Multilabel(threshold=0.3), logits_of([0.9, 0.2, 0.6], [0.1, 0.4, 0.25])
    assert [answer.label for answer in kind.decode(TASK, logits)] == [["anger", "love"], ["joy"]]
    fitted = TASK.model_copy(update={"fitted": {"thresholds": {"anger": 0.95, "love": 0.2}}})
    assert [answer.label for answer in kind.decode(fitted, logits)] == [["love"], ["joy", "love"]]
    assert kind.answers(fitted, logits).tolist() == [[0, 0, 1], [0, 1, 1]]


def test_extreme_logits_give_probabilities_without_warnings() -> None:
    with np.errstate(all="raise", under="ignore"):
        (answer,) = Multilabel().decode(TASK, np.array([[1e4, -1e4, 0.0]], np.float32))
    assert list(answer.scores.values()) == [1.0, 0.0, 0.5]


# Label by label: anger is right once, missed once and wrongly named once (F1 1/2); joy is right in both of its rows
# (F1 1); love never occurs.
TARGETS = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]], np.float32)
ANSWERS = np.array([[1, 1, 0], [0, 0, 0], [1, 1, 0], [0, 0, 0]], np.float32)


def test_metrics_by_hand() -> None:
    metrics = {name: metric(ANSWERS, TARGETS) for name, metric in Multilabel.metrics.items()}
    assert metrics == pytest.approx({"macro_f1": 0.5, "micro_f1": 2 * 3 / 8, "subset_accuracy": 0.5})
    nothing = np.zeros((2, 3), np.float32)
    assert [metric(nothing, nothing) for metric in Multilabel.metrics.values()] == [0.0, 0.0, 1.0]


def test_metrics_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import accuracy_score, f1_score

    rng = np.random.default_rng(0)
    targets, answers = (rng.random((2, 50, 6)) > 0.7).astype(np.float32)
    targets[:, 5] = answers[:, 5] = answers[:, 4] = 0
    assert Multilabel.metrics["macro_f1"](answers, targets) == pytest.approx(
        f1_score(targets, answers, average="macro", zero_division=0)
    )
    assert Multilabel.metrics["micro_f1"](answers, targets) == pytest.approx(
        f1_score(targets, answers, average="micro")
    )
    assert Multilabel.metrics["subset_accuracy"](answers, targets) == pytest.approx(accuracy_score(targets, answers))


def test_the_first_score_is_the_tasks_own_metric() -> None:
    logits = 20 * ANSWERS - 10
    assert Multilabel().score(TASK, logits, TARGETS) == pytest.approx(
        {"macro_f1": 50.0, "micro_f1": 75.0, "subset_accuracy": 50.0}
    )
    own = TASK.model_copy(update={"metric": "micro_f1"})
    assert next(iter(Multilabel().score(own, logits, TARGETS))) == "micro_f1"


@pytest.mark.parametrize(
    ("option", "value", "possible"),
    [
        ("threshold", 1.5, "a number between 0 and 1"),
        ("threshold", "high", "a number between 0 and 1"),
        ("threshold", True, "a number between 0 and 1"),
        ("separator", "", "the text between two labels of a cell"),
        ("separator", 3, "the text between two labels of a cell"),
    ],
)
def test_options_are_checked(option: str, value: Any, possible: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Multilabel(**{option: value})
    assert str(caught.value).startswith(f"{option} is {value!r}; possible: {possible}")


# ---- from files


@pytest.fixture(scope="module")
def encoder(make_encoder: Callable[[Sequence[str]], Path]) -> Path:
    """The folder of a BERT with two layers and 8 words."""
    return make_encoder(WORDS)


def write(folder: Path, rows: list[dict[str, Any]], encoder: Path | str = "embedded", **options: Any) -> Path:
    (folder / "mood.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"kind": "multilabel", "train": "mood.jsonl", "text": "text", "label": "mood", **options}
    path = folder / "tasks.yaml"
    path.write_text(json.dumps({"encoder": str(encoder), "tasks": {"mood": task}}))
    return path


def moods() -> list[dict[str, Any]]:
    texts: list[tuple[str, Any]] = [("good day", ["joy"]), ("good dear day", "joy|love"), ("bad day", '["anger"]')]
    texts += [("day", []), ("day day", None)]
    return [{"text": f"{text} {n}", "mood": mood} for n in range(6) for text, mood in texts]


def test_a_model_learns_is_saved_and_answers_with_lists(tmp_path: Path, encoder: Path) -> None:
    options = ["epochs=40", "batch_size=4", "max_length=8", "dropout=0", "average=0", "device=cpu"]
    options += [f"{part}_rate=0.003" for part in ("encoder", "token", "head")]
    path = write(tmp_path, moods(), encoder, validation="mood.jsonl")
    model = onepass.train(path, tmp_path / "model", overrides=options, progress=False)
    assert model.tasks[0].labels == LABELS
    assert model.records[0]["rows"] == {"train": 24, "validation": 24}  # the blank cells are no rows
    loaded = onepass.load(tmp_path / "model")
    texts = ["good day 1", "good dear day 1", "bad day 1", "day 1"]
    answers = loaded.predict(texts)
    assert [answer["mood"].label for answer in answers] == [["joy"], ["joy", "love"], ["anger"], []]
    assert answers == model.predict(texts)


def test_bad_cells_are_listed_with_their_rows(tmp_path: Path, encoder: Path) -> None:
    rows = [*moods(), {"text": "good", "mood": "[joy"}, {"text": "bad", "mood": {"joy": 1}}]
    path = write(tmp_path, rows, encoder)
    with pytest.raises(DataError) as caught:
        onepass.train(path, overrides=["max_length=8"], progress=False)
    message = str(caught.value)
    assert "mood.jsonl, row 31 (line 31): task 'mood' has '[joy', which does not parse" in message
    assert "row 32 (line 32): task 'mood' has {'joy': 1} where a list of labels is needed" in message
    file = read_task_file(path, checks=[check_kinds])
    report = check_data(file, {name: make_kind(task) for name, task in file.tasks.items()})
    assert [finding.rows for finding in report.faults] == [(31,), (32,)]
    assert report.tasks["mood"].labels["train"] == {"joy": 12, "anger": 6, "love": 6}


def test_rows_without_any_label_cannot_be_learned_from(tmp_path: Path, encoder: Path) -> None:
    path = write(tmp_path, [{"text": f"day {n}", "mood": []} for n in range(20)], encoder)
    with pytest.raises(DataError, match="needs at least one label to learn from; none of its 18 training rows has one"):
        onepass.train(path, overrides=["max_length=8"], progress=False)


def test_faulty_options_are_reported_together(tmp_path: Path) -> None:
    path = write(tmp_path, moods(), threshold=3, separator="", metric="f1", treshold=0.2)
    with pytest.raises(ConfigError) as caught:
        read_task_file(path, checks=[check_kinds])
    message = str(caught.value)
    assert message.startswith("4 faults:") and "Did you mean 'threshold'?" in message
    assert "Task 'mood': threshold is 3; possible: a number between 0 and 1" in message
    assert "Known: macro_f1, micro_f1, subset_accuracy." in message


def test_the_kind_is_listed() -> None:
    assert KINDS["multilabel"] is Multilabel


def test_the_divergence_from_other_logits_is_the_sum_over_labels():
    logits, others = torch.tensor([[0.0, 1.0]]), torch.tensor([[math.log(3.0), 1.0]])
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    assert Multilabel().divergence(logits, others).tolist() == pytest.approx([expected], abs=1e-6)


def test_labels_begin_at_their_rates() -> None:
    """At the rates the sum of the losses is the labels' entropy, about that of one label among as many."""
    kind, task = Multilabel(), Task(name="mood", kind="multilabel", text="text", label="mood", labels=["joy", "love"])
    targets = np.array([[1.0, 0.0]] * 3 + [[0.0, 0.0]] * 5)
    task = task.model_copy(update={"fitted": kind.fit(task, targets)})
    bias = kind.start_bias(task)
    assert bias == pytest.approx((math.log(0.4 / 0.6), math.log(0.1 / 0.9)))
    assert kind.start_bias(task.model_copy(update={"fitted": {}})) is None
