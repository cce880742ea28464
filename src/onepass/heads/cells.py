"""Cells that hold a list: as such, written out as JSON or as Python does, or with white space between the parts."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

_ITEM = r"""(?:'(?:[^'\\]|\\['"\\nrtxuU])*+'|"(?:[^"\\]|\\['"\\nrtxuU])*+"|[-+\w.]++)\s*+"""
_PYTHON_ITEM = re.compile(_ITEM)
_CONSTANTS = {"None": None, "True": True, "False": False}
# ['a', 'b'] as pandas writes a list to a csv file, and ['a' 'b'] as it does a numpy array, which it reads of parquet.
_PYTHON_LIST = re.compile(rf"\[\s*(?:{_ITEM}(?:,\s*{_ITEM})*+|{_ITEM}(?:(?<=\s){_ITEM})++)?\]")


def listed_cell(cell: Any) -> list[Any]:
    """The parts of a cell; ValueError if it holds no list.

    >>> [listed_cell(cell) for cell in (["a", "b"], '["a", "b"]', "a b", "[a]")]
    [['a', 'b'], ['a', 'b'], ['a', 'b'], ['[a]']]
    """
    if isinstance(cell, (list, tuple)):
        return list(cell)
    if not isinstance(cell, str):
        raise ValueError(f"has {shown(cell)} where a list is needed.")
    found = written_list(cell)
    return cell.split() if found is None else found


def written_list(cell: str) -> list[Any] | None:
    """The list that a cell is as JSON or in Python; None for any other text, also if it begins with a bracket.

    >>> [written_list(cell) for cell in ('["a", "b"]', "['a', 'b']", "['a' 'b']", "[AP] Late goal", "a b")]
    [['a', 'b'], ['a', 'b'], ['a', 'b'], None, None]
    """
    text = cell.strip()
    if not text.startswith("["):
        return None
    try:
        return list(json.loads(text))
    except (ValueError, RecursionError):
        pass
    if not _PYTHON_LIST.fullmatch(text):
        return None
    try:
        return [_python_value(match.group().rstrip()) for match in _PYTHON_ITEM.finditer(text)]
    except (ValueError, SyntaxError):
        return None


def _python_value(item: str) -> Any:
    if item[0] not in "'\"":
        return _CONSTANTS[item] if item in _CONSTANTS else json.loads(item)
    # One text at a time: of a whole list, which anyone may send, Python would make a tree of a hundred times its size.
    return ast.literal_eval(item) if "\\" in item else item[1:-1]


def shown(value: Any) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def whole_number(cell: Any) -> int | None:
    """A cell as a whole number, if it is one.

    >>> [whole_number(cell) for cell in (3, "3", 3.0, " 12 ", "3rd", 2.5, True, None)]
    [3, 3, 3, 12, None, None, None, None]
    """
    if isinstance(cell, bool) or cell is None:
        return None
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() else None
