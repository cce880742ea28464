"""Named sets of training options; whatever a task file or the command line gives beside a preset wins over it."""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "fast": {"epochs": 3, "teachers": 0},
    "best": {"teachers": 3, "task_teachers": 2},
}


def with_preset(values: dict[str, Any]) -> dict[str, Any]:
    """Training options with those of the preset they name filled in.

    >>> with_preset({"preset": "fast", "seed": 1})
    {'epochs': 3, 'teachers': 0, 'preset': 'fast', 'seed': 1}
    """
    name = values.get("preset", "default")
    filled = dict(PRESETS.get(name, {}) if isinstance(name, str) else {})
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(filled.get(key), dict)
        filled[key] = {**filled[key], **value} if both else value
    return filled
