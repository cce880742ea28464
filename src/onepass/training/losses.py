"""The losses of a training, by task."""

from collections.abc import Sequence

import torch
from torch import Tensor


class TaskLosses:
    """Running mean losses by task, kept on the device so that no step waits for them."""

    def __init__(self, num_tasks: int, device: torch.device):
        self.sums = torch.zeros(2, num_tasks, device=device)  # losses, rows

    def add(self, tasks: Sequence[int], losses: Tensor) -> None:
        where = torch.tensor(tasks).to(losses.device, non_blocking=True)
        self.sums.index_add_(1, where, torch.stack([losses.float(), torch.ones_like(losses, dtype=torch.float)]))

    def take(self) -> dict[int, float]:
        """The means since the last call, of tasks that had rows."""
        sums, rows = self.sums.tolist()
        self.sums.zero_()
        return {task: sums[task] / rows[task] for task in range(len(rows)) if rows[task]}
