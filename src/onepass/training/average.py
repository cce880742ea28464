"""A running mean of the weights over the last steps, which generalises better than the last step's weights.

Polyak averaging with exponential forgetting; the mean is what is evaluated, kept and saved.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


class RunningMean:
    """The exponential running mean of parameters; a decay of 0.99 remembers about 100 steps, 0 only the last one."""

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.decay = decay
        self.means = [p.detach().clone() for p in self.parameters] if decay else []
        self.steps = [0] * len(self.parameters)
        """The steps in which each parameter changed"""

    @torch.no_grad()
    def update(self) -> None:
        """Take in the parameters that the step just changed; those of absent tasks stay as they are."""
        changed = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        if not self.decay or not changed:
            return
        for i in changed:
            self.steps[i] += 1
        # Early on the mean forgets faster, or it would hold on to the untrained weights. Every parameter has its own
        # early steps: a small task may come late.
        shares = [1.0 - min(self.decay, self.steps[i] / (self.steps[i] + 10.0)) for i in changed]
        torch._foreach_lerp_([self.means[i] for i in changed], [self.parameters[i] for i in changed], shares)

    @torch.no_grad()
    def settle(self, only: Sequence[nn.Parameter] | None = None) -> None:
        """Give the model the mean weights for good, all of them or `only` these."""
        chosen = {id(parameter) for parameter in (self.parameters if only is None else only)}
        for parameter, mean in zip(self.parameters, self.means, strict=bool(self.decay)):
            if id(parameter) in chosen:
                parameter.copy_(mean)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Within the block the model has the mean weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, mean in zip(self.parameters, self.means, strict=bool(self.decay)):
            held = parameter.detach().clone()
            parameter.copy_(mean)
            mean.copy_(held)
