"""Small random models of every family, saved as they are published, and a tiny tokenizer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 200,
}
PUBLISHED: dict[str, Callable[[], Any]] = {
    "bert": lambda: transformers.BertModel(transformers.BertConfig(**SIZES)),
    "electra": lambda: transformers.ElectraModel(transformers.ElectraConfig(**SIZES, embedding_size=16)),
    "roberta": lambda: transformers.RobertaModel(transformers.RobertaConfig(**SIZES, type_vocab_size=1)),
    "xlm-roberta": lambda: transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**SIZES, type_vocab_size=1)),
    "distilbert": lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(
            vocab_size=64, dim=32, n_layers=3, n_heads=4, hidden_dim=48, max_position_embeddings=200
        )
    ),
    "mpnet": lambda: transformers.MPNetModel(transformers.MPNetConfig(**SIZES)),
    # A small window, so that there are tokens outside it, and layers 0 and 2 global, layer 1 local.
    "modernbert": lambda: transformers.ModernBertModel(
        transformers.ModernBertConfig(**SIZES, local_attention=8, global_attn_every_n_layers=2, pad_token_id=0)
    ),
}
WORDS = ["the", "cat", "sat", "on", "mat", "play", "##ing", "##ed", "a", "dog", "b", "c", "."]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="session")
def raw_tokenizer_json(word_pieces: Callable[[Sequence[str]], Tokenizer]) -> str:
    """A WordPiece tokenizer with 18 tokens."""
    return str(word_pieces(SPECIAL + WORDS).to_str())


@pytest.fixture(scope="session")
def publish(raw_tokenizer_json: str) -> Callable[..., Any]:
    """Saves a model of transformers with weights that are far from their start values, and a tokenizer."""

    def save(model: Any, folder: Path, **options: Any) -> Any:
        generator = torch.Generator().manual_seed(1)
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) * 0.2
            parameter.data = noise + 1 if "norm" in name.lower() and name.endswith("weight") else noise
        model.eval().save_pretrained(folder, **options)
        (folder / "tokenizer.json").write_text(raw_tokenizer_json)
        return model

    return save


@pytest.fixture(scope="session", params=PUBLISHED)
def published(
    request: pytest.FixtureRequest, publish: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Any]:
    """The folder of a small model of each family, and the model itself in transformers."""
    folder = tmp_path_factory.mktemp(request.param)
    return folder, publish(PUBLISHED[request.param](), folder)


@pytest.fixture(scope="session")
def bert_folder(publish: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small BERT; tests that change it make a copy."""
    folder = tmp_path_factory.mktemp("bert-folder")
    publish(PUBLISHED["bert"](), folder)
    return folder
