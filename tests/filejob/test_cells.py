"""Cells for spreadsheets."""

import csv
import io

from hypothesis import given, settings
from hypothesis import strategies as st

from onepass.filejob.cells import safe
from onepass.filejob.formats import Csv

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.from_regex(r"[=+\-@\t\r\n'].{0,5}")


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_no_cell_is_a_formula_and_one_apostrophe_less_gives_it_back(cells):
    names = [str(number) for number in range(len(cells))]
    written = Csv(names, spreadsheet_safe=True).encode([dict(zip(names, cells, strict=True))]).decode()
    (row,) = csv.reader(io.StringIO(written, newline=""))
    assert not any(cell.startswith(tuple("=+-@\t\r\n\0")) for cell in row)
    assert [cell.removeprefix("'") for cell in row] == cells


def test_numbers_stay_numbers():
    assert [safe(-0.5), safe(3), safe(None)] == [-0.5, 3, None]
