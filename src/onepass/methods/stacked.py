"""The weights of many tasks as one tensor, while each task's weights stay its own.

Tasks learn, are saved and are removed one by one, so their parameters are separate. Asking a thousand tasks at once
wants them side by side. `pack` moves the parameters of one name and shape into one tensor of which they are views:
nothing is held twice, and a parameter that learns changes the stack, since they are the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from onepass.encoder.batch import on_device

Found = TypeVar("Found")
Numbers = NDArray[np.int64]


@dataclass
class Stack:
    """Parameters of one name and shape, side by side; N of them."""

    tensor: Tensor  # (N, ...)
    places: Numbers
    """By task, the place of its parameter; -1: the task's has another shape"""
    ends: tuple[nn.Parameter, nn.Parameter]
    """The first and the last of the parameters"""

    @property
    def in_use(self) -> bool:
        """Whether the parameters still lie here: not after they were moved to a device, or copied with the model."""
        lies = self.tensor[0].data_ptr(), self.tensor[-1].data_ptr()
        return lies == (self.ends[0].data_ptr(), self.ends[1].data_ptr())

    def of(self, tasks: Numbers) -> Tensor:
        """The parameters of these tasks, (U, ...): without a copy where they are neighbours."""
        places = self.places[tasks]
        if (np.diff(places) == 1).all():
            return self.tensor[int(places[0]) : int(places[-1]) + 1]
        return self.tensor[on_device(places, self.tensor.device)]


class TaskModules(nn.ModuleList):
    """One module a task, in the tasks' order; two tasks may hold the same parameter."""

    def __init__(self, modules: Sequence[nn.Module] = ()):
        super().__init__(modules)
        self._known: dict[Any, Any] = {}
        self._known_of: list[nn.Module] = []

    def stacked(self, name: str, tasks: Numbers) -> Tensor:
        """The parameter of this name of each of these tasks, which are of one shape: (U, ...)"""
        if not torch.is_grad_enabled():
            for stack in self._stacks().get(name, ()):
                if stack.places[tasks[0]] >= 0 and stack.in_use:
                    return stack.of(tasks)
        # Only the parameters that are asked are joined, so that the gradient of every other task stays None: no
        # update, no momentum, no decay.
        modules, find = list(self), attrgetter(name)
        return cast(Tensor, _Join.apply(*(find(modules[task]) for task in tasks)))

    def pack(self) -> None:
        """Lay the parameters of one name and shape side by side, unless they are already.

        Parameters on the meta device, which have no values yet, are given room.
        """
        stacks = self._stacks()
        if not len(self) or (stacks and all(stack.in_use for found in stacks.values() for stack in found)):
            return
        stacks.clear()
        with torch.inference_mode(False), torch.no_grad():  # weights made in inference mode could never learn again
            for name, shapes in self._by_name().items():
                stacks[name] = [self._stack(name, tasks) for tasks in shapes]

    def remember(self, key: Any, find: Callable[[], Found]) -> Found:
        """What `find` finds out about the modules; kept until a task comes or goes."""
        modules = list(self._modules.values())
        if modules != self._known_of:
            self._known, self._known_of = {}, modules
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]

    def forget(self) -> None:
        """Say that a module was given another parameter."""
        self._known_of = []

    def _stacks(self) -> dict[str, list[Stack]]:
        return self.remember("stacks", dict)

    def _by_name(self) -> dict[str, list[list[int]]]:
        """The tasks that have a parameter of each name, those of one shape together."""
        found: dict[str, dict[Any, list[int]]] = {}
        for task, module in enumerate(self):
            for name, parameter in module.named_parameters():
                found.setdefault(name, {}).setdefault((parameter.shape, parameter.dtype), []).append(task)
        return {name: list(shapes.values()) for name, shapes in found.items()}

    def _stack(self, name: str, tasks: Sequence[int]) -> Stack:
        """Join the parameters of these tasks; from now on they are views of the stack."""
        path, _, last = name.rpartition(".")
        holders: dict[nn.Parameter, list[tuple[int, nn.Module]]] = {}
        for task in tasks:
            holder = self[task].get_submodule(path)
            holders.setdefault(holder.get_parameter(last), []).append((task, holder))
        own = list(holders)
        tensor = _side_by_side(own)
        if tensor is None:
            device = next((parameter.device for parameter in own if not parameter.is_meta), torch.device("cpu"))
            tensor = torch.empty(len(own), *own[0].shape, dtype=own[0].dtype, device=device)
            for place, parameter in enumerate(own):
                if parameter.is_meta:
                    own[place] = nn.Parameter(tensor[place], parameter.requires_grad)
                    for _, holder in holders[parameter]:
                        setattr(holder, last, own[place])
                else:
                    tensor[place] = parameter
                    parameter.data = tensor[place]
        places = np.full(len(self), -1, np.int64)
        for place, users in enumerate(holders.values()):
            places[[task for task, _ in users]] = place
        return Stack(tensor, places, (own[0], own[-1]))


class _Join(torch.autograd.Function):
    """`torch.stack`, whose gradient is parted in one operation in place of one for each task."""

    @staticmethod
    def forward(ctx: Any, *parameters: Tensor) -> Tensor:
        return torch.stack(parameters)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        (gradient,) = gradients  # (U, n, ...)
        return gradient.contiguous().flatten(0, 1).split([gradient.shape[1]] * len(gradient))  # n may be 0


def _side_by_side(parameters: Sequence[nn.Parameter]) -> Tensor | None:
    """The tensor of which these parameters are the parts, one after the other; None if they are not."""
    first = parameters[0]
    if any(parameter.is_meta for parameter in parameters) or not first.is_contiguous():
        return None
    step, start = first.numel() * first.element_size(), first.data_ptr()
    room = first.untyped_storage()
    if room.nbytes() < first.storage_offset() * first.element_size() + len(parameters) * step:
        return None
    if [parameter.data_ptr() for parameter in parameters] != [start + i * step for i in range(len(parameters))]:
        return None
    return first.detach().as_strided((len(parameters), *first.shape), (first.numel(), *first.stride()))
