"""Costs against counts by hand."""

from typing import Any

import pytest
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models, processors

from onepass.analysis.cost import Cost, cost_of, untrained_model
from onepass.encoder.config import EncoderConfig
from onepass.encoder.loading import random_encoder
from onepass.encoder.tokenizer import Tokenizer
from onepass.methods import METHODS

L, H, HEADS, FFN, T, N, C = 6, 384, 12, 4 * 384, 128, 8, 2
"""Layers, width, heads, inner width, tokens, tasks, labels: the embedded encoder's sizes with a small vocabulary"""


def layer(tokens: int, keys: int | None = None) -> int:
    """A layer over so many tokens: four square matrices, the feed-forward, scores and mixing over keys."""
    return tokens * (4 * H * H + 2 * H * FFN) + 2 * tokens * (keys or tokens) * H


PLAIN = L * layer(T)


def cost(method: str, num_tasks: int = N, width: int = H, length: int = T, **options: Any) -> Cost:
    raw = RawTokenizer(models.WordLevel({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, unk_token="[UNK]"))
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    config = EncoderConfig(
        family="bert",
        vocab_size=16,
        width=width,
        depth=L,
        heads=HEADS,
        ffn_width=4 * width,
        max_positions=512,
        type_vocab=2,
    )  # fmt: skip
    model = untrained_model(method, random_encoder(config, seed=0), Tokenizer(raw, length), num_tasks, options)
    return cost_of(model, length)


def test_mtdnn_is_a_plain_pass_with_a_pooler_and_heads() -> None:
    found = cost("mtdnn")
    assert found.multiplications == PLAIN + H * H + N * H * C
    assert found.passes == 1
    assert found.parameters_per_task == H * C + C


def test_single_is_a_pass_and_a_pooler_for_each_task_and_its_unused_encoder_is_not_counted() -> None:
    found = cost("single", num_tasks=2)
    assert found.multiplications == 2 * (PLAIN + H * H + H * C)
    assert found.passes == 2
    assert found.parameters == 2 * found.parameters_per_task


def test_mtop_reads_two_prompts_a_task_with_the_text() -> None:
    found = cost("mtop")
    assert found.multiplications == L * layer(T + 2 * N) + N * (H * H + H * C)
    assert found.parameters_per_task == H * H + H + 2 * H + C * H + C  # the paper's d^2 + (L_P + c + 1) d, and a bias
    assert found.ratio == pytest.approx(1.13, abs=0.005)


def test_readers_cost_less_than_a_plain_pass() -> None:
    found = cost("readers")
    readers = 2 * layer(2 * N, T)  # what a task's two tokens read of each other is no matrix product
    last = 2 * T * H * H  # of the text only keys and values are needed in the last layer
    assert found.multiplications == (L - 1) * layer(T) + last + readers + N * (H * H + H * C)
    assert found.ratio == pytest.approx(0.90, abs=0.005)


def test_a_hundred_readers_cost_about_a_plain_pass() -> None:
    """0.99 is the figure without poolers, which are a hundred square matrices more."""
    assert cost("readers", 100, depth=1, tokens=1, pooler="none").ratio == pytest.approx(0.99, abs=0.005)
    assert cost("readers", 100, depth=1, tokens=1).ratio == pytest.approx(1.00, abs=0.005)


def test_prefixes_are_keys_that_every_layer_reads_and_light_heads() -> None:
    found = cost("prefix")
    light = 4 * H * H + 2 * HEADS * T * H + H * C  # four matrices on [CLS] alone, and each head's scores and mixing
    assert found.multiplications == L * layer(T, T + 5 * N) + N * light


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_counted(method: str) -> None:
    found = cost(method, num_tasks=2, width=48, length=64)
    assert found.passes == (1 if METHODS[method].one_pass and method != "mttag" else 2)
    assert found.parameters > found.parameters_per_task > 0
    assert found.ratio > 0.8
