"""CA-MTL: every module by itself, both bottlenecks, freezing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from onepass.encoder.batch import Batch
from onepass.encoder.config import EncoderConfig
from onepass.encoder.encoder import Encoder
from onepass.encoder.loading import random_encoder
from onepass.errors import ConfigError, EncoderError
from onepass.methods import make_method
from onepass.methods.camtl import CAMTL
from onepass.methods.conditional import Alignment, BlockAttention, Condition, ConditionalNorm, FiLM

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "width": 32,
    "depth": 4,
    "heads": 4,
    "ffn_width": 64,
    "max_positions": 64,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
BERT = EncoderConfig(family="bert", type_vocab=2, **SIZES)
MODERN = EncoderConfig(
    family="modernbert", pre_norm=True, gated=True, norm_bias=False, mlp_bias=False, attention_bias=False,
    position_table=False, global_theta=10000.0, local_theta=100.0, local_window=8, local_layers=(1, 3), **SIZES,
)  # fmt: skip
MPNET = EncoderConfig(family="mpnet", position_offset=2, relative_buckets=8, **SIZES)


def make(num_tasks: int = 3, config: EncoderConfig = BERT, strange: bool = True, **options: Any) -> CAMTL:
    """A method with weights far from their start, so that a difference cannot hide behind small numbers."""
    torch.manual_seed(0)
    method = make_method("camtl", random_encoder(config, seed=1), {"max_length": 16, **options})
    assert isinstance(method, CAMTL)
    for _ in range(num_tasks):
        method.tasks.append(method.new_task())
    if strange:
        for parameter in method.parameters():
            parameter.data += 0.2 * torch.randn(parameter.shape)
    return method.eval()


def zero_films(method: CAMTL) -> CAMTL:
    for module in method.modules():
        if isinstance(module, FiLM):
            nn.init.zeros_(module.weight)
            nn.init.zeros_(module.bias)
    return method


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    ids = [torch.randint(1, 64, (length,), generator=generator).tolist() for length in (5, 16, 3, 9, 12, 7)]
    return Batch.of([(row, [0] * len(row)) for row in ids])


def condition(method: CAMTL, batch: Batch, task: int) -> Condition:
    """All rows of one task."""
    zeros = torch.zeros(batch.layout.total, dtype=torch.long)
    return Condition(method.tasks[task].embedding[None], zeros[: len(batch)], zeros)


@torch.no_grad()
@pytest.mark.parametrize("config", [BERT, MODERN, MPNET], ids=lambda config: config.family)
def test_films_of_zero_leave_the_encoder_as_it_was(config: EncoderConfig, batch: Batch) -> None:
    method = zero_films(make(config=config, strange=False, bottleneck="none"))
    torch.testing.assert_close(method.encode(batch, condition(method, batch, 1)), method.encoder(batch))


@torch.no_grad()
@pytest.mark.parametrize("config", [BERT, MODERN, MPNET], ids=lambda config: config.family)
@pytest.mark.parametrize("pretrained_top", [False, True])
def test_films_of_zero_leave_all_but_the_top_layer(config: EncoderConfig, pretrained_top: bool, batch: Batch) -> None:
    method = zero_films(make(config=config, strange=False, pretrained_top=pretrained_top))
    encoder, layout, over = method.encoder, batch.layout, method.over_top
    x = encoder.embed(encoder.words(batch.ids), layout.positions, batch.types)
    for layer in encoder.layers[:-1]:
        x = layer(x, layout)
    top = encoder.layers[-1] if pretrained_top else method.new_top
    assert top is not None and over is not None
    attended = top.merge(x, top.attend(top.project(x, layout), layout))
    bottleneck = over.bottleneck
    expected = over.norm(bottleneck.up(bottleneck.down(top.feed_forward(attended))) + attended)
    torch.testing.assert_close(method.encode(batch, condition(method, batch, 1)), encoder.finish(expected))


SHAPES = [(768, 128, 6, 22), (768, 256, 3, 86), (1024, 128, 8, 16), (1024, 256, 4, 64), (384, 128, 3, 43),
          (256, 128, 2, 64), (128, 128, 1, 128), (32, 128, 1, 128)]  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize(("width", "length", "num_blocks", "size"), SHAPES)
def test_the_blocks_have_the_released_sizes(width: int, length: int, num_blocks: int, size: int) -> None:
    attention = BlockAttention(width, length)
    attention.table.normal_()
    assert (attention.num_blocks, attention.size) == (num_blocks, size)
    z = torch.randn(2, width)
    matrix = attention.matrix(z, length)
    assert matrix.shape == (2, length, length)
    scale, shift = attention.film(z)
    for i in range(2):
        chunks = (scale[i] * attention.table + shift[i]).chunk(num_blocks)  # as the released code builds it
        torch.testing.assert_close(matrix[i], torch.block_diag(*chunks)[:, :length])
    torch.testing.assert_close(attention.matrix(z, length // 3), matrix[:, : length // 3, : length // 3])


@torch.no_grad()
def test_a_full_block_covers_everything() -> None:
    attention = BlockAttention(768, 128, full=True)
    attention.film.bias.fill_(1.0)
    assert attention.matrix(torch.randn(1, 768), 128).ne(0).all()


@torch.no_grad()
def test_the_large_form_returns_the_side_track_alone(batch: Batch) -> None:
    method = make(bottleneck="large", alignment=False, attention=False, layer_norm=False)
    assert method.side is not None and method.new_top is None
    inner = condition(method, batch, 2)
    inner = Condition(method.transform(inner.z), inner.of_row, inner.of_token)
    encoder, side = method.encoder, torch.zeros(batch.layout.total, 32)
    x = encoder.embed(encoder.words(batch.ids), batch.layout.positions, batch.types)
    for layer, bottleneck in zip(encoder.layers, method.side, strict=True):
        x = layer(x, batch.layout)
        side = bottleneck(x + side, inner)
    torch.testing.assert_close(method.encode(batch, condition(method, batch, 2)), side)


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"bottleneck": "large"}, {"formulas": "paper"}, {"blocks": "full"}], ids=str)
@pytest.mark.parametrize("config", [BERT, MODERN, MPNET], ids=lambda config: config.family)
def test_a_mixed_batch_answers_as_each_task_alone(config: EncoderConfig, options: dict[str, Any], batch: Batch) -> None:
    method = make(config=config, **options)
    asked = torch.tensor([[0, 1], [2, 0], [1, 1], [2, 1], [0, 2], [1, 0]])
    mixed = method(batch, asked).vectors
    assert mixed.shape == (6, 2, 32)
    for task in range(3):
        alone = method(batch, torch.full((6, 1), task)).vectors[:, 0]
        rows, places = (asked == task).nonzero(as_tuple=True)
        torch.testing.assert_close(mixed[rows, places], alone[rows], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(mixed[0, 0], mixed[0, 1], atol=1e-3)  # the task matters


MODULES = {"alignment": False, "attention": False, "layer_norm": False, "bottleneck": "none"}


@torch.no_grad()
@pytest.mark.parametrize("kept", [None, *MODULES])
def test_each_module_can_be_switched_off(kept: str | None, batch: Batch) -> None:
    method = make(**{name: off for name, off in MODULES.items() if name != kept})
    first, second = (method(batch, torch.full((6, 1), task)).vectors for task in (0, 1))
    assert torch.equal(first, second) == (kept is None)  # every module alone makes tasks differ, nothing else does


def test_only_the_tasks_of_a_batch_have_gradients(batch: Batch) -> None:
    method = make().train()
    method(batch, torch.tensor([[0], [2], [0], [2], [2], [0]])).vectors.square().sum().backward()
    assert [task.embedding.grad is not None for task in method.tasks] == [True, False, True]


@pytest.mark.parametrize(("share", "layers"), [(0, 0), (0.25, 1), (0.5, 2), (1.0, 4)])
def test_a_share_of_the_lower_layers_is_frozen(share: float, layers: int) -> None:
    method = make(frozen_share=share, strange=False)
    encoder = method.encoder
    learns = [any(p.requires_grad for p in layer.parameters()) for layer in encoder.layers[:-1]]
    assert learns == [index >= layers for index in range(3)]
    assert encoder.word_table.weight.requires_grad == encoder.embedding_norm.weight.requires_grad == (layers == 0)
    assert not encoder.layers[-1].qkv.weight.requires_grad  # a new layer stands in its place
    others = [p for name, p in method.named_parameters() if not name.startswith("encoder.")]
    assert all(p.requires_grad for p in others)


def test_frozen_films_repeat_the_released_code() -> None:
    method = make(frozen_films=True, strange=False)
    assert method.attention is not None
    assert [part.film.weight.requires_grad for part in method.attention] == [False, False, True, True]
    assert all(part.table.requires_grad for part in method.attention)


@pytest.mark.parametrize("option", [{"frozen_share": -0.1}, {"frozen_share": 1.5}, {"max_length": 0}])
def test_options_outside_their_range_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"method 'camtl': \w+ is .*; possible"):
        make(**option)


def test_texts_longer_than_the_blocks_are_refused(batch: Batch) -> None:
    method = make(max_length=8)
    assert "16 tokens" in method.limits(3, 16)[0] and method.limits(3, 8) == []
    with pytest.raises(EncoderError, match="16 tokens is too long"):
        method(batch, torch.zeros(6, 1, dtype=torch.long))
    assert make(max_length=8, attention=False).limits(3, 16) == []


def test_a_new_task_starts_from_another(batch: Batch) -> None:
    method = make()
    method.start_from(2, 0)
    ask: Callable[[int], Tensor] = lambda task: method(batch, torch.full((6, 1), task)).vectors  # noqa: E731
    assert torch.equal(ask(2), ask(0)) and not torch.equal(ask(1), ask(0))
    assert method.tasks[2].embedding is not method.tasks[0].embedding


@torch.no_grad()
def test_the_papers_formulas() -> None:
    """A token of task 1, by hand."""
    z, one = torch.randn(2, 8), torch.ones(1, dtype=torch.long)
    given, x = Condition(z, one, one), torch.randn(1, 8)
    alignment = Alignment(8, paper=True)
    alignment.matrix.normal_()  # type: ignore[union-attr]
    scale, shift = (part[1] for part in alignment.film(z))
    torch.testing.assert_close(alignment(x, given), x @ alignment.matrix * scale + shift)

    norm, conditional = nn.LayerNorm(8), ConditionalNorm(8, paper=True)
    norm.weight.normal_()
    norm.bias.normal_()
    scale, shift = (part[1] for part in conditional.film(z))
    plain = (x - x.mean()) / x.std(correction=0)
    torch.testing.assert_close(
        conditional(x, norm, given), plain * (norm.weight * scale + norm.bias) + shift, atol=1e-4, rtol=1e-4
    )

    attention = BlockAttention(8, 4, paper=True)  # 2 blocks of 2 x 2
    scale, shift = (part[1].view(2, 2) for part in attention.film(z))
    blocks = [attention.table[:2] * scale + shift, attention.table[2:] * scale + shift]
    torch.testing.assert_close(attention.matrix(z, 4)[1], torch.block_diag(*blocks))


@pytest.mark.parametrize(
    ("width", "depth", "form", "millions"), [(768, 12, "base", 19.7), (1024, 24, "large", 146.7)], ids=["base", "large"]
)
def test_it_adds_as_many_weights_as_the_released_code(width: int, depth: int, form: str, millions: float) -> None:
    sizes = {"width": width, "depth": depth, "heads": 16 if depth == 24 else 12, "ffn_width": 4 * width}
    with torch.device("meta"):
        encoder = Encoder(EncoderConfig(**{**BERT.to_dict(), **sizes, "vocab_size": 28996, "max_positions": 512}))
        method = make_method("camtl", encoder, {"bottleneck": form})
    assert isinstance(method, CAMTL)
    replaced = [] if method.new_top is None else [method.new_top]  # in place of the top layer, not added
    left_out = {id(p) for part in (encoder, method.pooler, *replaced) for p in part.parameters()}
    added = sum(p.numel() for p in method.parameters() if id(p) not in left_out)
    assert round(added / 1e6, 1) == millions
