"""Prompts: learned word embeddings put before [CLS], where they start, and how they are read with the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch, Layout
from onepass.encoder.encoder import Encoder

if TYPE_CHECKING:
    from onepass.data.examples import Examples
    from onepass.encoder.tokenizer import Tokenizer

COMMON_TOKENS = 5000  # TK draws from so many of the data set's most frequent tokens


def random_prompts(length: int, width: int) -> nn.Parameter:
    """RD initialisation: a normal of 0.02, drawn again beyond twice that."""
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(length, width), std=0.02, a=-0.04, b=0.04))


@torch.no_grad()
def token_prompts(encoder: Encoder, tokenizer: Tokenizer, examples: Examples, length: int) -> Tensor:
    """TK initialisation: the word embeddings (length, E) of common tokens of the task's own texts."""
    special = tokenizer.encode([("",)])[0].ids
    ids = torch.from_numpy(draw_common_tokens(examples.ids, special, length))
    return encoder.words(ids.to(encoder.word_table.weight.device))


def draw_common_tokens(ids: np.ndarray, special: Sequence[int], count: int) -> np.ndarray:
    """Tokens drawn, without repeating, from the most frequent ones of a task's texts."""
    counts = np.bincount(ids)
    counts[[token for token in special if token < len(counts)]] = 0
    common = np.argsort(-counts, kind="stable")[:COMMON_TOKENS]
    common = common[counts[common] > 0]
    chosen = torch.randperm(len(common))[:count].numpy()  # torch's generator, so that the run's seed rules it
    return np.resize(common[chosen], count)


def no_room(encoder: Encoder, count: int, max_length: int, *, shifted: bool, advice: str) -> str:
    """What to say of so many prompts before a text so long that an encoder has no positions for; empty: it has.

    One that rotates counts positions in its layers, where prompts stand before the text even if not `shifted`.
    """
    most, rotates = encoder.config.capacity, not encoder.config.position_table
    if count + max_length <= most or not (shifted or rotates):
        return ""
    first = "" if rotates else "method.positions=none, "
    return f"before texts of up to {max_length} tokens, but this encoder has {most} positions. Use {first}{advice}."


def read_prompted(
    encoder: Encoder,
    prompts: Tensor,
    batch: Batch,
    *,
    shifted: bool,
    tokens: bool = False,
    places: tuple[Tensor, int] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The last layer's states of prompts (B, Q, E) put before the texts, and then of [CLS]: (B, Q + 1, H)

    With `tokens` the states of the texts' own tokens too: (T, H)

    `shifted`: positions are counted over prompts and text. Otherwise prompts have neither a position nor a type, and
    the text's positions are as without them. `places` gives other positions: the prompts' (B, Q), and the text's first.
    These are the positions of embeddings: what layers know of places themselves (rotation, windows, relative biases)
    is of prompts and text as they stand.
    """
    count, device = prompts.shape[1], batch.ids.device
    layout = Layout([count + length for length in batch.layout.lengths], device=device)
    place_of_text = torch.arange(batch.layout.total, device=device) + count * (batch.layout.rows + 1)
    places_to_read = layout.starts.unsqueeze(1) + torch.arange(count + 1, device=device)  # (B, Q + 1)
    words = encoder.words(batch.ids)
    joined = words.new_empty(layout.total, words.shape[-1])
    joined = joined.index_copy(0, places_to_read[:, :-1].flatten(), prompts.flatten(0, 1).to(words.dtype)).index_copy(
        0, place_of_text, words
    )
    types = torch.zeros(layout.total, dtype=torch.long, device=device).index_copy(0, place_of_text, batch.types)
    positions = layout.positions
    if not shifted:
        positions = (positions - count).clamp(min=-1)
    elif places is not None:
        own, first = places
        positions = (positions + first - count).index_copy(0, places_to_read[:, :-1].flatten(), own.flatten())
    x = encoder.embed(joined, positions, types)
    for layer in encoder.layers:
        x = layer(x, layout)
    read = encoder.finish(x[places_to_read.flatten()]).unflatten(0, (len(batch), count + 1))
    return read, encoder.finish(x[place_of_text]) if tokens else None
