"""A trainer before its first step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from accelerate.utils import set_seed

from onepass.encoder.loading import load_encoder
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import read_task_file
from onepass.training.loop import Trainer
from onepass.training.options import train_options
from onepass.training.sets import read_sets


@pytest.fixture
def make_trainer(news: Path) -> Callable[..., Trainer]:
    """Builds a trainer of the three tasks `topic`, `tone` and `same`, with a method and training options."""

    def make(method: str = "readers", *, method_options: dict[str, Any] | None = None, **options: Any) -> Trainer:
        file = read_task_file(news)
        chosen = train_options(file.train | options)
        set_seed(chosen.seed)
        encoder, tokenizer = load_encoder(file.encoder, max_length=chosen.max_length)
        sets = read_sets(file, tokenizer)
        model = Model(make_method(method, encoder, method_options), tokenizer, file.method, file.encoder)
        for item in sets:
            model.add(item.task, item.train)
        return Trainer(model, sets, chosen, progress=False)

    return make
