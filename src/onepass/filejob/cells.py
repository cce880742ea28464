"""Cells that a spreadsheet shows as they are, and does not run as formulas."""

from typing import Any

FULL_WIDTH = ("\uff1d", "\uff0b", "\uff0d", "\uff20")  # = + - @ as some spreadsheets read them too
DANGEROUS = ("=", "+", "-", "@", "\t", "\r", "\n", "\0", "'", *FULL_WIDTH)


def safe(value: Any) -> Any:
    """A cell with an apostrophe before it if it begins like a formula; numbers are left as they are.

    A cell that begins with an apostrophe gets one more, so that taking one away always gives the cell back.

    >>> [safe("=1+1"), safe("'tis"), safe("a=b"), safe(-0.5)]
    ["'=1+1", "''tis", 'a=b', -0.5]
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(DANGEROUS) else value
