"""A tiny encoder, a small task file and a model trained on it, for all tests."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import onepass

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
    "good",
    "bad",
    "?",
    ".",
    "!",
]
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
def word_pieces() -> Callable[[Sequence[str]], Tokenizer]:
    """Makes a tokenizer like BERT's of so many word pieces, the special ones among them."""

    def make(pieces: Sequence[str]) -> Tokenizer:
        vocab = {piece: number for number, piece in enumerate(pieces)}
        tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
        )
        return tokenizer

    return make


@pytest.fixture(scope="session")
def make_encoder(
    tmp_path_factory: pytest.TempPathFactory, word_pieces: Callable[[Sequence[str]], Tokenizer]
) -> Callable[[Sequence[str]], Path]:
    """Writes the folder of a BERT with two layers that knows these word pieces."""

    def make(pieces: Sequence[str]) -> Path:
        import transformers  # slow; only where an encoder is needed

        folder = tmp_path_factory.mktemp("encoder")
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=len(pieces),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
        )
        transformers.BertModel(config).save_pretrained(folder)
        word_pieces(pieces).save(str(folder / "tokenizer.json"))
        return folder

    return make


@pytest.fixture(scope="session")
def encoder(make_encoder: Callable[[Sequence[str]], Path]) -> Path:
    """The folder of a BERT with two layers and 19 words."""
    return make_encoder(WORDS)


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


@pytest.fixture(autouse=True)
def _quiet_logger() -> Iterator[None]:
    """Undoes what a command set up for its messages, so that tests find the logger as a library user does."""
    logger = logging.getLogger("onepass")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])
