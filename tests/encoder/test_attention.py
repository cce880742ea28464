import math
from typing import Any

import pytest
import torch
from torch import Tensor

from onepass.encoder import attention
from onepass.encoder.batch import Group, Layout

LENGTHS = [3, 7, 1, 6, 30]
HEADS, DIM = 2, 4


def states(total: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(total, HEADS, DIM, generator=generator) for _ in range(3)]


def attend(q: Tensor, k: Tensor, v: Tensor, layout: Layout, **options: Any) -> Tensor:
    return attention.attend(torch.stack([q, k, v], 1), layout, **options)


def naive(q, k, v, lengths, bias=None, window=None, prefix=None) -> Tensor:
    """One query, one head, one sequence at a time, from the formula."""
    out, start = torch.zeros_like(q), 0
    for row, length in enumerate(lengths):
        for head in range(HEADS):
            for i in range(length):
                scores, values = [], []
                if prefix is not None:
                    for key, value in zip(prefix[0][row, :, head], prefix[1][row, :, head], strict=True):
                        scores.append(q[start + i, head] @ key / math.sqrt(DIM))
                        values.append(value)
                for j in range(length):
                    if window is not None and abs(i - j) > window // 2:
                        continue
                    extra = bias(row, head, i, j) if bias is not None else 0.0
                    scores.append(q[start + i, head] @ k[start + j, head] / math.sqrt(DIM) + extra)
                    values.append(v[start + j, head])
                out[start + i, head] = torch.softmax(torch.stack(scores), 0) @ torch.stack(values)
        start += length
    return out


def test_two_tokens_by_hand():
    # One head of one number: scores 0 and ln 3, so the weights are 1/4 and 3/4.
    q = torch.tensor([1.0, 1.0]).reshape(2, 1, 1)
    k = torch.tensor([0.0, math.log(3)]).reshape(2, 1, 1)
    v = torch.tensor([4.0, 8.0]).reshape(2, 1, 1)
    assert attend(q, k, v, Layout([2])).flatten().tolist() == pytest.approx([7.0, 7.0])


def test_a_prefix_by_hand():
    # The text's score is 0, the prefix's ln 3: weights 1/4 and 3/4.
    one = torch.ones(1, 1, 1)
    prefix = (torch.full((1, 1, 1, 1), math.log(3)), torch.full((1, 1, 1, 1), 8.0))
    assert attend(one, 0 * one, 4 * one, Layout([1]), prefix=prefix).item() == pytest.approx(7.0)


def test_every_token_reads_its_own_sequence_only():
    q, k, v = states(sum(LENGTHS))
    torch.testing.assert_close(attend(q, k, v, Layout(LENGTHS)), naive(q, k, v, LENGTHS))


def test_a_window_limits_what_is_read():
    q, k, v = states(sum(LENGTHS))
    torch.testing.assert_close(attend(q, k, v, Layout(LENGTHS), window=4), naive(q, k, v, LENGTHS, window=4))


def test_a_bias_is_added_to_the_scores():
    q, k, v = states(sum(LENGTHS))

    def number(row, head, i, j):
        return 0.3 * row - 0.2 * head + 0.1 * i - 0.4 * j

    def bias(group: Group) -> Tensor:
        places = torch.arange(group.size)
        rows, heads = group.rows[:, None, None, None], torch.arange(HEADS)[:, None, None]
        return number(rows, heads, places[:, None], places)

    torch.testing.assert_close(attend(q, k, v, Layout(LENGTHS), bias=bias), naive(q, k, v, LENGTHS, bias=number))


@pytest.mark.parametrize("lengths", [LENGTHS, [5, 5]], ids=["padded", "unpadded"])
@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("with_bias", [False, True])
def test_a_prefix_is_read_by_all_without_bias(lengths: list[int], window: int | None, with_bias: bool):
    q, k, v = states(sum(lengths))
    generator = torch.Generator().manual_seed(9)
    prefix_k, prefix_v = (torch.randn(len(lengths), 2, HEADS, DIM, generator=generator) for _ in range(2))
    # The smallest shape that is allowed: one number for each head.
    bias = (lambda group: torch.tensor([0.5, -2.0])[:, None, None]) if with_bias else None
    number = (lambda row, head, i, j: [0.5, -2.0][head]) if with_bias else None
    found = attend(q, k, v, Layout(lengths), bias=bias, window=window, prefix=(prefix_k, prefix_v))
    torch.testing.assert_close(found, naive(q, k, v, lengths, number, window, (prefix_k, prefix_v)))


def test_other_sequences_change_nothing():
    q, k, v = states(9)
    alone = attend(q[:4], k[:4], v[:4], Layout([4]))
    torch.testing.assert_close(attend(q, k, v, Layout([4, 5]))[:4], alone)


@pytest.mark.parametrize("window", [None, 2])
def test_gradients_are_finite_with_padding(window: int | None):
    inputs = [x.requires_grad_() for x in states(17)]
    attend(*inputs, Layout([10, 7]), window=window).sum().backward()  # the padding is far from real tokens
    for x in inputs:
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_dropout_drops():
    q, k, v = states(10)
    torch.manual_seed(0)
    assert not torch.allclose(attend(q, k, v, Layout([10]), dropout=0.5), attend(q, k, v, Layout([10])))


def test_nothing_attends_to_nothing():
    q, k, v = states(0)
    assert attend(q, k, v, Layout([])).shape == (0, HEADS, DIM)


@pytest.mark.gpu
@pytest.mark.parametrize("window", [None, 4])
def test_the_variable_length_kernel_agrees_with_groups(window: int | None):
    q, k, v = (x.cuda() for x in states(sum(LENGTHS)))
    layout = Layout(LENGTHS, "cuda")
    halves = [torch.cat([x, x], dim=-1).bfloat16().detach().requires_grad_() for x in (q, k, v)]  # it wants 8 numbers
    found = attend(*halves, layout, window=window)
    found.float().square().sum().backward()
    whole = [x.detach().float().requires_grad_() for x in halves]
    expected = attend(*whole, layout, window=window)
    expected.square().sum().backward()
    torch.testing.assert_close(found.float(), expected, atol=2e-2, rtol=0)
    for half, full in zip(halves, whole, strict=True):
        torch.testing.assert_close(half.grad.float(), full.grad, atol=5e-2, rtol=0)
