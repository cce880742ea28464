"""Packed batches: the tokens of all sequences in one row, and where each sequence lies in it.

Linear layers see the packed tokens (T, H), so nothing is computed for padding. Attention needs sequences side by
side; a layout cuts them into groups of about the same length for it.

Letters: B sequences, T tokens of all of them, G sequences of a group, M the longest of a group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# A group holds lengths of at least this share of its longest, but a small group is not closed: a launch on a GPU costs
# more than much padding (on an H200 one group was fastest up to about 64 sequences, a few groups at 512).
SHARE = {"cpu": 0.75, "cuda": 0.5}
SMALL = {"cpu": 0, "cuda": 32_768}
"""Tokens of a group, padding counted"""


@dataclass(frozen=True)
class Group:
    """Sequences of about the same length, side by side."""

    rows: Tensor
    """(G,) which sequences of the batch"""
    tokens: Tensor
    """(G, M) where their tokens are in the packed batch; padding points at the first token of its row"""
    mask: Tensor | None
    """(G, M) True for real tokens; None when nothing is padded"""
    size: int
    """M"""


class Layout:
    """Where each sequence lies in a packed batch.

    Everything is derived from the lengths, which are Python numbers: nothing here waits for a device.

    >>> layout = Layout([2, 3])
    >>> layout.rows.tolist(), layout.positions.tolist()
    ([0, 0, 1, 1, 1], [0, 1, 0, 1, 2])
    """

    def __init__(self, lengths: Sequence[int], device: torch.device | str = "cpu"):
        self.lengths = [int(length) for length in lengths]
        if min(self.lengths, default=1) < 1:
            raise ValueError(f"a sequence needs at least one token; lengths: {self.lengths}")
        self.device = torch.device(device)
        self.total = sum(self.lengths)
        self.longest = max(self.lengths, default=0)
        self._unseen: dict[torch.dtype, list[Tensor | None]] = {}

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Tensor:
        """(B,) the first token of each sequence."""
        return on_device(self._starts, self.device)

    @cached_property
    def rows(self) -> Tensor:
        """(T,) the sequence of each token."""
        return on_device(np.repeat(np.arange(len(self)), self.lengths), self.device)

    @cached_property
    def positions(self) -> Tensor:
        """(T,) the place of each token in its sequence, from 0."""
        return on_device(np.arange(self.total) - np.repeat(self._starts, self.lengths), self.device)

    @cached_property
    def boundaries(self) -> Tensor:
        """(B + 1,) starts, and the end of the last sequence, as the variable-length kernels want them."""
        return on_device(np.append(self._starts, self.total).astype(np.int32), self.device)

    @cached_property
    def groups(self) -> list[Group]:
        """The sequences from long to short, cut into groups with little padding; in their own order if that is one."""
        return [
            Group(
                rows=on_device(rows, self.device),
                tokens=on_device(tokens, self.device),
                mask=None if real.all() else on_device(real, self.device),
                size=tokens.shape[1],
            )
            for rows, tokens, real in self._cuts
        ]

    @cached_property
    def places(self) -> Tensor:
        """(B,) where each sequence stands when the groups' rows are put one after the other."""
        return on_device(np.argsort(np.concatenate([rows for rows, _, _ in self._cuts])), self.device)

    def pad(self, x: Tensor) -> list[Tensor]:
        """(T, ...) to one (G, M, ...) for each group."""
        if self._in_place:
            return [x.reshape(len(self), self.longest, *x.shape[1:])]
        shapes = [tokens.shape for _, tokens, _ in self._cuts]
        padded = x.index_select(0, self._padding)
        pieces = [padded] if len(shapes) == 1 else padded.split([rows * size for rows, size in shapes])
        return [piece.reshape(*shape, *x.shape[1:]) for piece, shape in zip(pieces, shapes, strict=True)]

    def unpad(self, groups: Sequence[Tensor]) -> Tensor:
        """One (G, M, ...) for each group back to (T, ...)."""
        if self._in_place:
            return groups[0].flatten(0, 1)
        return _joined([group.flatten(0, 1) for group in groups]).index_select(0, self._packing)

    def by_group(self, x: Tensor) -> list[Tensor]:
        """(B, ...) to one (G, ...) for each group."""
        return [x] if len(self._cuts) == 1 else [x.index_select(0, group.rows) for group in self.groups]

    def by_row(self, groups: Sequence[Tensor]) -> Tensor:
        """One (G, ...) for each group back to (B, ...)."""
        return groups[0] if len(groups) == 1 else torch.cat(list(groups)).index_select(0, self.places)

    def unseen(self, dtype: torch.dtype) -> list[Tensor | None]:
        """For each group what is added to the scores of its tokens, (G, 1, 1, M): -inf for padding, else 0."""
        if dtype not in self._unseen:
            added = [np.where(real, 0, -np.inf)[:, None, None].astype(np.float32) for _, _, real in self._cuts]
            self._unseen[dtype] = [on_device(one, self.device).to(dtype) if one.any() else None for one in added]
        return self._unseen[dtype]

    def to(self, device: torch.device | str) -> "Layout":
        """The same sequences on another device, where the groups may be cut otherwise."""
        return self if torch.device(device) == self.device else Layout(self.lengths, device)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *self.lengths], dtype=np.int64)[:-1]

    @cached_property
    def _cuts(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
        """The groups' rows, tokens and masks."""
        lengths = np.asarray(self.lengths, dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        kind = self.device.type if self.device.type in SHARE else "cpu"
        first, chosen = 0, []
        for place in range(1, len(order) + 1):
            longest = lengths[order[first]]
            if place < len(order) and (
                lengths[order[place]] >= SHARE[kind] * longest or (place - first) * longest < SMALL[kind]
            ):
                continue
            chosen.append(order[first:place])
            first = place
        if len(chosen) == 1:  # then no row has to be moved
            chosen = [np.arange(len(order))]
        cuts = []
        for rows in chosen:
            columns = np.arange(lengths[rows].max())
            real = columns < lengths[rows, None]
            cuts.append((rows, self._starts[rows, None] + columns * real, real))
        return cuts

    @cached_property
    def _in_place(self) -> bool:
        """Whether the packed batch is already its only group, so that views do."""
        return len(self) > 0 and self.longest == min(self.lengths)

    @cached_property
    def _padding(self) -> Tensor:
        """The token in each place of all groups."""
        return on_device(np.concatenate([tokens.ravel() for _, tokens, _ in self._cuts]), self.device)

    @cached_property
    def _packing(self) -> Tensor:
        """(T,) the place of each token in all groups."""
        tokens = np.concatenate([tokens[real] for _, tokens, real in self._cuts])
        places = np.flatnonzero(np.concatenate([real.ravel() for _, _, real in self._cuts]))
        packing = np.empty(self.total, dtype=np.int64)
        packing[tokens] = places
        return on_device(packing, self.device)


@dataclass(frozen=True)
class Batch:
    """Tokenised sequences, packed.

    >>> batch = Batch.of([([101, 7592, 102], [0, 0, 0]), ([101, 102], [0, 0])])
    >>> len(batch), batch.ids.tolist(), batch.layout.lengths
    (2, [101, 7592, 102, 101, 102], [3, 2])
    """

    ids: Tensor
    """(T,) word pieces"""
    types: Tensor
    """(T,) 0 for the first text, 1 for the second text of a pair"""
    layout: Layout

    @classmethod
    def of(cls, sequences: Sequence[tuple[Any, Any]]) -> "Batch":
        """Packs (ids, types) of each sequence; both are lists or numpy arrays."""
        nothing = [np.empty(0, dtype=np.int64)]
        ids, types = ([sequence[part] for sequence in sequences] or nothing for part in (0, 1))
        return cls(
            ids=torch.from_numpy(np.concatenate(ids, dtype=np.int64)),
            types=torch.from_numpy(np.concatenate(types, dtype=np.int64)),
            layout=Layout([len(ids) for ids, _ in sequences]),
        )

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        layout = self.layout.to(device)
        return Batch(_move(self.ids, layout.device), _move(self.types, layout.device), layout)

    def select(self, rows: Sequence[int]) -> "Batch":
        """These sequences, in this order; a row may be named more than once."""
        starts, lengths = self.layout._starts[list(rows)], [self.layout.lengths[row] for row in rows]
        ends = np.cumsum(lengths)
        places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
        tokens = on_device(places, self.ids.device)
        return Batch(self.ids[tokens], self.types[tokens], Layout(lengths, self.layout.device))

    def __len__(self) -> int:
        return len(self.layout)


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """An array as a tensor, on its way to a device: nothing waits for it."""
    return _move(torch.from_numpy(np.ascontiguousarray(array)), device)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _move(tensor: Tensor, device: torch.device) -> Tensor:
    if device.type != "cuda" or tensor.device.type == "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)  # from pageable memory the copy would wait for the device
