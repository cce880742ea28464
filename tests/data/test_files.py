"""Reading data files: the right answer, or a DataError that says where."""

import gzip
import json
import os
import tracemalloc
from contextlib import suppress

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onepass.data import text
from onepass.data.files import FORMATS, RowFaults, column_names, read_chunks
from onepass.errors import DataError


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(path, columns=None, size=2):
    """All columns of a file, from small chunks whose row numbers are checked."""
    values = {}
    row = 1
    for chunk in read_chunks(path, columns, size):
        assert chunk.first_row == row
        assert 0 < len(chunk) <= size
        row += len(chunk)
        for name, column in chunk.columns.items():
            values.setdefault(name, []).extend(column)
    return values


def fault(path, columns=None):
    with pytest.raises(DataError) as caught:
        read(path, columns)
    assert str(path) in str(caught.value)
    return str(caught.value).replace(str(path), path.name)


RIGHT = {
    "plain.csv": ("text,label\na,x\nb,y\nc,z\n", {"text": ["a", "b", "c"], "label": ["x", "y", "z"]}),
    "upper.CSV": ("text\na\n", {"text": ["a"]}),
    "bom.csv": (b"\xef\xbb\xbftext,label\na,x\n", {"text": ["a"], "label": ["x"]}),
    "windows-lines.csv": ("text,label\r\na,x\r\nb,y\r\n", {"text": ["a", "b"], "label": ["x", "y"]}),
    "old-mac-lines.csv": ("text,label\ra,x\rb,y\r", {"text": ["a", "b"], "label": ["x", "y"]}),
    "no-last-newline.csv": ("text,label\na,x", {"text": ["a"], "label": ["x"]}),
    "blank-lines.csv": ("\ntext,label\n\na,x\n\n\nb,y\n\n", {"text": ["a", "b"], "label": ["x", "y"]}),
    "quoted.csv": ('text,label\n"a, ""b""\r\nc",x\n', {"text": ['a, "b"\r\nc'], "label": ["x"]}),
    "empty-fields.csv": ('text,label\n,x\na,\n"",""\n', {"text": [None, "a", None], "label": ["x", None, None]}),
    "spaces.csv": (" text , label\n a , x\n", {"text": [" a "], "label": [" x"]}),
    "index.csv": (",text,\n0,a,\n1,b,\n", {"text": ["a", "b"]}),
    "unicode.csv": ("text\nÄ\u2028🎉\x85日本\n", {"text": ["Ä\u2028🎉\x85日本"]}),
    "numbers.csv": ("n\n1\n1.0\nnan\n", {"n": ["1", "1.0", "nan"]}),
    "long-field.csv": ("text\n" + "x" * 200_000 + "\n", {"text": ["x" * 200_000]}),
    "plain.tsv": ("text\tlabel\na, b\tx\n", {"text": ["a, b"], "label": ["x"]}),
    "plain.jsonl": ('{"text": "a", "n": 1}\n\n{"text": null, "n": 2.5}\n', {"text": ["a", None], "n": [1, 2.5]}),
    "bom.ndjson": (b'\xef\xbb\xbf{"a": [1, "x"]}\r\n{"a": {"b": true}}', {"a": [[1, "x"], {"b": True}]}),
    "sparse.jsonl": ('{"a": 1}\n{"b": 2}\n{}\n', {"a": [1, None, None], "b": [None, 2, None]}),
    "surrogates.jsonl": (
        r'{"t": "a\ud800b", "l": ["\uDC00"], "\ud800": {"x": "\ud83c\udf89"}}',
        {"t": ["a\ufffdb"], "l": [["\ufffd"]], "\ufffd": [{"x": "🎉"}]},
    ),
    "rows.json": ('[{"a": 1},\n {"a": "x", "b": null},\n {"a": 3}]', {"a": [1, "x", 3], "b": [None] * 3}),
    "columns.json": ('{"a": [1, 2, 3], "b": ["x", "y", null]}', {"a": [1, 2, 3], "b": ["x", "y", None]}),
    "pandas.json": ('{"a": {"0": 1, "1": 2}, "b": {"0": "x", "1": "y"}}', {"a": [1, 2], "b": ["x", "y"]}),
    "surrogate.json": (r'[{"t": "a\ud800"}]', {"t": ["a\ufffd"]}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_text_file_is_read(write, name):
    content, values = RIGHT[name]
    path = write(name, content)
    assert read(path) == values
    assert column_names(path) == list(values)
    last = list(values)[-1]
    assert read(path, [last]) == {last: values[last]}


WRONG = {
    "empty.csv": ("", "empty.csv is empty (0 bytes)."),
    "empty.jsonl": ("", "is empty (0 bytes)."),
    "empty.json": ("", "is empty (0 bytes)."),
    "empty.parquet": ("", "is empty (0 bytes)."),
    "empty.arrow": ("", "is empty (0 bytes)."),
    "only-bom.csv": (b"\xef\xbb\xbf", "has no header."),
    "only-lines.csv": ("\n\n\n", "has no header."),
    "nameless.csv": (",,\na,b,c\n", "has no header."),
    "twice.csv": ("text,label,text\na,b,c\n", "two columns are named 'text'. Rename or remove one."),
    "utf16.csv": ("text,label\na,x\n".encode("utf-16"), "is UTF-16, not UTF-8. Convert it: iconv -f UTF-16 -t UTF-8"),
    "utf16-big.jsonl": (b"\xfe\xff" + "{}".encode("utf-16-be"), "is UTF-16, not UTF-8."),
    "utf32.csv": ("text\na\n".encode("utf-32"), "is UTF-32, not UTF-8."),
    "utf16-no-bom.csv": (
        "text,label\na,x\n".encode("utf-16-le"),
        "line 1: there is a NUL byte. The file looks like UTF-16LE.",
    ),
    "utf16-no-bom.jsonl": ("[1, 2]".encode("utf-16-be"), "The file looks like UTF-16BE."),
    "cp1252.csv": (
        "text\na\n“b”\n".encode("cp1252"),
        "line 3: byte 7 of the file (0x93) is not UTF-8. If it should be '“', the file is Windows-1252. Convert it",
    ),
    "latin1.jsonl": ('{"a": "é"}\n'.encode("latin1"), "line 1: byte 7 of the file (0xe9) is not UTF-8."),
    "mixed.csv": ("text\né\n".encode() + b"\x81\n", "line 3: byte 8 of the file (0x81) is not UTF-8. Save"),
    "cut-character.csv": ("text\n€".encode()[:-1], "line 2: byte 5 of the file (0xe2) is not UTF-8."),
    "surrogate-bytes.csv": (b"text\n\xed\xa0\x80\n", "line 2: byte 5 of the file (0xed)"),
    "nul.csv": (b"text,label\na,x\nb\0,y\n", "line 3: there is a NUL byte. The file is damaged, or not text."),
    "nul.jsonl": (b'{"a": 1}\n\0\0\0\n', "line 2: there is a NUL byte."),
    "short-row.csv": ("a,b\n1,2\n3\n", "row 2 (line 3): has 1 field, the header has 2."),
    "long-row.csv": ("a,b\n1,2\n3,4,5\n", "has 3 fields, the header has 2. Text with a separator in it needs quotes."),
    "ragged-after-newlines.csv": ('a,b\n"1\n\n1",2\n\n3\n', "row 2 (line 6): has 1 field"),
    "open-quote.csv": ('a,b\n1,2\n"3,4\n5,6\n', "row 2 (line 3): a quote is opened here and never closed."),
    "open-quote-header.csv": ('"a,b\n1,2\n', "line 1: the header: a quote is opened here and never closed."),
    "stray-quote.csv": ('a,b\n"1"x,2\n', "row 1 (line 2): quotes are wrong"),
    # as some of its cells are quoted, this quote is no character like any other
    "stray-quote.tsv": ('a\tb\n"1" x\t2\n"3\t4"\t5\n', "row 1 (line 2): quotes are wrong"),
    "gzip.csv": (gzip.compress(b"text,label\na,x\n")[:-4], "is gzip-compressed, not csv. Unpack it, or save"),
    "gzip.jsonl": (gzip.compress(b"{}"), "is gzip-compressed, not jsonl."),
    "gzip.parquet": (gzip.compress(b"{}"), "is gzip-compressed, not parquet."),
    "excel.csv": (b"PK\x03\x04....", "is a zip archive or an Excel file"),
    "parquet.csv": (b"PAR1....", "is Parquet, not csv. Name it .parquet."),
    "arrow.parquet": (b"ARROW1\0\0....", "is Arrow, not parquet. Name it .arrow."),
    "old.feather": (b"FEA1....", "is Feather version 1, not feather."),
    "broken.jsonl": ('{"a": 1}\n\n{"a": \n{"a": 3}\n', "row 2 (line 3): is not valid JSON (Expecting value)."),
    "lists.jsonl": ("[1]\n", "row 1 (line 1): a row must be a JSON object, this is a list."),
    "text.jsonl": ('"a"\n', "this is a string."),
    "blank.jsonl": ("\n \n", "has no rows."),
    "deep.jsonl": ("[" * 100_000 + "\n", "row 1 (line 1): is not valid JSON (nested too deeply)."),
    "long-number.jsonl": ('{"a": ' + "9" * 5000 + "}", "row 1 (line 1): is not valid JSON"),
    "broken.json": ('[{"a": 1},\n {"a" 2}]', "line 2: is not valid JSON (Expecting ':' delimiter)."),
    "lines.json": ('{"a": 1}\n{"a": 2}\n', "line 2: is not valid JSON (Extra data). Are these JSON lines?"),
    "deep.json": ("[" * 100_000, "not valid JSON (nested too deeply)."),
    "mixed.json": ('[{"a": 1}, 2, [3]]', "row 2: a row must be a JSON object, this is a number."),
    "uneven.json": ('{"a": [1, 2], "b": [1]}', "its columns do not have the same rows ('a' 2, 'b' 1)."),
    "text.json": ('"a"', "is a JSON string. Needed: a list of objects, or an object of lists."),
    "object.json": ('{"a": 1}', "is a JSON object. Needed"),
    "no-rows.json": ("[]", "has no rows."),
    "no-rows-columns.json": ('{"a": []}', "has no rows."),
    "text.parquet": ("text,label\na,x\n", "cannot be read: "),
    "text.arrow": ("text,label\na,x\n", "cannot be read: "),
    "text.feather": ("x", "cannot be read: "),
    "cut.arrow": (b"ARROW1\0\0", "cannot be read: "),
    "table.xlsx": ("x", "has the ending '.xlsx'. Possible: .csv, .tsv, .jsonl"),
    "sheet.xlsx": ("x", ".bio. Save the sheet as .csv."),
    "table": ("x", "has no ending."),
    "table.csv.gz": ("x", "has the ending '.gz'."),
    "packed.csv.gz": ("x", ".bio. Unpack it."),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_wrong_is_a_data_error_that_says_where(write, name):
    content, message = WRONG[name]
    assert message in fault(write(name, content))


def test_a_file_that_is_not_there(write, tmp_path):
    path = write("train.csv", "a\n1\n")
    assert "Did you mean 'train.csv'?" in fault(tmp_path / "tran.csv")
    assert "There is no folder" in fault(tmp_path / "none" / "train.csv")
    assert "is a folder" in fault(path.parent)
    assert "There is no file" in fault(tmp_path / "a\0b.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    assert "pipe.csv is no file that can be read more than once" in fault(tmp_path / "pipe.csv")


def test_a_header_without_rows_has_columns_and_no_chunks(write, tmp_path):
    path = write("header.csv", "text,label\n")
    assert column_names(path) == ["text", "label"]
    assert list(read_chunks(path)) == []
    pa.parquet.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "none.parquet")
    assert column_names(tmp_path / "none.parquet") == ["text"]
    assert list(read_chunks(tmp_path / "none.parquet")) == []


def test_a_missing_column_is_named_with_those_there_are(write, tmp_path):
    pa.parquet.write_table(pa.table({"text": ["a"], "label": ["x"]}), tmp_path / "t.parquet")
    pa.feather.write_feather(pa.table({"text": ["a"], "label": ["x"]}), str(tmp_path / "t.arrow"))
    rows = '{"text": "a", "label": "x"}'
    for path in (
        write("t.csv", "text,label\na,x\n"),
        write("t.jsonl", rows),
        write("t.json", f"[{rows}]"),
        tmp_path / "t.parquet",
        tmp_path / "t.arrow",
    ):
        message = fault(path, ["text", "lable", "other"])
        assert f"{path.name} has no column 'lable'. Did you mean 'label'? Columns: 'text', 'label'." in message
        assert "no column 'other'. Columns" in message


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_csv_with_other_separators_is_read(write, separator):
    path = write("others.csv", f'\n"text, whole"{separator}label\na, b{separator}x\n')
    assert read(path, ["text, whole", "label"]) == {"text, whole": ["a, b"], "label": ["x"]}


def test_a_separator_beside_commas_is_a_part_of_a_name(write):
    assert read(write("t.csv", "a;b,label\n1;2,x\n"), ["a;b"]) == {"a;b": ["1;2"]}
    assert read(write("t.tsv", "text,label\na,x\n"), ["label"]) == {"label": ["x"]}


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("text;price, EUR;label\na, b, c;1;x\nd;2;y\n", {"text": ["a, b, c", "d"], "price, EUR": ["1", "2"]}),
        ("text;in EUR,net\na;1\n", {"text": ["a"], "in EUR,net": ["1"]}),
        ("text;price, EUR\na, b;1\n", {"text": ["a, b"], "price, EUR": ["1"]}),  # both fit every row
        ("text\tprice, EUR\na, b\t1\nc\t2\n", {"price, EUR": ["1", "2"]}),
        ('text;"n, or m";o, p\n"a\nb, c";1;2\n', {"text": ["a\nb, c"], "o, p": ["2"]}),
        ("text;o, p\na;1\n" + '"never closed;2\n', None),
    ],
)
def test_a_comma_in_a_name_does_not_hide_the_separator(write, content, columns):
    path = write("t.csv", content)
    if columns is None:
        assert column_names(path) == ["text", "o, p"]
    else:
        assert read(path, list(columns)) == columns


def test_bad_bytes_beyond_the_header_do_not_hide_the_separator(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"text;o, p\na;1\n\xff;2\n")
    assert column_names(path) == ["text", "o, p"]


@pytest.mark.parametrize(
    "content",
    [
        {"columns": ["text", "n"], "index": [5, 6, 7], "data": [["a", 1], ["b", 2], ["c", None]]},
        {"schema": {"fields": []}, "data": [{"text": "a", "n": 1}, {"text": "b", "n": 2}, {"text": "c"}]},
        {"data": [{"text": "a", "n": 1}, {"text": "b", "n": 2}, {"text": "c"}]},
        {"version": "1", "tags": ["x"], "rows": [{"text": "a", "n": 1}, {"text": "b", "n": 2}, {"text": "c"}]},
        {"0": {"text": "a", "n": 1}, "1": {"text": "b", "n": 2}, "2": {"text": "c"}},
        {"text": {"x": "a", "y": "b", "z": "c"}, "n": {"x": 1, "y": 2, "z": None}},
        {"text": {"0": "a", "1": "b", "2": "c"}, "n": {"0": 1, "1": 2, "2": None}},
    ],
)
def test_rows_of_a_json_file_may_stand_in_an_object(write, content):
    assert read(write("x.json", json.dumps(content))) == {"text": ["a", "b", "c"], "n": [1, 2, None]}


def test_more_columns_than_rows_are_columns_where_pandas_numbers_the_rows(write):
    assert read(write("x.json", '{"a": {"0": 1}, "b": {"0": 2}, "c": {"0": 3}}')) == {"a": [1], "b": [2], "c": [3]}


def test_a_line_for_excel_is_told(write):
    with pytest.raises(DataError, match=r"line 1: 'sep=' is a word to Excel, where the columns are named\. Remove"):
        column_names(write("x.csv", "sep=;\r\ntext;label\r\na;b\r\n"))


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_labels_of_the_hubs_library_are_words(tmp_path, ending):
    label = {"names": ["ham", "spam"], "_type": "ClassLabel"}
    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": label,
        "tags": {"feature": label, "_type": "List"},
        "old": [label],
    }
    columns = {
        "text": ["a", "b", "c", "d"],
        "label": [1, 0, -1, None],
        "tags": [[0, 1], [], None, [-1]],
        "n": [0, 1, 0, 1],
    }
    table = pa.table(columns | {"old": [[1], [0], [], None]})
    written = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    path = tmp_path / f"x.{ending}"
    if ending == "parquet":
        pyarrow.parquet.write_table(written, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, written.schema) as stream:
            stream.write_table(written)
    assert read(path) == columns | {
        "label": ["spam", "ham", None, None],
        "tags": [["ham", "spam"], [], None, [None]],
        "old": [["spam"], ["ham"], [], None],
    }
    for broken in (
        "{",
        "[]",
        '{"info": {"features": [1]}}',
        '{"info": {"features": {"label": {"_type": "ClassLabel"}}}}',
    ):
        pyarrow.parquet.write_table(table.replace_schema_metadata({"huggingface": broken}), tmp_path / "y.parquet")
        assert read(tmp_path / "y.parquet")["label"] == [1, 0, -1, None]


def test_files_of_one_name_with_a_star_are_read_as_one(write, tmp_path):
    write("x-2.csv", "text,label\nc,1\nd\ne,2\n")
    write("x-1.csv", "label,text\n1,a\n2,b\n")
    write("x-3.csv", "text,label\nf,1\ng,1,2\n")
    path, faults = tmp_path / "x-*.csv", RowFaults("x")
    assert column_names(path) == ["label", "text"]
    rows = [found for chunk in read_chunks(path, ["text"], faults=faults) for found in chunk.rows()]
    assert rows == [(number, {"text": text}) for number, text in ((1, "a"), (2, "b"), (3, "c"), (5, "e"), (6, "f"))]
    assert [message.partition(":")[0] for message in faults.messages()] == ["x, row 4", "x, row 7"]
    with pytest.raises(DataError, match=r"x-1\.csv has no column 'other'"):
        list(read_chunks(path, ["other"]))
    with pytest.raises(DataError, match=r"There is no file .*y-\*\.csv"):
        column_names(tmp_path / "y-*.csv")


def test_a_column_asked_for_twice_is_read_once(write):
    assert read(write("t.csv", "a,b\n1,2\n"), ["b", "b"]) == {"b": ["2"]}
    assert read(write("t.jsonl", '{"a": 1, "b": 2}'), ["b", "b"]) == {"b": [2]}


TABLE = pa.table(
    {
        "text": ["a", None, "", "d", "e"],
        "label": pa.array(["x", "y", "x", None, "y"]).dictionary_encode(),
        "n": [1, 2, None, 4, 5],
        "f": [0.5, 1.0, 2.0, None, 4.0],
        "l": [[1, 2], [], None, [3], [4]],
        "b": [True, False, None, True, True],
    }
)


def write_stream(table, path):
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)


WRITERS = {
    "t.parquet": lambda table, path: pa.parquet.write_table(table, path, row_group_size=3),
    "t.feather": lambda table, path: pa.feather.write_feather(table, str(path), chunksize=3),
    "plain.arrow": lambda table, path: pa.feather.write_feather(table, str(path), compression="uncompressed"),
    "stream.arrow": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
class TestColumnarFiles:
    @pytest.fixture
    def path(self, name, tmp_path):
        WRITERS[name](TABLE, tmp_path / name)
        return tmp_path / name

    def test_values_keep_their_types(self, path):
        assert read(path) == TABLE.to_pydict()
        assert column_names(path) == TABLE.column_names
        assert read(path, ["n", "text"]) == {"n": [1, 2, None, 4, 5], "text": ["a", None, "", "d", "e"]}

    def test_a_cut_file_is_a_data_error(self, path):
        whole = path.read_bytes()
        for length in range(1, len(whole), max(1, len(whole) // 60)):
            path.write_bytes(whole[:length])
            try:
                values = read(path, ["text"])
            except DataError:
                continue
            assert values.get("text", []) == ["a", None, "", "d", "e"][: len(values.get("text", []))]

    def test_flipped_bytes_are_read_or_a_data_error(self, path):
        whole = path.read_bytes()
        for position in range(0, len(whole), max(1, len(whole) // 150)):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
            with suppress(DataError):
                read(path)

    def test_two_columns_of_one_name_are_a_data_error(self, name, tmp_path):
        WRITERS[name](pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / name)
        assert "two columns are named 'a'" in fault(tmp_path / name)

    def test_text_that_is_not_utf8_is_found_by_its_row(self, name, tmp_path):
        bad = pa.array([b"a", b"b", b"\xff"]).view(pa.string())
        WRITERS[name](pa.table({"text": bad}), tmp_path / name)
        assert "row 3, column 'text' cannot be read" in fault(tmp_path / name)


@pytest.mark.parametrize("ending", FORMATS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=200), st.text('ab,"\n\r\t {}[]:1\\ud8\0', max_size=80).map(str.encode)))
def test_no_bytes_lead_to_another_error(write, ending, data):
    path = write(f"any{ending}", data)
    for action in (lambda: list(read_chunks(path)), lambda: list(read_chunks(path, ["a"])), lambda: column_names(path)):
        with suppress(DataError):
            action()


class TestRowFaults:
    def test_the_same_fault_in_many_rows_is_one_line(self):
        faults = RowFaults("a.csv")
        faults.add(17, "bad label.")
        for row in (18, 40, 95):
            faults.add(row, "bad label.")
        faults.add(20, "no text.", line=22)
        faults.add(21, "no text.", line=23)
        assert faults.messages() == [
            "a.csv, row 17: bad label. (and 3 more rows: 18, 40, 95)",
            "a.csv, row 20 (line 22): no text. (and 1 more row: 21)",
        ]
        with pytest.raises(DataError, match=r"2 faults:\n  - a\.csv, row 17: bad label"):
            faults.check()

    def test_messages_stay_short_however_many_rows_are_wrong(self):
        faults = RowFaults("a.csv")
        for row in range(1, 10_001):
            faults.add(row, "the same.")
            faults.add(row, f"different {row}.")
        assert faults.messages()[0] == "a.csv, row 1: the same. (and 9999 more rows: 2, 3, 4, 5, 6, ...)"
        assert faults.messages()[-1] == "a.csv: 9981 more rows have other faults."
        assert len(faults.messages()) == 21

    def test_nothing_is_raised_when_nothing_is_wrong(self):
        RowFaults("a.csv").check()

    def test_rows_that_cannot_be_read_are_left_out_and_handed_over(self, write):
        path = write("a.csv", "a,b\n1,2\n3\n4,5\n6,7,8\n9,10\n")
        faults = RowFaults(path)
        chunks = list(read_chunks(path, faults=faults))
        assert [(chunk.first_row, chunk.columns["a"], chunk.lines) for chunk in chunks] == [
            (1, ["1"], [2]),
            (3, ["4"], [4]),
            (5, ["9"], [6]),
        ]
        assert faults.count == 2

    def test_faults_of_rows_come_with_the_one_that_ends_the_reading(self, write):
        message = fault(write("a.csv", b"a,b\n1\n2,\xff\n"))
        assert "row 1 (line 2): has 1 field" in message
        assert "line 3: byte 8 of the file (0xff)" in message


def test_a_chunk_gives_its_rows_with_their_numbers_and_lines(write):
    first, second = read_chunks(write("a.csv", 'a,b\n"1\n1",2\n3,4\n5,6\n'), size=2)
    assert list(first.rows()) == [(1, {"a": "1\n1", "b": "2"}), (2, {"a": "3", "b": "4"})]
    assert (first.lines, second.lines) == ([2, 4], [5])
    assert list(second.rows()) == [(3, {"a": "5", "b": "6"})]


def test_a_line_without_end_is_not_read_into_memory(write, monkeypatch):
    monkeypatch.setattr(text, "MAX_LINE", 1000)
    assert "line 2: longer than 1,000 characters." in fault(write("a.csv", "text\n" + "x" * 5000))
    assert "line 1: longer than 1,000 characters." in fault(write("a.jsonl", '{"a": "' + "x" * 5000))
    assert read(write("a.json", json.dumps([{"a": "x" * 5000}]))) == {"a": ["x" * 5000]}


@pytest.mark.parametrize(
    ("name", "header", "row", "rows"),
    [
        ("big.csv", "text,label\n", f"{'some words ' * 8},yes\n", 200_000),
        ("big.jsonl", "", json.dumps({"text": "some words " * 20, "label": 1}) + "\n", 50_000),
    ],
)
def test_memory_does_not_grow_with_the_file(tmp_path, name, header, row, rows):
    path = tmp_path / name
    with open(path, "w") as file:
        file.write(header)
        file.writelines([row] * rows)
    tracemalloc.start()
    found = sum(len(chunk) for chunk in read_chunks(path, ["text", "label"]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == rows
    assert peak < path.stat().st_size / 4


def test_a_list_that_cannot_be_read_is_named_with_its_own_row(tmp_path):
    """Arrow checks a slice of lists with all that is behind it, so that the first row was named."""
    tags = pa.array([b"a", b"b", b"caf\xe9", b"d"], pa.binary()).view(pa.string())
    table = pa.table({"tags": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), tags)})
    path = tmp_path / "tags.arrow"
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    with pytest.raises(DataError, match=r"tags\.arrow, row 3, column 'tags' cannot be read"):
        list(read_chunks(path))
