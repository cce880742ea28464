"""A tiny encoder and tokenizer, and models of every method around them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as RawTokenizer

from onepass.encoder.batch import Batch
from onepass.encoder.config import EncoderConfig
from onepass.encoder.loading import random_encoder
from onepass.encoder.tokenizer import Tokenizer
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import MethodChoice, Task

WORDS = [f"w{i}" for i in range(60)]
SIZES: dict[str, Any] = {
    "family": "bert",
    "vocab_size": 64,
    "width": 32,
    "depth": 3,
    "heads": 4,
    "ffn_width": 64,
    "max_positions": 64,
    "type_vocab": 2,
}
TASKS = [
    Task(name="topic", text="text", label="topic", labels=["a", "b", "c"]),
    Task(name="tone", text="text", label="tone", labels=["no", "yes"]),
    Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 0.0, "spread": 1.0}),
    Task(name="spam", text="text", label="spam", labels=["no", "yes"]),
]


@pytest.fixture(scope="session")
def tokenizer(word_pieces: Callable[[Sequence[str]], RawTokenizer]) -> Tokenizer:
    """One word, one token."""
    return Tokenizer(word_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]), max_length=32)


@pytest.fixture
def make_model(tokenizer: Tokenizer) -> Callable[..., Model]:
    """Builds a model of a method by name, with options, over so many tasks, in evaluation mode."""

    def make(name: str, num_tasks: int = len(TASKS), seed: int = 0, dropout: float = 0.0, **options: Any) -> Model:
        torch.manual_seed(seed)
        config = EncoderConfig(**SIZES, dropout=dropout, attention_dropout=dropout)
        method = make_method(name, random_encoder(config, seed=1), options)
        model = Model(method, tokenizer, MethodChoice(name=name, options=options), "test", dropout=dropout)
        for task in TASKS[:num_tasks]:
            model.add(task)
        # Far from the small start values, so that a difference cannot hide behind them.
        with torch.no_grad():
            for parameter in model.heads.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.5)
        return model.eval()

    return make


@pytest.fixture
def texts() -> list[str]:
    """Eight texts of 1 to 15 words."""
    generator = np.random.default_rng(0)
    return [" ".join(generator.choice(WORDS, length)) for length in (3, 15, 7, 1, 9, 2, 12, 5)]


def packed(model: Model, texts: Sequence[str]) -> Batch:
    """Texts as a batch."""
    return Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])
