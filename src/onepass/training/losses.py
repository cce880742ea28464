"""The losses of a training, by task."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


class TaskLosses:
    """Mean losses by task. A step's are only put aside: nothing is computed or waited for before they are asked for."""

    def __init__(self) -> None:
        self.tasks: list[int] = []
        self.losses: list[Tensor] = []

    def add(self, tasks: Sequence[int], losses: Tensor) -> None:
        self.tasks += tasks
        self.losses.append(losses)

    def take(self) -> dict[int, float]:
        """The means since the last call, of tasks that had rows."""
        if not self.tasks:
            return {}
        losses = torch.cat(self.losses).float().cpu().numpy()
        sums, rows = np.bincount(self.tasks, losses), np.bincount(self.tasks)
        self.tasks, self.losses = [], []
        return {int(task): float(sums[task] / rows[task]) for task in np.flatnonzero(rows)}
