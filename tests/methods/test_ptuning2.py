"""P-Tuning v2: a task's keys and values in every layer, beside a text that is read as without them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.encoder import Layer
from onepass.errors import ConfigError
from onepass.model import Model

MakeModel = Callable[..., Model]


def packed(model: Model, texts: list[str]) -> Batch:
    return Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])


@torch.no_grad()
def stir(module: nn.Module) -> None:
    """Weights far from their small start values, so that a difference cannot hide behind them."""
    for parameter in module.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)) * 0.3)


def layer_by_hand(layer: Layer, x: Tensor, prefix: Tensor) -> Tensor:
    """One layer for one text (n, H), with a prefix (2, P, heads, d)."""
    query, key, value = layer.project(x, None).unbind(-3)
    key, value = torch.cat([prefix[0], key]), torch.cat([prefix[1], value])
    weights = (torch.einsum("qhd,khd->hqk", query, key) / query.shape[-1] ** 0.5).softmax(-1)
    return layer.feed_forward(layer.merge(x, torch.einsum("hqk,khd->qhd", weights, value)))


def test_every_layer_reads_the_tasks_keys_and_values(make_model: MakeModel, texts: list[str]) -> None:
    """The same by hand, text by text and task by task."""
    model = make_model("ptuning2", prefix_length=3)
    stir(model.method)
    method, encoder = model.method, model.method.encoder
    with torch.no_grad():
        got = method(packed(model, texts), torch.tensor([[2, 0]] * len(texts))).vectors
        for row, text in enumerate(texts):
            alone = packed(model, [text])
            for place, task in enumerate((2, 0)):
                x = encoder.embed(encoder.words(alone.ids), alone.layout.positions, alone.types)
                for layer, prefix in zip(encoder.layers, method.tasks[task].prefix, strict=True):
                    x = layer_by_hand(layer, x, prefix)
                torch.testing.assert_close(got[row, place], method.pooler(x[0]), atol=1e-5, rtol=1e-4)


def test_a_prefix_of_length_0_is_the_plain_encoder(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("ptuning2", prefix_length=0)
    method, batch = model.method, packed(model, texts)
    with torch.no_grad():
        plain = method.pooler(method.encoder(batch)[batch.layout.starts])
        got = method(batch, torch.tensor([[0, 1]] * len(texts))).vectors
    torch.testing.assert_close(got, plain.unsqueeze(1).expand(-1, 2, -1))


def test_the_texts_positions_are_those_without_a_prefix(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("ptuning2", prefix_length=20)
    encoder, seen = model.method.encoder, list[torch.Tensor]()
    embed = encoder.embed
    encoder.embed = lambda words, positions, types: (seen.append(positions), embed(words, positions, types))[1]
    model.logits(packed(model, texts[:1]), [0, 1])
    assert seen[0].tolist() == [0, 1, 2, 3, 4] * 2
    assert model.method.limits(num_tasks=100, max_length=encoder.config.capacity) == []


def test_the_order_within_a_prefix_changes_nothing(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("ptuning2", prefix_length=4)
    stir(model.method)
    batch, asked = packed(model, texts), torch.zeros(len(texts), 1, dtype=torch.long)
    with torch.no_grad():
        before = model.method(batch, asked).vectors
        prefix = model.method.tasks[0].prefix
        prefix.copy_(prefix[:, :, [2, 0, 3, 1]])
        after = model.method(batch, asked).vectors
    torch.testing.assert_close(before, after, atol=1e-5, rtol=1e-4)


def test_prefixes_start_small(make_model: MakeModel) -> None:
    prefix = make_model("ptuning2", prefix_length=30).method.tasks[0].prefix
    assert 0.018 < prefix.std() < 0.022
    assert abs(prefix.mean()) < 0.002


def test_prefixes_can_start_as_what_layers_make_of_common_tokens(make_model: MakeModel) -> None:
    model = make_model("ptuning2", num_tasks=0, prefixes="token", prefix_length=1)
    method, encoder = model.method, model.method.encoder
    examples = type("Rows", (), {"ids": np.array([2, 7, 7, 7, 3])})  # [CLS] w3 w3 w3 [SEP]: only one can be drawn
    method.add_task(model.tokenizer, examples)
    x = encoder.embedding_norm(encoder.word_table.weight[7])
    for layer, prefix in zip(encoder.layers, method.tasks[0].prefix, strict=True):
        _, key, value = (layer.qkv.weight @ x + layer.qkv.bias).unflatten(0, (3, 4, 8))
        torch.testing.assert_close(prefix[0, 0], key)
        torch.testing.assert_close(prefix[1, 0], value)


def test_dropout_falls_on_the_prefix_in_training_only(make_model: MakeModel, texts: list[str]) -> None:
    model = make_model("ptuning2", prefix_length=4, prefix_dropout=0.5)  # the encoder itself has none
    stir(model.method)
    batch, asked = packed(model, texts), torch.zeros(len(texts), 1, dtype=torch.long)
    with torch.no_grad():
        serving = [model.method.eval()(batch, asked).vectors for _ in range(2)]
        training = [model.method.train()(batch, asked).vectors for _ in range(2)]
    assert torch.equal(*serving)
    assert not torch.allclose(*training)


def test_each_prefix_has_the_gradient_of_its_own_rows(make_model: MakeModel, texts: list[str]) -> None:
    mixed, alone = make_model("ptuning2", prefix_dropout=0.0), make_model("ptuning2", prefix_dropout=0.0)
    mixed.train().losses(packed(mixed, texts), torch.tensor([[0], [1]] * 4), [1] * 8).sum().backward()
    alone.train().losses(packed(alone, texts[::2]), torch.zeros(4, 1, dtype=torch.long), [1] * 4).sum().backward()
    torch.testing.assert_close(mixed.method.tasks[0].prefix.grad, alone.method.tasks[0].prefix.grad)
    assert all(layer.abs().sum() > 0 for layer in mixed.method.tasks[1].prefix.grad)
    assert mixed.method.tasks[2].prefix.grad is None


@pytest.mark.parametrize(("pooler", "extra"), [("shared", 0), ("task", 32 * 32 + 32)])
def test_a_task_has_keys_and_values_for_every_layer(pooler: str, extra: int, make_model: MakeModel) -> None:
    """5 a layer in RoBERTa-large are 5 * 24 * 2 * 1024 weights; here are 3 layers of width 32."""
    task = make_model("ptuning2", prefix_length=5, pooler=pooler).method.tasks[0]
    assert sum(parameter.numel() for parameter in task.parameters()) == 5 * 3 * 2 * 32 + extra


@pytest.mark.parametrize("frozen", [False, True])
def test_the_encoder_learns_unless_it_is_frozen(frozen: bool, make_model: MakeModel) -> None:
    (stage,) = make_model("ptuning2", frozen=frozen).method.stages()
    assert stage.freeze_encoder is frozen


def test_a_dropout_of_everything_is_refused(make_model: MakeModel) -> None:
    with pytest.raises(ConfigError, match="prefix_dropout is 1"):
        make_model("ptuning2", prefix_dropout=1.0)
