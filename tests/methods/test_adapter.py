"""Adapters: bottlenecks and norms of each task's own in an encoder that stays as it is."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from onepass.encoder.batch import Batch
from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder
from onepass.encoder.loading import random_encoder
from onepass.errors import ConfigError
from onepass.methods.adapter import Adapter, AdapterTask, Bottleneck
from onepass.model import Model

MakeModel = Callable[..., Model]
SIZES: dict[str, Any] = {
    "vocab_size": 20, "width": 16, "depth": 3, "heads": 2, "ffn_width": 24, "max_positions": 40,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {"type_vocab": 2},
    "electra": {"type_vocab": 2, "embedding_width": 8},
    "modernbert": {
        "pre_norm": True, "gated": True, "norm_bias": False, "position_table": False, "global_theta": 100.0,
    },
}  # fmt: skip
BATCH = Batch.of([(list(range(1, n + 1)), [0] * n) for n in (3, 12, 5, 7, 1)])
every_family = pytest.mark.parametrize("family", FAMILIES)


def make_adapter(family: str = "bert", num_tasks: int = 3, **options: Any) -> Adapter:
    torch.manual_seed(0)
    encoder = random_encoder(EncoderConfig(family=family, **SIZES, **FAMILIES[family]))
    stir(encoder)
    method = Adapter(encoder, **options)
    method.tasks.extend(method.new_task() for _ in range(num_tasks))
    return method.eval()


@torch.no_grad()
def stir(module: nn.Module) -> None:
    """Weights far from their small start values, so that a difference cannot hide behind them."""
    for parameter in module.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.2)


def rebuilt(encoder: Encoder, task: AdapterTask) -> Encoder:
    """A whole encoder of one task's own, with its parts built in for good."""
    whole = copy.deepcopy(encoder)
    whole.embedding_norm = task.embedding_norm
    whole.final_norm = task.final_norm
    for layer, own in zip(whole.layers, task.layers, strict=True):
        layer.attention_output = nn.Sequential(layer.attention_output, own.attention)
        layer.down = nn.Sequential(layer.down, own.mlp)
        layer.attention_norm, layer.mlp_norm = own.attention_norm, own.mlp_norm
    return whole


@every_family
def test_a_mixed_batch_gives_each_row_its_own_tasks_encoder(family: str) -> None:
    method = make_adapter(family)
    stir(method.tasks)
    asked = torch.tensor([[2, 0], [0, 1], [1, 2], [2, 1], [0, 2]])
    with torch.no_grad():
        got = method(BATCH, asked).vectors
        for row, tasks in enumerate(asked.tolist()):
            for place, task in enumerate(tasks):
                expected = rebuilt(method.encoder, method.tasks[task])(BATCH.select([row]))[0]
                torch.testing.assert_close(got[row, place], expected, atol=1e-4, rtol=1e-4)


@every_family
def test_at_first_it_is_almost_the_plain_encoder(family: str) -> None:
    method = make_adapter(family)
    with torch.no_grad():
        plain = method.encoder(BATCH)[BATCH.layout.starts]
        got = method(BATCH, torch.tensor([[0], [1], [2], [0], [1]])).vectors[:, 0]
    torch.testing.assert_close(got, plain, atol=1e-3, rtol=1e-3)
    assert not torch.equal(got, plain)


def test_a_bottleneck_by_hand() -> None:
    bottleneck = Bottleneck(2, 1)
    with torch.no_grad():
        bottleneck.down.weight.copy_(torch.tensor([[1.0, 2.0]]))
        bottleneck.up.weight.copy_(torch.tensor([[3.0], [-1.0]]))
        bottleneck.up.bias.copy_(torch.tensor([0.0, 5.0]))
        got = bottleneck(torch.tensor([[-1.0, 1.0]]))  # GELU(1) = 0.8413
    torch.testing.assert_close(got, torch.tensor([[-1 + 3 * 0.8413447, 1 - 0.8413447 + 5]]))


def test_bottlenecks_start_tiny() -> None:
    bottleneck = Bottleneck(64, 64)
    for linear in (bottleneck.down, bottleneck.up):
        assert linear.weight.abs().max() <= 2e-3
        assert 8e-4 < linear.weight.std() < 1e-3
        assert not linear.bias.any()


def test_a_tasks_bottlenecks_see_its_own_tokens_only() -> None:
    method, seen = make_adapter(), [0, 0, 0]
    for number, task in enumerate(method.tasks):

        def count(_module: nn.Module, inputs: tuple[torch.Tensor], number: int = number) -> None:
            seen[number] += len(inputs[0])

        task.layers[1].mlp.register_forward_pre_hook(count)
    method(BATCH, torch.tensor([[0], [2], [0], [2], [2]]))
    assert seen == [3 + 5, 0, 12 + 7 + 1]


def test_a_pass_leaves_the_encoder_as_it_was() -> None:
    method = make_adapter()
    stir(method.tasks)
    with torch.no_grad():
        before = method.encoder(BATCH)
        method(BATCH, torch.tensor([[0], [1], [2], [0], [1]]))
        assert torch.equal(method.encoder(BATCH), before)


def test_only_the_asked_tasks_bottlenecks_and_norms_learn(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("adapter")
    batch = Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])
    model.train().losses(batch, torch.tensor([[0], [1]] * 4), [1] * 8).mean().backward()
    assert all(parameter.grad is None for parameter in model.method.encoder.parameters())
    for number, task in enumerate(model.method.tasks):
        assert all((parameter.grad is not None) == (number < 2) for parameter in task.parameters())
    names = {name for name, _ in model.method.tasks[0].named_parameters()}
    assert {"embedding_norm.weight", "layers.2.mlp_norm.bias", "layers.0.attention.down.weight"} <= names


@pytest.mark.parametrize(("pooler", "extra"), [("none", 0), ("task", 16 * 16 + 16)])
def test_a_task_has_two_bottlenecks_a_layer_and_all_norms(pooler: str, extra: int) -> None:
    task = make_adapter(bottleneck=4, pooler=pooler).tasks[0]
    bottlenecks, norms = 3 * 2 * (2 * 16 * 4 + 4 + 16), (2 * 3 + 1) * 2 * 16
    assert sum(parameter.numel() for parameter in task.parameters()) == bottlenecks + norms + extra


def test_a_bottleneck_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="bottleneck is 0"):
        make_adapter(bottleneck=0)
