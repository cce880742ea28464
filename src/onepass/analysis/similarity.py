"""CovSim: how alike the inputs of tasks lie in the space in which the first layer reads them.

Wu et al. 2020 (arXiv:2005.00944), as CA-MTL measures it (arXiv:2009.09139, equation 7): tasks whose covariances are
aligned disturb each other less. A text's row is the mean of its tokens; [CLS] knows nothing of the text at this depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from onepass.data.examples import Examples
from onepass.encoder.encoder import Encoder, evaluating
from onepass.model import Model
from onepass.where import pack

KEPT = 0.99  # of the eigenvalues' mass
MOST_TEXTS = 256


def covariance_factor(x: NDArray[np.floating[Any]], kept: float = KEPT) -> NDArray[np.float64]:
    """U D^(1/2) (d, r) of the smallest rank r whose eigenvalues hold this share of the mass of X'X, not centred."""
    values, vectors = np.linalg.eigh(np.asarray(x, np.float64).T @ np.asarray(x, np.float64))
    values, vectors = np.clip(values[::-1], 0, None), vectors[:, ::-1]
    rank = int(np.searchsorted(np.cumsum(values), kept * values.sum() * (1 - 1e-12)) + 1)
    return np.asarray(vectors[:, :rank] * np.sqrt(values[:rank]), np.float64)


def covariance_similarity(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """CovSim of two sets of rows by their factors (d, r): 0 where they share no direction, 1 for two copies of one.

    A set is less than 1 like itself as soon as it has two directions: the measure rewards few shared ones.
    """
    return float(np.linalg.norm(one.T @ other) / (np.linalg.norm(one) * np.linalg.norm(other)))


@torch.inference_mode()
def first_inputs(model: Model, task: int, examples: Examples, most: int = MOST_TEXTS) -> NDArray[np.float32]:
    """The mean input of the first layer for each text, asked one task: (texts, H)"""
    rows = np.random.default_rng(0).permutation(len(examples))[:most]
    found: list[Tensor] = []
    means = []

    def note(_module: object, inputs: tuple[Tensor]) -> None:
        found.append(inputs[0].mean(0))  # of a text alone: (T, H)

    handles = [m.layers[0].qkv.register_forward_pre_hook(note) for m in model.modules() if isinstance(m, Encoder)]
    try:
        with evaluating(model):
            for row in rows:
                found.clear()
                batch, asked, where = pack([(task, examples, int(row))])
                model(batch.to(model.device), asked, where=where)
                means.append(found[0].float().cpu())
    finally:
        for handle in handles:
            handle.remove()
    return torch.stack(means).numpy()


def similarities(inputs: Mapping[str, NDArray[np.floating[Any]]]) -> dict[str, dict[str, float]]:
    """CovSim of every task with every other."""
    factors = {name: covariance_factor(x) for name, x in inputs.items()}
    return {
        one: {other: covariance_similarity(factors[one], factors[other]) for other in factors if other != one}
        for one in factors
    }


def mean_similarities(model: Model, examples: Sequence[Examples], singles: Model | None = None) -> dict[str, float]:
    """CovSim_i of each task: its mean with all others, which `singles` reads if given.

    The paper compares a joint model's inputs of task i with those that single-task models of the others have.
    """
    names = model.names

    def factors(reader: Model) -> list[NDArray[np.float64]]:
        return [covariance_factor(first_inputs(reader, task, rows)) for task, rows in enumerate(examples)]

    own = factors(model)
    others = own if singles is None else factors(singles)
    return {
        names[i]: float(np.mean([covariance_similarity(own[i], others[j]) for j in range(len(own)) if j != i]))
        for i in range(len(own))
    }
