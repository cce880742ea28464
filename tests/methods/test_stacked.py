"""Weights of many tasks side by side: the same memory as the tasks' own parameters, never an old copy of them."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from onepass.methods.stacked import TaskModules
from onepass.model import Model


@pytest.fixture
def modules() -> TaskModules:
    torch.manual_seed(0)
    return TaskModules([nn.Linear(3, outputs) for outputs in (2, 4, 2, 2, 4)])


def weights(modules: TaskModules, tasks: list[int]) -> torch.Tensor:
    return torch.stack([modules[task].weight.detach() for task in tasks])


@torch.no_grad()
def stacked(modules: TaskModules, tasks: list[int]) -> torch.Tensor:
    return modules.stacked("weight", np.array(tasks))


def test_neighbours_are_stacked_without_a_copy(modules: TaskModules) -> None:
    expected = weights(modules, [0, 2, 3])
    modules.pack()
    found = stacked(modules, [0, 2, 3])  # the tasks of one shape
    torch.testing.assert_close(found, expected)
    assert found.data_ptr() == modules[0].weight.data_ptr()


@pytest.mark.parametrize("tasks", [[0], [3], [0, 3], [2, 3], [1], [1, 4]])
def test_any_tasks_of_one_shape_can_be_had(modules: TaskModules, tasks: list[int]) -> None:
    expected = weights(modules, tasks)
    torch.testing.assert_close(stacked(modules, tasks), expected)
    modules.pack()
    torch.testing.assert_close(stacked(modules, tasks), expected)


def test_a_weight_that_learns_changes_the_stack(modules: TaskModules) -> None:
    modules.pack()
    optimizer = torch.optim.SGD(modules.parameters(), lr=1.0)
    modules[2].weight.grad = torch.ones(2, 3)
    before = stacked(modules, [2]).clone()
    optimizer.step()
    torch.testing.assert_close(stacked(modules, [2]), before - 1.0)


def test_only_what_is_asked_has_a_gradient(modules: TaskModules) -> None:
    modules.pack()
    modules.stacked("weight", np.array([0, 3])).sum().backward()
    assert [module.weight.grad is not None for module in modules] == [True, False, False, True, False]


def test_packed_in_inference_mode_weights_can_still_learn(modules: TaskModules) -> None:
    with torch.inference_mode():
        modules.pack()
    modules[0](torch.ones(1, 3)).sum().backward()
    assert modules[0].weight.grad is not None


@pytest.mark.parametrize("move", [lambda m: m.double(), lambda m: copy.deepcopy(m)])
def test_weights_that_moved_are_not_read_where_they_were(
    modules: TaskModules, move: Callable[[TaskModules], TaskModules]
) -> None:
    modules.pack()
    moved = move(modules)
    with torch.no_grad():
        moved[2].weight.zero_()
    torch.testing.assert_close(stacked(moved, [0, 2, 3]), weights(moved, [0, 2, 3]))
    moved.pack()
    torch.testing.assert_close(stacked(moved, [0, 2, 3]), weights(moved, [0, 2, 3]))


def test_tasks_come_and_go(modules: TaskModules) -> None:
    modules.pack()
    modules.append(nn.Linear(3, 2))
    torch.testing.assert_close(stacked(modules, [0, 5]), weights(modules, [0, 5]))
    modules.pack()
    del modules[0]
    torch.testing.assert_close(stacked(modules, [1, 2, 4]), weights(modules, [1, 2, 4]))
    modules[1] = nn.Linear(3, 2)
    torch.testing.assert_close(stacked(modules, [1, 2, 4]), weights(modules, [1, 2, 4]))


def test_tasks_that_share_a_parameter_keep_sharing_it(modules: TaskModules) -> None:
    modules[3].weight = modules[0].weight
    modules.forget()
    modules.pack()
    assert modules[3].weight is modules[0].weight
    with torch.no_grad():
        modules[3].weight.zero_()
    assert not stacked(modules, [0, 3]).any()
    torch.testing.assert_close(stacked(modules, [0, 2, 3]), weights(modules, [0, 2, 3]))


def test_packing_again_moves_nothing(modules: TaskModules) -> None:
    modules.pack()
    place = modules[0].weight.data_ptr()
    modules.forget()
    modules.pack()
    assert modules[0].weight.data_ptr() == place
    assert stacked(modules, [0, 2]).data_ptr() == place


def test_weights_without_memory_are_given_room() -> None:
    modules = TaskModules([nn.Linear(3, 2, device=device) for device in ("cpu", "meta", "meta")])
    first = modules[0].weight.detach().clone()
    modules.pack()
    with torch.no_grad():
        for number in (1, 2):
            modules[number].weight.fill_(number)
    found = stacked(modules, [0, 1, 2])
    torch.testing.assert_close(found[0], first)
    assert found[1:].mean((1, 2)).tolist() == [1.0, 2.0]
    assert all(parameter.requires_grad for parameter in modules.parameters())


def test_a_loaded_model_holds_its_weights_once(make_model: Callable[..., Model], tmp_path: Path) -> None:
    make_model("readers").save(tmp_path / "model")
    model = Model.load(tmp_path / "model")
    rooms = {task.pooler.weight.untyped_storage().data_ptr() for task in model.method.tasks}  # type: ignore[union-attr]
    assert len(rooms) == 1
    before = model.method.tasks[0].pooler.weight.data_ptr()  # type: ignore[union-attr, operator]
    model.predict("w1 w2")
    assert model.method.tasks[0].pooler.weight.data_ptr() == before  # type: ignore[union-attr, operator]


def test_gradients_are_those_of_a_plain_stack(modules: TaskModules) -> None:
    shared = TaskModules([modules[0], modules[2], modules[0]])  # the first and the last task hold the same parameters
    factors = torch.randn(3, 3, 2).transpose(1, 2)  # as from a product: not in the order of memory
    found = (shared.stacked("weight", np.array([0, 1, 2])) * factors).sum()
    expected = (torch.stack([module.weight for module in shared]) * factors).sum()
    own = [modules[0].weight, modules[2].weight]
    for got, wanted in zip(torch.autograd.grad(found, own), torch.autograd.grad(expected, own), strict=True):
        torch.testing.assert_close(got, wanted)
