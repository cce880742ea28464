"""Attention within each sequence of a packed batch.

On a GPU in half precision a variable-length kernel reads the packed tokens as they are. Everywhere else, and whenever
a bias, a prefix or dropout is asked for, sequences of about the same length are computed side by side.

Letters: B sequences, T tokens of all of them, G sequences of a group, M the longest of a group, P prefix length.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from onepass.encoder.batch import Group, Layout

Bias = Callable[[Group], Tensor]
"""What is added to the scores of a group: broadcastable to (G, heads, M, M)"""
Prefix = tuple[Tensor, Tensor]
"""Extra keys and values of each sequence, each (B, P, heads, head_dim)"""


def attend(
    states: Tensor,
    layout: Layout,
    *,
    bias: Bias | None = None,
    window: int | None = None,
    prefix: Prefix | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Every token reads the tokens of its own sequence.

    The queries, keys and values (T, 3, heads, head_dim) become what is read, (T, heads, head_dim).
    With a window a token reads only those at most window // 2 places away. A prefix is read by all tokens of its
    sequence, whatever the window, and gets no bias.
    """
    if layout.total == 0:
        return states[:, 0]
    if window is not None and layout.longest - 1 <= window // 2:
        window = None
    if bias is None and prefix is None and dropout == 0.0 and reads_packed(states):
        return _attend_packed(states, layout, window)
    groups = zip(layout.pad(states), layout.groups, layout.unseen(states.dtype), strict=True)
    attended = [_attend_group(own, group, mask, bias, window, prefix, dropout) for own, group, mask in groups]
    return layout.unpad(attended)


def reads_packed(states: Tensor) -> bool:
    """Whether a variable-length kernel reads packed tokens as these states (..., head_dim) are."""
    half = states.dtype in (torch.bfloat16, torch.float16)
    return states.is_cuda and half and _varlen_works(states.device, states.shape[-1])


def attend_across(q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Queries (B, Q, heads, head_dim) read the packed tokens of their sequence: what they got, in the same shape, and
    the logarithm of the sum of their scores' exponentials (B, Q, heads), by which it can be joined with other reads.

    Only where `reads_packed`, and never in training: the kernel's gradient does not see the second output.
    """
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    each = q.shape[1]
    ends = torch.arange(0, (len(layout) + 1) * each, each, dtype=torch.int32, device=q.device)
    got, sums = varlen_attn(
        q.flatten(0, 1), k, v, ends, layout.boundaries, each, layout.longest, return_aux=AuxRequest(lse=True)
    )
    return got.view(q.shape), sums.transpose(0, 1).reshape(q.shape[:-1])


def _attend_group(
    states: Tensor,
    group: Group,
    mask: Tensor | None,
    bias: Bias | None,
    window: int | None,
    prefix: Prefix | None,
    dropout: float,
) -> Tensor:
    """Attention of one group, (G, M, 3, heads, head_dim); the mask is what hides its padding."""
    q, k, v = states.unbind(2)
    if window is not None:
        mask = q.new_zeros(()).where(_near(group, window), -torch.inf)
    if bias is not None:
        scores = bias(group).to(q.dtype)
        mask = scores if mask is None else scores + mask
    if prefix is not None:
        prefix_k, prefix_v = (states.index_select(0, group.rows).to(k.dtype) for states in prefix)
        k, v = torch.cat([prefix_k, k], dim=1), torch.cat([prefix_v, v], dim=1)
        if mask is not None:
            mask = mask.expand(*mask.shape[:-1], group.size)
            mask = F.pad(mask, (prefix_k.shape[1], 0))  # 0: seen, without a bias
    return read_all(q, k, v, mask, dropout)


def read_all(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """Queries (G, Q, heads, head_dim) read keys and values (G, M, heads, head_dim); the mask is added to the scores."""
    with _kernels(q.is_cuda):
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=mask, dropout_p=dropout
        )
    return out.transpose(1, 2)


def _kernels(cuda: bool) -> AbstractContextManager[None]:
    """All kernels but cuDNN's, whose calls took a millisecond on packed batches, whose shapes hardly ever repeat."""
    if not cuda:
        return nullcontext()
    kernels = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
    return cast("AbstractContextManager[None]", sdpa_kernel(list(kernels)))


def _near(group: Group, window: int) -> Tensor:
    """Which tokens (last axis) each token (the axis before) reads."""
    places = torch.arange(group.size, device=group.rows.device)
    near = (places[:, None] - places).abs() <= window // 2  # (M, M)
    if group.mask is None:
        return near
    # A padding token far from every real one would read nothing, and the softmax of nothing is NaN, also in gradients.
    return near & group.mask[:, None, None, :] | ~group.mask[:, None, :, None]


def _attend_packed(states: Tensor, layout: Layout, window: int | None) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn  # takes as long to import as all of torch

    reach = -1 if window is None else window // 2
    (q, k, v), ends, longest = states.unbind(1), layout.boundaries, layout.longest
    return cast(Tensor, varlen_attn(q, k, v, ends, ends, longest, longest, window_size=(reach, reach)))


@cache
def _varlen_works(device: torch.device, head_dim: int) -> bool:
    """Whether the variable-length kernel runs here: it needs a recent GPU, and a window a torch after 2.10."""
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    states = torch.zeros(2, 1, head_dim, dtype=torch.bfloat16, device=device)
    ends = torch.tensor([0, 2], dtype=torch.int32, device=device)
    try:
        varlen_attn(states, states, states, ends, ends, 2, 2, window_size=(1, 1), return_aux=AuxRequest(lse=True))
    except (RuntimeError, TypeError):
        return False
    return True
