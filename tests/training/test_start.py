"""Where an added task's head may begin: a regression that is right before any step was made."""

import numpy as np
import pytest
import torch
from torch import Tensor

from onepass.heads import KINDS
from onepass.heads.base import Kind
from onepass.training.start import as_numbers, fitted_head


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(200, 6) + 3.0


def fit(kind: Kind, x: Tensor, y: Tensor, targets: Tensor) -> Tensor:
    """The logits of a fitted head on its own rows."""
    weight, bias = fitted_head(x, y, lambda logits: kind.loss(logits, targets))
    return x @ weight.T + bias


def test_labels_are_predicted(x: Tensor) -> None:
    targets = x[:, :3].argmax(1)
    logits = fit(KINDS["classification"](), x, torch.eye(3)[targets], targets)
    assert (logits.argmax(1) == targets).float().mean() > 0.8


def test_numbers_are_predicted_as_they_are(x: Tensor) -> None:
    targets = 2.0 * x[:, 0] - x[:, 3] + 1.0
    logits = fit(KINDS["regression"](), x, targets[:, None], targets)
    assert torch.corrcoef(torch.stack([logits[:, 0], targets]))[0, 1] > 0.99
    assert float(logits.mean()) == pytest.approx(float(targets.mean()), abs=1e-3)


def test_each_of_several_labels_is_predicted(x: Tensor) -> None:
    targets = (x[:, :3] > 3.0).float()
    logits = fit(KINDS["multilabel"](), x, targets, targets)
    assert ((logits > 0) == targets.bool()).float().mean() > 0.8  # sigmoid: the logit of a half is 0


def test_noise_is_answered_without_confidence(x: Tensor) -> None:
    """The stretch is chosen on rows that are left out, so that a head does not trust what it learned by heart."""
    targets = torch.arange(40) % 2
    many = torch.randn(40, 300)  # more dimensions than rows: all of them can be learned by heart
    logits = fit(KINDS["classification"](), many, torch.eye(2)[targets], targets)
    assert logits.softmax(1).max() < 0.9


def test_targets_become_numbers() -> None:
    assert as_numbers(np.array([2, 0, 1]), [0, 2], 4).tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
    assert as_numbers(np.array([0.5, 2.0]), [1], 1).tolist() == [[2.0]]
    assert as_numbers(np.array([[1.0, 0.0], [0.0, 1.0]]), [1, 0], 2).tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_of_few_rows_a_head_is_not_much_surer_than_it_is_right() -> None:
    kind, generator = KINDS["classification"](), torch.Generator().manual_seed(0)
    right, sure = [], []
    for _ in range(40):
        x = torch.randn(208, 20, generator=generator)
        targets = (x[:, 0] + 0.5 * torch.randn(208, generator=generator) > 0).long()
        few = targets[:8]
        weight, bias = fitted_head(x[:8], torch.eye(2)[few], lambda logits, few=few: kind.loss(logits, few))
        p = (x[8:] @ weight.T + bias).softmax(-1)
        right.append((p.argmax(-1) == targets[8:]).float().mean())
        sure.append(p.max(-1).values.mean())
    assert (
        float(torch.stack(sure).mean()) < float(torch.stack(right).mean()) + 0.15
    )  # by 0.24 with the stretch of least loss
