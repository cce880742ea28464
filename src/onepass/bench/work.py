"""How much a pass has to compute, and texts to compute on. No torch and no runtime."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from onepass.encoder.config import EncoderConfig


def operations(config: EncoderConfig, lengths: Iterable[int]) -> float:
    """Multiplications and additions of a plain pass over texts of these lengths: linear layers and attention."""
    return sum(length * config.depth * (_linear(config) + _attention(config, length)) for length in map(int, lengths))


def reading_operations(
    config: EncoderConfig,
    lengths: Iterable[int],
    tasks: int,
    depth: int,
    tokens: int,
    readout: str = "layer",
    rank: int = 0,
) -> float:
    """The same of readers, poolers included: of the last layer of the text, keys and values alone are computed.

    rank: of the poolers; 0: full.
    """
    width, readers = config.width, tasks * tokens
    pooler = 4 * width * rank if rank else 2 * width**2
    total = 0.0
    for length in map(int, lengths):
        text = length * (config.depth - 1) * (_linear(config) + _attention(config, length)) + length * 4 * width**2
        # What readers bring to their first layer is computed once for all texts.
        own = depth * (_linear(config) + _attention(config, length)) - 6 * width**2
        if readout == "attention":
            own -= _feed_forward(config)
        total += text + readers * own + tasks * pooler
    return total


def _linear(config: EncoderConfig) -> float:
    """Of one token in one layer."""
    return 8 * config.width**2 + _feed_forward(config)


def _feed_forward(config: EncoderConfig) -> float:
    return 4 * config.width * config.ffn_width * (1.5 if config.gated else 1)


def _attention(config: EncoderConfig, length: int) -> float:
    """Of one token that reads so many, in one layer."""
    return 4 * length * config.width


def log_uniform(generator: np.random.Generator, least: int, most: int, count: int = 64) -> np.ndarray:
    """Mixed lengths: as many of 8 to 16 tokens as of 16 to 32, and so on."""
    return np.exp(generator.uniform(np.log(least), np.log(most), count)).astype(np.int64)
