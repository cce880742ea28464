"""Models with far from small random weights, and their engines."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from onepass.encoder.config import EncoderConfig
from onepass.encoder.loading import random_encoder
from onepass.encoder.tokenizer import Tokenizer
from onepass.engine.export import export_model
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import MethodChoice, Task

MakeFolder = Callable[..., Path]
TASKS = [
    Task(name="topic", text="text", label="topic", labels=["a", "b", "c"]),
    Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 5.0, "spread": 2.0}),
    Task(name="spam", text="text", label="spam", labels=["no", "yes"]),
    Task(name="mood", kind="multilabel", text="text", label="mood", labels=["sad", "glad", "mad"]),
    Task(name="tone", text="text", label="tone", labels=["no", "yes"]),
    Task(name="same", text=["first", "second"], label="same", labels=["no", "yes"]),
]
SIZES: dict[str, Any] = {
    "vocab_size": 19, "width": 32, "depth": 3, "heads": 4, "ffn_width": 48, "max_positions": 40, "norm_eps": 1e-6,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {"type_vocab": 2},
    "electra": {"type_vocab": 2, "embedding_width": 16, "activation": "gelu_new"},
    "roberta": {"type_vocab": 1, "position_offset": 2, "max_positions": 42},
    "distilbert": {"activation": "relu"},
    "mpnet": {"relative_buckets": 8, "position_offset": 2},
    "modernbert": {
        "position_table": False, "pre_norm": True, "gated": True, "attention_bias": False, "mlp_bias": False,
        "norm_bias": False, "global_theta": 100.0, "local_theta": 50.0, "local_window": 8, "local_layers": [1],
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def make_folder(encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeFolder:
    """Writes the folder of an untrained model, with its engine."""

    def make(
        family: str = "bert",
        method: str = "readers",
        exported: bool = True,
        tasks: Sequence[Task] = TASKS,
        **options: Any,
    ) -> Path:
        torch.manual_seed(0)
        config = EncoderConfig(family=family, **SIZES | FAMILIES[family])
        tokenizer = Tokenizer.load(encoder / "tokenizer.json", 38)
        choice = MethodChoice(name=method, options=options)
        model = Model(make_method(method, random_encoder(config), options), tokenizer, choice, "test")
        for task in tasks:
            model.add(task)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                spread = 0.3 if "tokens" in name or "head" in name else 0.15
                parameter.add_(spread * torch.randn_like(parameter))
        folder = tmp_path_factory.mktemp("engine") / "model"
        model.eval().save(folder)
        if exported:
            export_model(folder)
        return folder

    return make


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def folder(make_folder: MakeFolder) -> Path:
    """A model of method readers; tests that change it make a copy."""
    return make_folder()
