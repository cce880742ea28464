"""What an input holds, and which tasks can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Form = tuple[int, frozenset[str]]
"""How many plain texts an input holds, or 0 and the columns of a row"""


def form_of(text: Any) -> Form:
    """How many plain texts an input holds, or which columns: inputs of one form are asked the same tasks."""
    if isinstance(text, dict):
        return 0, frozenset(text)
    return (1 if isinstance(text, str) else len(text)), frozenset()


def fits(form: Form, task: Mapping[str, Any]) -> bool:
    """Whether a task can be asked of inputs of this form."""
    texts, columns = form
    return bool(task["texts"] == texts) if texts else columns.issuperset(task["reads"])
