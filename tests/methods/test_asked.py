"""Asks sorted by task."""

import torch

from onepass.methods.asked import Asked


def test_texts_that_ask_the_same_are_laid_out_as_if_sorted():
    tasks = torch.tensor([1, 4, 6])
    quick, plain = Asked(tasks.expand(5, -1)), Asked(tasks.repeat(5, 1))
    assert quick.alike and not plain.alike
    for name in ("tasks", "counts", "order"):
        assert getattr(quick, name).tolist() == getattr(plain, name).tolist()
    assert quick.of_ask.tolist() == plain.of_ask.tolist()
    x, parameters = torch.randn(5, 3, 2), torch.randn(3, 7)
    torch.testing.assert_close(quick.by_task(x), plain.by_task(x))
    torch.testing.assert_close(quick.by_row(quick.by_task(x)), x)
    torch.testing.assert_close(quick.per_ask(parameters), plain.per_ask(parameters))


def test_tasks_asked_twice_or_out_of_order_are_sorted():
    for tasks in ([4, 1], [1, 1]):
        asks = Asked(torch.tensor(tasks).expand(3, -1))
        assert not asks.alike
        assert asks.tasks.tolist() == sorted(set(tasks))
        x = torch.randn(3, 2, 4)
        torch.testing.assert_close(asks.by_row(asks.by_task(x)), x)
