"""Labels that are numbers in a parquet or Arrow file of the library `datasets`, which keeps their names beside them."""

import json
from typing import Any


def label_names(schema: Any) -> dict[str, list[str]]:
    """The names that the numbers in columns stand for, by column."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        found = {column: _names(feature) for column, feature in features.items()}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):  # not there, or of another version
        return {}
    return {column: names for column, names in found.items() if names}


def _names(feature: Any) -> list[str]:
    """The names of a column of labels, or of lists of them."""
    while isinstance(feature, (dict, list)) and feature:
        if isinstance(feature, list):
            feature = feature[0]
        elif feature.get("_type") == "ClassLabel":
            names = feature["names"]
            return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else []
        else:
            feature = feature.get("feature")
    return []


def in_words(value: Any, names: list[str]) -> Any:
    """A label, or each of a list of them, in words; none for -1, as hidden test sets have it.

    >>> in_words([1, 0, -1, 7], ["ham", "spam"])
    ['spam', 'ham', None, 7]
    """
    if isinstance(value, list):
        return [in_words(item, names) for item in value]
    if type(value) is not int or value >= len(names):
        return value
    return names[value] if value >= 0 else None
