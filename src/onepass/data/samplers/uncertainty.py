"""MT-Uncertainty: of rows drawn from every task, a step trains on those the model is least sure about.

Pilault, Elhattami and Pal, Conditionally Adaptive Multi-Task Learning, arXiv:2009.09139 (algorithm 1).
Where paper and released code differ, `score` chooses: the paper ranks rows by their entropy h over that of an even
guess; the code multiplies it by the task's mean entropy m over the largest such mean, so that unsure tasks are favoured
as well. Rows whose kind has no entropy (a number) get the scores of the other tasks' rows at even steps, so that they
are chosen as often as an average task's; the code copies those of one other task.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onepass.data.samplers.base import Sampler
from onepass.data.samplers.shares import counts_by_power
from onepass.errors import ConfigError


class Uncertainty(Sampler):
    """As many rows of every task are drawn; those with the highest scores are trained on.

    score: `code` is h * m / max m, `paper` is h.
    candidates: rows drawn for each that is trained on. 0, as in the paper, is the number of tasks, so that every task
        alone could fill a batch. Each costs a forward pass.
    loss: `tasks` is the mean over the tasks of a batch of their mean losses, as in the code; `rows` the mean over rows.
    """

    candidates = 0

    def __init__(
        self,
        *,
        score: Literal["code", "paper"] = "code",
        candidates: int = 0,
        loss: Literal["tasks", "rows"] = "tasks",
    ):
        for name, value, known in (("score", score, ("code", "paper")), ("loss", loss, ("tasks", "rows"))):
            if value not in known:
                raise ConfigError(f"Option {name!r} of sampler 'uncertainty' is {value!r}. Known: {', '.join(known)}.")
        if type(candidates) is not int or candidates < 0 or candidates == 1:
            raise ConfigError(
                f"Option 'candidates' of sampler 'uncertainty' is {candidates!r}. Give a whole number from 2, or 0 for "
                "the number of tasks."
            )
        self.score, self.candidates, self.loss = score, candidates, loss

    def counts(self, sizes: Sequence[int], epoch: int, epochs: int) -> list[int]:
        return counts_by_power(sizes, 0.0)

    def choose(self, tasks: NDArray[np.int64], entropies: NDArray[np.float64]) -> NDArray[np.int64]:
        scores = self.scores(tasks, entropies)
        # Among equals one task after the other, not all rows of the first.
        rank = np.zeros(len(tasks), np.int64)
        for task in np.unique(tasks):
            own = np.flatnonzero(tasks == task)
            rank[own] = np.arange(len(own))
        return np.lexsort((rank, -scores))

    def scores(self, tasks: NDArray[np.int64], entropies: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much each row is wanted."""
        places = {int(task): np.flatnonzero(tasks == task) for task in np.unique(tasks)}
        silent = [task for task, own in places.items() if not entropies[own].any()]
        scores = np.array(entropies, np.float64)
        if self.score == "code":
            means = {task: float(entropies[own].mean()) for task, own in places.items()}
            largest = max(means.values()) or 1.0
            for task, own in places.items():
                scores[own] *= means[task] / largest
        known = np.sort(np.concatenate([np.zeros(0), *(scores[own] for t, own in places.items() if t not in silent)]))
        for task in silent if len(known) else []:
            own = places[task]
            scores[own] = known[((np.arange(len(own)) + 0.5) / len(own) * len(known)).astype(int)][::-1]
        return scores

    def weights(self, tasks: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.loss == "rows":
            return super().weights(tasks)
        found, of_row, rows = np.unique(tasks, return_inverse=True, return_counts=True)
        return np.asarray(len(tasks) / (len(found) * rows[of_row]))
