"""Class weights, focal loss and label smoothing of classification tasks."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from onepass.errors import ConfigError
from onepass.heads import check_kinds, make_kind
from onepass.heads.classification import Classification
from onepass.tasks import Task, read_task_file

LABELS = ("calm", "angry", "sad")
TARGETS = np.array([0, 0, 0, 0, 0, 0, 1, 1])


def task_with(**options: Any) -> Task:
    """A task as training makes it: with its labels and what its kind learned from TARGETS."""
    task = Task(name="tone", text="text", label="tone", labels=LABELS, options=options)
    return task.model_copy(update={"fitted": make_kind(task).fit(task, TARGETS)})


def loss_of(task: Task, logits: torch.Tensor, targets: np.ndarray) -> torch.Tensor:
    """The loss as the training takes it, by a kind that was made from a folder's task.json."""
    kept = Task(**json.loads(json.dumps(task.model_dump(mode="json"))))
    kind = make_kind(kept)
    return kind.loss(logits, torch.as_tensor(kind.scale_targets(kept, targets)))


@pytest.fixture
def logits() -> torch.Tensor:
    return 3 * torch.randn(len(TARGETS), 3, generator=torch.Generator().manual_seed(0))


def test_without_options_the_loss_is_cross_entropy(logits: torch.Tensor) -> None:
    task = task_with()
    assert task.fitted == {}
    torch.testing.assert_close(
        loss_of(task, logits, TARGETS), cross_entropy(logits, torch.as_tensor(TARGETS), reduction="none")
    )
    assert Classification().scale_targets(task, TARGETS) is TARGETS


def test_balanced_weights_are_rows_by_labels_times_count(logits: torch.Tensor) -> None:
    task = task_with(class_weights="balanced")
    assert task.fitted == {"class_weights": {"calm": 8 / (2 * 6), "angry": 8 / (2 * 2)}}
    losses = loss_of(task, torch.zeros(8, 3), TARGETS) / math.log(3)
    assert losses[:6].sum().item() == pytest.approx(losses[6:].sum().item()) == pytest.approx(4.0)
    # A label without training rows, met later on, weighs 1.
    sad = torch.tensor([2])
    torch.testing.assert_close(loss_of(task, logits[:1], sad.numpy()), cross_entropy(logits[:1], sad, reduction="none"))


def test_balanced_weights_are_those_of_scikit_learn() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    wanted = compute_class_weight("balanced", classes=np.array([0, 1]), y=TARGETS)
    assert list(task_with(class_weights="balanced").fitted["class_weights"].values()) == pytest.approx(list(wanted))


def test_given_weights_multiply_the_loss_of_their_rows(logits: torch.Tensor) -> None:
    task = task_with(class_weights={"angry": 5, "sad": 0.5})
    targets = np.array([0, 1, 2, 0, 1, 2, 0, 1])
    plain = cross_entropy(logits, torch.as_tensor(targets), reduction="none")
    torch.testing.assert_close(loss_of(task, logits, targets), plain * torch.tensor([1, 5, 0.5, 1, 5, 0.5, 1, 5]))


def test_weights_are_known_by_label_however_it_is_written() -> None:
    assert Classification(class_weights={0: 2, True: 3}).class_weights == {"0": 2, "true": 3}  # type: ignore[dict-item]


def test_tasks_of_different_weights_share_a_call_and_keep_their_weights(logits: torch.Tensor) -> None:
    one, two = task_with(class_weights="balanced"), task_with(class_weights={"calm": 7})
    kinds = make_kind(one), make_kind(two)
    assert kinds[0].loss_key() == kinds[1].loss_key()
    rows = [kind.scale_targets(task, TARGETS[:4]) for kind, task in zip(kinds, (one, two), strict=True)]
    together = kinds[0].loss(logits, torch.as_tensor(np.concatenate(rows)))
    apart = torch.cat([loss_of(one, logits[:4], TARGETS[:4]), loss_of(two, logits[4:], TARGETS[:4])])
    torch.testing.assert_close(together, apart)


def test_tasks_of_different_losses_do_not_share_a_call() -> None:
    options: list[dict[str, Any]] = [{}, {"class_weights": "balanced"}, {"focal": 2.0}, {"focal": 1}]
    options += [{"label_smoothing": 0.1}, {"focal": 2.0, "label_smoothing": 0.1}]
    assert len({Classification(**one).loss_key() for one in options}) == len(options)
    assert Classification(class_weights="none", focal=0).loss_key() == Classification().loss_key()


def test_label_smoothing_is_that_of_torch(logits: torch.Tensor) -> None:
    wanted = cross_entropy(logits, torch.as_tensor(TARGETS), reduction="none", label_smoothing=0.2)
    torch.testing.assert_close(loss_of(task_with(label_smoothing=0.2), logits, TARGETS), wanted)


def test_the_focal_loss_by_hand() -> None:
    logits = torch.tensor([[0.75, 0.2, 0.05], [0.75, 0.2, 0.05]]).log()
    losses = loss_of(task_with(focal=2), logits, np.array([0, 1]))
    assert losses.tolist() == pytest.approx([0.25**2 * -math.log(0.75), 0.8**2 * -math.log(0.2)])


def test_all_options_multiply(logits: torch.Tensor) -> None:
    task = task_with(class_weights={"calm": 2.0, "angry": 2.0}, focal=1.5, label_smoothing=0.1)
    p = logits.softmax(-1)[torch.arange(8), torch.as_tensor(TARGETS)]
    smooth = cross_entropy(logits, torch.as_tensor(TARGETS), reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(loss_of(task, logits, TARGETS), 2.0 * (1 - p) ** 1.5 * smooth)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_the_focal_loss_of_a_certain_answer_has_a_finite_gradient(gamma: float) -> None:
    logits = torch.tensor([[1e4, 0.0, 0.0], [0.0, 1e4, 0.0]], requires_grad=True)
    losses = loss_of(task_with(focal=gamma), logits, np.array([0, 0]))
    losses.sum().backward()
    assert losses.tolist() == pytest.approx([0.0, 1e4])
    assert logits.grad is not None and torch.isfinite(logits.grad).all()


def test_a_weight_for_an_unknown_label_is_a_fault() -> None:
    task = task_with(class_weights={"angri": 2.0, "calm": 1.0})
    assert make_kind(task).named_faults(task) == [
        "class_weights: Unknown label 'angri'. Did you mean 'angry'? Known: angry, calm, sad."
    ]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("class_weights", "balnced", "class_weights is 'balnced'; possible: none, balanced, {LABEL: WEIGHT, ...}."),
        ("class_weights", [1, 2], "class_weights is [1, 2]; possible: none, balanced,"),
        ("class_weights", {"calm": -1}, "class_weights.calm is -1; possible: a number above 0."),
        ("class_weights", {"calm": "high"}, "class_weights.calm is 'high'; possible: a number above 0."),
        ("class_weights", {"calm": math.nan}, "class_weights.calm is nan; possible: a number above 0."),
        ("focal", -1, "focal is -1; possible: a number from 0."),
        ("focal", True, "focal is True; possible: a number from 0."),
        ("focal", math.inf, "focal is inf; possible: a number from 0."),
        ("label_smoothing", 1.0, "label_smoothing is 1.0; possible: a number from 0 to below 1."),
        ("label_smoothing", "some", "label_smoothing is 'some'; possible: a number from 0 to below 1."),
    ],
)
def test_options_are_checked(option: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Classification(**{option: value})
    assert str(caught.value).startswith(message)


def test_faulty_options_of_all_tasks_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,tone\na,calm\n")
    common = "train: x.csv, text: text, label: tone"
    path = tmp_path / "tasks.yaml"
    path.write_text(
        f"tasks:\n  a: {{{common}, focal: -1, label_smoothing: 2, focus: 1}}\n"
        f"  b: {{{common}, class_weights: {{yes: 0}}}}\n  c: {{{common}, class_weights: {{no: 2, yes: 1}}}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        read_task_file(path, checks=[check_kinds])
    message = str(caught.value)
    assert message.startswith("4 faults:") and "Task 'a': Unknown key 'focus'. Did you mean 'focal'?" in message
    assert "Task 'a': focal is -1;" in message and "Task 'a': label_smoothing is 2;" in message
    assert "Task 'b': class_weights.yes is 0; possible: a number above 0." in message
