"""Files with a word and its tag on each line."""

from pathlib import Path

import pytest

from onepass.data.files import column_names, read_chunks
from onepass.errors import DataError


def test_a_text_is_a_row_of_words_and_tags(tmp_path: Path) -> None:
    path = tmp_path / "names.conll"
    path.write_text("-DOCSTART- -X- O\n\nEU NNP B-org\nrejects VBZ O\n\n\n# a remark\nRome NNP B-place\n")
    assert column_names(path) == ["tokens", "column2", "tags"]
    (chunk,) = read_chunks(path, ["tokens", "tags"])
    assert [row for _, row in chunk.rows()] == [
        {"tokens": ["EU", "rejects"], "tags": ["B-org", "O"]},
        {"tokens": ["Rome"], "tags": ["B-place"]},
    ]
    assert chunk.lines == [3, 8]


def test_a_line_with_other_fields_is_named_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "names.bio"
    path.write_text("EU\tB-org\n\nRome\tis\tO\nnice\tO\n\nBonn\tB-place\n")
    with pytest.raises(DataError, match=r"row 2 \(line 3\): has 3 fields in line 3, the first line has 2"):
        list(read_chunks(path))


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "names.bio"
    path.write_text("\n\n")
    with pytest.raises(DataError, match="no rows"):
        column_names(path)


def test_a_line_of_white_space_ends_a_text_and_a_number_sign_may_be_a_word(tmp_path: Path) -> None:
    path = tmp_path / "names.conll"
    path.write_text("# one\nthe O\n# B-num\n1 I-num\n\t\n# two words\nRome B-place\n # O\n")
    (chunk,) = read_chunks(path)
    assert [row["tokens"] for _, row in chunk.rows()] == [["the", "#", "1"], ["Rome", "#"]]


def test_a_space_that_does_not_break_is_a_part_of_a_word(tmp_path: Path) -> None:
    path = tmp_path / "names.conll"
    path.write_text("10\u00a0000 O\nEuro  O \n", encoding="utf-8")
    (chunk,) = read_chunks(path)
    assert chunk.columns == {"tokens": [["10\u00a0000", "Euro"]], "tags": [["O", "O"]]}
