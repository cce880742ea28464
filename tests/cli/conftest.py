"""A tiny encoder, a small task file and a model trained on it, and a way to run commands."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from typer.testing import CliRunner

import onepass
from onepass.cli.app import app

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "goal",
    "match",
    "vote",
    "senate",
    "the",
    "wins",
    "late",
    "why",
    "is",
    "it",
]
WORDS += ["good", "bad", "?", ".", "!"]
TASKS = """
encoder: {encoder}
tasks:
  topic:
    train: topic.csv
    validation: topic-validation.csv
    text: text
    label: topic
  tone: {{train: tone.csv, text: text, label: tone, kind: regression}}
  same: {{train: same.csv, text: [first, second], label: same}}
train: {{epochs: 1, batch_size: 8, max_length: 32}}
"""


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a BERT with two layers and 19 words."""
    folder = tmp_path_factory.mktemp("encoder")
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    transformers.BertModel(config).save_pretrained(folder)
    vocab = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def write_news(folder: Path, encoder: Path) -> Path:
    """A task file of three tasks with their data: labels, numbers, pairs."""
    topics = "\n".join(f"the late goal {n} wins,sport\nthe senate vote {n},politics" for n in range(12))
    (folder / "topic.csv").write_text(f"text,topic\n{topics}\n")
    (folder / "topic-validation.csv").write_text("text,topic\nlate match,sport\nsenate wins the vote,politics\n")
    tones = "\n".join(f"good match {n},{n / 10}\nbad vote {n},{-n / 10}" for n in range(12))
    (folder / "tone.csv").write_text(f"text,tone\n{tones}\n")
    pairs = "\n".join(f"goal {n},late goal {n},yes\ngoal {n},bad vote {n},no" for n in range(12))
    (folder / "same.csv").write_text(f"first,second,same\n{pairs}\n")
    path = folder / "tasks.yaml"
    path.write_text(TASKS.format(encoder=encoder))
    return path


@pytest.fixture
def news(tmp_path: Path, encoder: Path) -> Path:
    """The task file, in a folder of the test's own."""
    return write_news(tmp_path, encoder)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, encoder: Path) -> Path:
    """A trained model folder; tests that change it make a copy."""
    folder = tmp_path_factory.mktemp("news")
    onepass.train(write_news(folder, encoder), folder / "model", progress=False)
    return folder / "model"


@pytest.fixture
def run() -> Callable[..., Any]:
    """Runs a command in this process; the result has exit_code, stdout and stderr."""

    def call(*arguments: Any, stdin: str | bytes | None = None) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, prog_name="onepass")

    return call


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command as a process of its own."""

    def call(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        source = str(Path(onepass.__file__).parents[1])
        environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"} | options.pop("env", {})
        options = {"capture_output": True} | options
        command = [sys.executable, "-m", "onepass", *map(str, arguments)]
        return subprocess.run(command, text=True, env=environment, timeout=120, check=False, **options)

    return call
