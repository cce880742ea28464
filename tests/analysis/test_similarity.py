"""CovSim on small numbers, and what it reads of a model."""

import numpy as np
import pytest
import torch

from onepass.analysis.similarity import covariance_factor, covariance_similarity, first_inputs, similarities
from onepass.data.examples import Examples
from onepass.model import Model


def covsim(x: np.ndarray, y: np.ndarray) -> float:
    return covariance_similarity(covariance_factor(x), covariance_factor(y))


def test_one_direction_is_wholly_like_itself_and_unlike_another() -> None:
    x, y = np.array([[2.0, 0.0], [-4.0, 0.0]]), np.array([[0.0, 3.0]])
    assert covsim(x, 5 * x) == pytest.approx(1.0)
    assert covsim(x, y) == pytest.approx(0.0)


def test_by_hand_for_two_directions() -> None:
    """X'X = diag(4, 1): F = diag(2, 1), so |F'F| = sqrt(16 + 1) and |F|^2 = 5."""
    x = np.array([[2.0, 0.0], [0.0, 1.0]])
    assert covsim(x, x) == pytest.approx(np.sqrt(17) / 5)


def test_directions_beyond_the_kept_mass_are_left_out() -> None:
    x = np.diag([10.0, 0.5])  # eigenvalues 100 and 0.25: the first holds 99.75 %
    assert covariance_factor(x).shape == (2, 1)
    assert covariance_factor(x, kept=0.999).shape == (2, 2)


def test_every_pair_of_tasks_is_compared() -> None:
    generator = np.random.default_rng(0)
    inputs = {name: generator.normal(size=(20, 4)) for name in "abc"}
    found = similarities(inputs)
    assert found["a"].keys() == {"b", "c"}
    assert found["a"]["b"] == pytest.approx(found["b"]["a"])
    assert found["a"]["b"] == pytest.approx(covsim(inputs["a"], inputs["b"]))


def test_a_texts_row_is_the_mean_of_its_tokens_in_the_first_layer(model: object) -> None:
    loaded = Model.load(str(model))
    ids = np.array([2, 4, 5, 3], np.int32)
    zeros = np.zeros(1, np.int64)
    examples = Examples(
        ids, np.array([0, 4]), np.array([4], np.int32), zeros, zeros, zeros.astype(np.uint64), zeros > 0
    )
    encoder = loaded.method.encoder
    tokens = torch.from_numpy(ids).long()
    by_hand = encoder.embed(encoder.words(tokens), torch.arange(4), torch.zeros(4, dtype=torch.long)).mean(0)
    np.testing.assert_allclose(first_inputs(loaded, 0, examples)[0], by_hand.detach().numpy(), atol=1e-6)
