"""A tiny model of three tasks in a folder, and data to add further ones."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as RawTokenizer

from onepass.encoder.config import EncoderConfig
from onepass.encoder.loading import random_encoder
from onepass.encoder.tokenizer import Tokenizer
from onepass.folder import load_model
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import MethodChoice, Task

WORDS = [f"w{i}" for i in range(40)]
TASKS = [
    Task(name="topic", text="text", label="topic", labels=["a", "b", "c"]),
    Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 0.0, "spread": 1.0}),
    Task(name="spam", text="text", label="spam", labels=["no", "yes"]),
]
SMALL: dict[str, Any] = {"vocab_size": 44, "width": 16, "depth": 3, "heads": 2, "ffn_width": 32, "max_positions": 40}


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer(word_pieces: Callable[[Sequence[str]], RawTokenizer]) -> Tokenizer:
    """One word, one token."""
    return Tokenizer(word_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]), max_length=32)


@pytest.fixture
def make_model(tokenizer: Tokenizer) -> Callable[..., Model]:
    """Builds a model of a method, with an encoder of a seed, over the first so many tasks."""

    def make(name: str = "readers", num_tasks: int = 3, encoder_seed: int = 1, **options: Any) -> Model:
        torch.manual_seed(0)
        config = EncoderConfig(family="bert", type_vocab=2, **SMALL)
        encoder = random_encoder(config, seed=encoder_seed)
        with torch.no_grad():  # so large that what is read depends on the text
            for parameter in encoder.parameters():
                parameter.mul_(10.0 if parameter.ndim > 1 else 1.0)
        method = make_method(name, encoder, options)
        model = Model(method, tokenizer, MethodChoice(name=name, options=options), "test")
        for task in TASKS[:num_tasks]:
            model.add(task)
        with torch.no_grad():
            for parameter in model.heads.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.5)
        return model.eval()

    return make


@pytest.fixture
def folder(make_model: Callable[..., Model], tmp_path: Path) -> Path:
    """The folder of a model of three tasks."""
    make_model().save(tmp_path / "model")
    return tmp_path / "model"


def write_rows(path: Path, rows: int = 40, labels: tuple[str, str] = ("calm", "angry"), seed: int = 0) -> Path:
    """Texts of two labels that have no word in common."""
    generator = np.random.default_rng(seed)
    lines = ["text,label"]
    for row in range(rows):
        words = generator.choice(WORDS[row % 2 :: 2], int(generator.integers(1, 12)))
        lines.append(f"{' '.join(words)},{labels[row % 2]}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def tone(tmp_path: Path) -> Task:
    """A task that can be learned, with forty rows."""
    return Task(name="tone", text="text", label="label", train=write_rows(tmp_path / "tone.csv"))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def answers(folder: Path, names: list[str]) -> list[np.ndarray]:
    """The logits of tasks for fixed texts."""
    from onepass.living.proof import probe_batches

    model = load_model(folder)
    return [logits for batch in probe_batches(model.tokenizer) for logits in model.logits(batch, model.numbers(names))]


class Helpers:
    """The functions above, for the tests: with importlib's import mode they cannot be imported."""

    write_rows = staticmethod(write_rows)
    contents = staticmethod(contents)
    answers = staticmethod(answers)


@pytest.fixture(scope="session")
def helpers() -> type[Helpers]:
    return Helpers
