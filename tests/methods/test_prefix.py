"""Prefixes: each learned alone, read together, a light head per task on what comes out."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from onepass.encoder.batch import Batch
from onepass.errors import ConfigError
from onepass.methods.prefix import TaskPrefixes
from onepass.model import Model

MakeModel = Callable[..., Model]


def packed(model: Model, texts: list[str]) -> Batch:
    return Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in texts])])


def with_sources(make_model: MakeModel, sources: list[int], **options: Any) -> tuple[Model, TaskPrefixes]:
    """A model whose prefixes are far from small, with some of them in use."""
    model = make_model("prefix", **options)
    method = cast(TaskPrefixes, model.method)
    with torch.no_grad():
        for parameter in method.token_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())))
            parameter.mul_(torch.rand(1) + 1)
    method.use(sources)
    return model, method


def test_with_one_source_the_combination_is_what_the_source_was_trained_with(
    make_model: MakeModel, texts: list[str]
) -> None:
    model, method = with_sources(make_model, [1])
    batch = packed(model, texts)
    asked = torch.full((len(texts), 1), 1)
    with torch.no_grad():
        alone = method.forward_source(batch, asked).vectors[:, 0]
    torch.testing.assert_close(method.cache(batch)[batch.layout.starts], alone)


def test_the_order_of_prefixes_changes_nothing(make_model: MakeModel, texts: list[str]) -> None:
    model, method = with_sources(make_model, [0, 1, 3])
    batch = packed(model, texts)
    before = method.cache(batch)
    with torch.no_grad():
        first, last = method.prefix_of(0), method.prefix_of(3)
        kept = first.clone()
        first.copy_(last)
        last.copy_(kept)
    torch.testing.assert_close(method.cache(batch), before)


def test_a_prefix_that_is_not_in_use_changes_nothing_and_one_that_is_does(
    make_model: MakeModel, texts: list[str]
) -> None:
    model, method = with_sources(make_model, [0, 2])
    batch = packed(model, texts)
    before = method.cache(batch)
    with torch.no_grad():
        method.prefix_of(1).add_(1)
    assert torch.equal(method.cache(batch), before)
    method.use([0])
    assert not torch.allclose(method.cache(batch), before, atol=1e-3)
    method.use([])
    torch.testing.assert_close(method.cache(batch), model.method.encoder(batch))


@pytest.mark.parametrize("length", [1, 7])
def test_positions_of_the_text_do_not_depend_on_the_length_of_prefixes(
    make_model: MakeModel, texts: list[str], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, method = with_sources(make_model, [0, 1], prefix_length=length)
    batch, seen = packed(model, texts), list[Tensor]()
    embed = method.encoder.embed

    def spied(words: Tensor, positions: Tensor, types: Tensor) -> Tensor:
        seen.append(positions)
        return embed(words, positions, types)

    monkeypatch.setattr(method.encoder, "embed", spied)
    method.cache(batch)
    method.forward_source(batch, torch.zeros(len(texts), 1, dtype=torch.long))
    assert all(torch.equal(positions, batch.layout.positions) for positions in seen)
    assert len(seen) == 2


def test_the_literal_combination_repeats_the_keys_of_the_text(make_model: MakeModel) -> None:
    """Against attention over K* = [P_1; K; P_2; K] by hand, in a first layer."""
    model, method = with_sources(make_model, [0, 1], combination="literal")
    batch = packed(model, ["w1 w2 w3"])
    encoder, layout = method.encoder, batch.layout
    layer = encoder.layers[0]
    x = encoder.embed(encoder.words(batch.ids), layout.positions, batch.types)
    states = layer.project(x, layout)
    q, k, v = states.unbind(1)
    parts = [(method.prefix_of(task)[0, 0], method.prefix_of(task)[0, 1]) for task in (0, 1)]
    keys = torch.cat([part for key, _ in parts for part in (key, k)])
    values = torch.cat([part for _, value in parts for part in (value, v)])
    by_hand = F.scaled_dot_product_attention(q.transpose(0, 1), keys.transpose(0, 1), values.transpose(0, 1))
    combined = cast(Tensor, method.combined(1))[:, 0]
    bias = method.repetition()
    assert bias is not None
    assert bias(layout.groups[0]).item() == pytest.approx(math.log(2))
    attended = layer.attend(states, layout, prefix=(combined[:, 0], combined[:, 1]), bias=bias)
    torch.testing.assert_close(attended, by_hand.transpose(0, 1))


def test_the_light_head_is_an_attention_layer_over_all_tokens(make_model: MakeModel, texts: list[str]) -> None:
    """The short way over [CLS] alone gives what keys and values of every token give."""
    model, method = with_sources(make_model, [0])
    batch = packed(model, texts)
    x = method.cache(batch)
    asked = torch.tensor([[2, 0]]).expand(len(texts), -1)
    vectors = method.from_cache(x, batch.layout, asked).vectors
    heads = method.encoder.config.heads
    for column, task in enumerate((2, 0)):
        own = method.own(task).attention
        for row, states in enumerate(x.split(batch.layout.lengths)):
            q, k, v = (
                part(states).unflatten(-1, (heads, -1)).transpose(0, 1) for part in (own.query, own.key, own.value)
            )
            read = F.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)
            by_hand = own.norm(states + own.output(read))[0]
            torch.testing.assert_close(vectors[row, column], by_hand, atol=1e-5, rtol=1e-4)


def test_the_light_head_learns_and_the_prefixes_below_do_not(make_model: MakeModel, texts: list[str]) -> None:
    model, method = with_sources(make_model, [0, 1, 2, 3])
    batch = packed(model, texts)
    model.train()
    model.losses(batch, torch.ones(len(texts), 1, dtype=torch.long), [1] * len(texts)).mean().backward()
    assert all(parameter.grad is not None for parameter in method.own(1).attention.parameters())
    assert all(parameter.grad is None for parameter in [*method.token_parameters(), *method.encoder.parameters()])


def test_the_representation_is_without_dropout_in_training(make_model: MakeModel, texts: list[str]) -> None:
    model, method = with_sources(make_model, [0, 1], dropout=0.5)
    batch = packed(model, texts)
    fixed = method.cache(batch)
    model.train()
    assert torch.equal(method.cache(batch), fixed)
    assert method.encoder.training


def test_parameters_of_a_prefix_are_the_papers_count(make_model: MakeModel) -> None:
    model = make_model("prefix")
    config = model.method.encoder.config
    assert [p.numel() for p in model.method.token_parameters()] == [5 * config.depth * 2 * config.width] * 4


def test_stages_learn_one_source_after_the_other_and_then_the_heads(make_model: MakeModel) -> None:
    method = cast(TaskPrefixes, make_model("prefix", num_tasks=3).method)
    assert [stage.tasks for stage in method.stages()] == [[0], [1], [2], None]
    assert [stage.rate for stage in method.stages()] == [5e-3, 5e-3, 5e-3, None]
    assert all(stage.freeze_encoder for stage in method.stages())
    rival = cast(TaskPrefixes, make_model("prefix", num_tasks=3, sources="multitask").method)
    assert [(stage.tasks, stage.freeze_encoder) for stage in rival.stages()] == [(None, False), (None, True)]
    assert len(make_model("prefix", num_tasks=3, sources="none").method.stages()) == 1


def test_which_tasks_are_sources_is_kept_in_the_folder(make_model: MakeModel, texts: list[str], tmp_path: Path) -> None:
    model, method = with_sources(make_model, [0, 3])
    model.save(tmp_path / "model")
    loaded = Model.load(tmp_path / "model")
    assert cast(TaskPrefixes, loaded.method).sources == [0, 3]
    batch = packed(model, texts)
    assert torch.equal(cast(TaskPrefixes, loaded.method).cache(batch), method.cache(batch))


def test_an_added_task_starts_from_the_heads_of_others_but_is_no_source(make_model: MakeModel) -> None:
    _, method = with_sources(make_model, [0, 1])
    method.start_from_mean(3, [0, 1])
    mean = (method.own(0).attention.query.weight + method.own(1).attention.query.weight) / 2
    torch.testing.assert_close(method.own(3).attention.query.weight, mean)
    method.start_from(3, 1)
    assert torch.equal(method.own(3).attention.query.weight, method.own(1).attention.query.weight)
    assert method.sources == [0, 1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"prefix_length": 0}, "prefix_length is 0"),
        ({"prefix_dropout": 1.0}, "prefix_dropout"),
        ({"source_rate": 0}, "source_rate is 0"),
    ],
)
def test_options_that_cannot_be_are_refused(make_model: MakeModel, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_model("prefix", **options)
