"""Whether the quotes of a tab-separated file mean something, or are characters like any other.

Spreadsheets quote cells in a .tsv file as in a .csv file. Others, such as the sets of GLUE, write every cell as it is:
there a cell may begin with a quote that is never closed.
"""

import csv
from pathlib import Path

LONGEST = 2**24  # bytes of a line that is looked at


def are_quoted(path: Path, delimiter: str) -> bool:
    """False if each line with a quote has as many fields as the header, taken as it is, and one is wrong as csv.

    But the wrong ones are faults where the header is quoted; or where most lines are, and rightly, and no fewer than
    are wrong show that it is csv: a quote is doubled within a quoted cell, or all cells are quoted. Texts that are
    quotations do neither.
    """
    if delimiter != "\t":
        return True
    fields = lines = right = signs = wrong = 0
    with open(path, "rb") as file:
        while line := file.readline(LONGEST):
            if not fields:
                line = line.removeprefix(b"\xef\xbb\xbf")
                fields = line.count(b"\t") + 1 if line.strip() else 0
                if line.startswith(b'"') and _as_csv(line) == fields:
                    return True
                continue
            lines += 1
            if b'"' in line:
                if line.count(b"\t") + 1 != fields:
                    return True
                # Within a cell a quote is a character in either case.
                quoted = [cell for cell in line.rstrip(b"\r\n").split(b"\t") if cell.startswith(b'"')]
                if _as_csv(line) != fields:
                    wrong += 1
                elif quoted:
                    right += 1
                    signs += len(quoted) == fields > 1 or any(b'""' in cell[1:-1] for cell in quoted)
    return not wrong or (2 * right > lines and signs >= wrong)


def _as_csv(line: bytes) -> int:
    """How many fields a line has by the rules of csv; 0 if it breaks them."""
    try:
        (found,) = csv.reader([line.decode("latin-1")], delimiter="\t", strict=True)
    except csv.Error:
        return 0
    return len(found)
