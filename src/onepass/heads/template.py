"""Texts with columns in braces."""

from __future__ import annotations

from string import Formatter

from onepass.heads.base import Row, blank
from onepass.heads.options import wrong_option


class Template:
    """A text made from the columns of a row.

    >>> Template("{premise} What was the {question}?").filled({"premise": "It rains.", "question": "cause"})
    'It rains. What was the cause?'
    """

    def __init__(self, text: str):
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise wrong_option("template", text, f"a text with columns in braces ({error})") from None
        if any(spec or conversion or column == "" for _, column, spec, conversion in parts):
            raise wrong_option("template", text, "a text with columns in braces, and nothing else in these")
        self.parts = [(text, column) for text, column, _, _ in parts]
        """Texts, each with the column that follows, if one does"""
        self.columns = [column for _, column in self.parts if column is not None]

    def filled(self, row: Row) -> str:
        """With the cells of a row, blank ones as nothing; a column is found by its whole name."""
        cells = ("" if column is None or blank(row[column]) else str(row[column]) for _, column in self.parts)
        return "".join(text + cell for (text, _), cell in zip(self.parts, cells, strict=True))
