"""What the columns of a file hold that says nothing of types but by its values."""

from collections.abc import Iterable
from typing import Any

from onepass.filejob.records import Record, Row


def surveyed(records: Iterable[Record]) -> dict[str, str]:
    """The columns of all rows that can be read, and what each holds (`Source.columns`)."""
    found: dict[str, set[str]] = {}
    for record in records:
        if isinstance(record, Row):
            for name, value in record.values.items():
                found.setdefault(name, set()).add(_type(value))
    return {name: _common(types - {"null"}) for name, types in found.items()}


def _type(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return "long" if -(2**63) <= value < 2**63 else "json"
    names = {str: "text", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    return names.get(type(value), "json")


def _common(types: set[str]) -> str:
    """What a column with values of these types holds."""
    if types == {"integer", "number"}:
        return "number"
    if "long" in types and types <= {"integer", "long"}:  # with other numbers it has more digits than those
        return "integer"
    return "text" if not types else types.pop() if len(types) == 1 else "json"
