"""Reading rows past bad ones, and on from where an earlier run stopped."""

import json
import random
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onepass.errors import DataError
from onepass.filejob import lines, open_source, tables
from onepass.filejob.records import Reject, Row, pieces


def read(path):
    return list(open_source(path).records(None))


def read_in_pieces(source):
    """The pieces of a source, and its position behind each of them."""
    found = [(piece, source.position()) for piece in pieces(source, None)]
    return [piece for piece, _ in found], [place for _, place in found]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "arrow", "json"])
@pytest.mark.usefixtures("small_pieces")
def test_reading_on_from_any_piece_gives_the_same_pieces(write, ending):
    path = write(ending, 250)
    source = open_source(path)
    whole, places = read_in_pieces(source)
    assert sum(map(len, whole)) == 250 and source.share() in (1.0, 0.0)
    for number in (0, 1, 30, 61):
        assert list(pieces(open_source(path), places[number])) == whole[number + 1 :]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"2,caf\xe9", "byte 0xe9 is not UTF-8."),
        (b"2,a\0b", "holds a NUL character."),
        (b"2,a,b", "has 3 fields, the header has 2. Text with a separator in it needs quotes."),
        (b"2", "has 1 field, the header has 2."),
        (b'2,"a" b', "quotes are wrong"),
    ],
)
def test_a_bad_csv_row_costs_that_row_alone(tmp_path, row, reason):
    path = tmp_path / "in.csv"
    path.write_bytes(b"\xef\xbb\xbfid,text\n1,one\n\n" + row + b"\n3,three\n")
    first, bad, last = read(path)
    assert (first.number, first.line, first.values) == (1, 2, {"id": "1", "text": "one"})
    assert isinstance(bad, Reject) and (bad.number, bad.line) == (2, 4) and reason in bad.reason
    assert bad.start == row.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
    assert (last.number, last.line, last.values) == (3, 5, {"id": "3", "text": "three"})


def test_after_a_quote_that_is_never_closed_the_next_line_is_read(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,text\n1,"open\n2,two\n3,three\n')
    bad, *rest = read(path)
    assert bad.reason == "a quote is opened here and never closed." and bad.line == 2
    assert [(row.line, row.values["text"]) for row in rest] == [(3, "two"), (4, "three")]


@pytest.mark.parametrize("closing", ['4,four "quoted"', '4,"four"'])
def test_lines_that_an_open_quote_took_in_are_rows_of_their_own(tmp_path, closing):
    path = tmp_path / "in.csv"
    path.write_text(f'id,text\n1,"open\n2,two\n3,three\n{closing}\n5,five\n')
    bad, *rest = read(path)
    assert isinstance(bad, Reject) and bad.line == 2 and "quotes are wrong" in bad.reason
    assert [(row.line, row.values["id"]) for row in rest] == [(3, "2"), (4, "3"), (5, "4"), (6, "5")]


def test_columns_without_a_name_are_kept(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(",text,\n7,one,x\n8,two,\n")
    assert [row.values for row in read(path)] == [
        {"unnamed_1": "7", "text": "one", "unnamed_2": "x"},
        {"unnamed_1": "8", "text": "two", "unnamed_2": None},
    ]


def test_a_quoted_field_may_have_lines(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b'id,text\r\n1,"a\r\nb"\r\n2,"c ""d"""\r\n')
    assert [(row.line, row.values["text"]) for row in read(path)] == [(2, "a\r\nb"), (4, 'c "d"')]


def test_a_csv_may_have_semicolons(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b"\xef\xbb\xbfid;text\r\n1;one, two\r\n")
    assert [row.values for row in read(path)] == [{"id": "1", "text": "one, two"}]


def test_old_line_ends_are_read(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b"id,text\r1,one\r2,two\r")
    assert [row.values["text"] for row in read(path)] == ["one", "two"]


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_a_line_without_end_is_passed_over(tmp_path, monkeypatch, name):
    monkeypatch.setattr(lines, "MAX_LINE", 100)
    path = tmp_path / name
    rows = [json.dumps({"text": word}) for word in ("a", "b" * 1000, "c")]
    path.write_text("\n".join(rows) if name == "in.jsonl" else "text\na\n" + "b" * 1000 + "\nc\n")
    first, bad, last = read(path)
    assert isinstance(bad, Reject) and "longer than" in bad.reason and len(bad.start) < 250
    assert (first.values["text"], last.values["text"], last.number) == ("a", "c", 3)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "caf\xe9"}', "byte 0xe9 is not UTF-8."),
        (b'{"text": "a\0"}', "holds a NUL character."),
        (b'{"text": "a\\u0000"}', "holds a NUL character."),
        (b'{"text": "a\\ud800b"}', "half a surrogate pair (\\ud800)"),
        (b'{"text": "ok", "more": [{"x\\udfff": 1}]}', "half a surrogate pair (\\udfff)"),
        (b'{"text": ', "is not valid JSON"),
        (b'["text"]', "a row must be a JSON object."),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"text": ' + b"1" * 5000 + b"}", "is not valid JSON"),
    ],
)
def test_a_bad_jsonl_row_costs_that_row_alone(tmp_path, line, reason):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"text": "one"}\n\n' + line + b'\n{"text": "\\ud83d\\ude00 \\u00e9", "more": 3}\n')
    source = open_source(path)
    first, bad, last = source.records(None)
    assert isinstance(bad, Reject) and (bad.number, bad.line) == (2, 3) and reason in bad.reason
    assert [first.values, last.values] == [{"text": "one"}, {"text": "\U0001f600 é", "more": 3}]
    assert source.columns == {"text": "text", "more": "integer"}


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_the_types_of_json_columns_are_those_of_all_rows(tmp_path, ending):
    path = tmp_path / f"in.{ending}"
    rows = [
        {"a": 1, "b": 1, "c": "x", "d": [1], "e": None, "g": 2**60 + 1, "h": 2**60},
        {"a": 2.5, "b": 2**70, "c": 1, "f": True, "g": 0.5, "h": 1},
    ]
    path.write_text("\n".join(map(json.dumps, rows)) if ending == "jsonl" else json.dumps(rows))
    found = {
        "a": "number",
        "b": "json",
        "c": "json",
        "d": "json",
        "e": "text",
        "g": "json",
        "h": "integer",
        "f": "boolean",
    }
    assert open_source(path).columns == found
    assert open_source(path, found | {"a": "json"}).columns["a"] == "json"  # of an earlier run, taken as they are


def test_a_parquet_cell_that_is_no_text_costs_its_row(tmp_path):
    path = tmp_path / "in.parquet"
    texts = pa.array([b"one", b"caf\xe9", b"three"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": texts, "id": [1, 2, 3]}), path)
    first, bad, last = read(path)
    assert isinstance(bad, Reject) and bad.number == 2 and "column 'text' cannot be read" in bad.reason
    assert [first.values, last.values] == [{"text": "one", "id": 1}, {"text": "three", "id": 3}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.csv", b"", "empty"),
        ("in.csv", "id,text\n1,ä\n".encode("utf-16"), "UTF-16"),
        ("in.csv", b"id,id\n1,2\n", "two columns are named 'id'"),
        ("in.csv", b"\x1f\x8b\x08\x00abc", "gzip"),
        (
            "in.csv",
            "id,text\n1,né\n2,b\n3,\xe0 la\n4,où\n".encode("cp1252"),
            "line 2: byte 11 .*0xe9.*Windows-1252.*iconv",
        ),
        ("in.jsonl", ('{"text": "né"}\n' * 3).encode("latin1"), "None of the first 3 lines"),
        ("in.jsonl", "{}".encode("utf-16"), "is UTF-16, not UTF-8"),
        ("in.jsonl", b"\n\n", "no row that can be read"),
        ("in.parquet", b"PAR1 no more", "cannot be read"),
        ("in.xlsx", b"PK", "Possible"),
    ],
)
def test_what_spoils_a_whole_file_is_told_at_once(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        open_source(path)


@pytest.mark.parametrize("broken", [[1, 2], [1, 2, 3, 4, 5]])
def test_a_file_with_some_broken_lines_is_read(tmp_path, broken):
    """Two lines say nothing about the file; many do not either, if another line is UTF-8."""
    rows = [b"caf\xe9" if number in broken else b"plain" for number in range(10)]
    rows[9] = "café".encode() if len(broken) > 2 else rows[9]
    path = tmp_path / "in.csv"
    path.write_bytes(b"text\n" + b"\n".join(rows))
    assert [record.number - 1 for record in read(path) if isinstance(record, Reject)] == broken


@pytest.mark.usefixtures("small_pieces")
def test_a_conll_file_is_read_past_broken_texts(tmp_path):
    texts = [f"word{n}\tO\n" + ("alone\n" if n in (0, 5, 9) else "") for n in range(10)]
    path = tmp_path / "in.conll"
    path.write_text("\n".join(texts))
    source = open_source(path)
    whole, places = read_in_pieces(source)
    records = [record for piece in whole for record in piece]
    assert [record.number for record in records] == list(range(1, 11))
    assert [record.number for record in records if isinstance(record, Reject)] == [1, 6, 10]
    assert records[0].line == 1 and "has 1 field in line 2" in records[0].reason
    assert records[1].values == {"tokens": ["word1"], "tags": ["O"]}
    assert list(pieces(open_source(path), places[0])) == whole[1:]


def test_long_rows_make_small_pieces(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text\n" + ("x" * 2**20 + "\n") * 9)
    assert [len(piece) for piece in pieces(open_source(path), None)] == [4, 4, 1]


def test_rows_of_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        open_source(Path(tmp_path / "nowhere.csv"))


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
@pytest.mark.usefixtures("small_pieces")
def test_damaged_files_are_read_alike_from_any_piece(tmp_path, name):
    """Whatever bytes are changed, rows are numbered without a gap, can be written, and do not depend on the start."""
    path = tmp_path / name
    for seed in range(150):
        chance = random.Random(seed)
        if name == "in.csv":
            rows = [
                b'%d,"a ""b""\n%d"\n' % (n, n) if chance.random() < 0.4 else b"%d,caf\xc3\xa9\n" % n for n in range(12)
            ]
            damaged = bytearray(b"id,text\n" + b"".join(rows))
        else:
            damaged = bytearray(b'{"id": 1, "text": "caf\xc3\xa9 \\n", "more": [1, null]}\n' * 12)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(8, len(damaged))
            damaged[place : place + chance.randint(0, 1)] = chance.choice(
                [b'"', b",", b"\n", b"\r", b"\0", b"\xff", b"\xed\xa0\x80", b"{", b"]", b"\\ud800", b""]
            )
        path.write_bytes(damaged)
        source = open_source(path)
        whole, places = read_in_pieces(source)
        records = [record for piece in whole for record in piece]
        assert [record.number for record in records] == list(range(1, len(records) + 1))
        for record in records:
            what = record.values if isinstance(record, Row) else record.to_dict()
            json.dumps(what, ensure_ascii=False).encode("utf-8")
        number = chance.randrange(len(whole))
        assert list(pieces(open_source(path, source.columns), places[number])) == whole[number + 1 :]


@pytest.mark.parametrize("inner", ["1", '"caf\\u00e9"', "NaN"])
@pytest.mark.parametrize("depth", [101, 600, 2000])
def test_a_row_that_is_nested_too_deeply_costs_that_row_alone(tmp_path, inner, depth):
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"text": "goal", "x": {"[" * depth}{inner}{"]" * depth}}}\n{{"text": "vote", "x": [[1]]}}\n')
    first, second = open_source(path).records(None)
    assert isinstance(first, Reject) and "nested too deeply" in first.reason
    assert isinstance(second, Row) and second.values["x"] == [[1]]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_long_text_that_a_small_file_repeats_is_held_a_few_times_only(tmp_path, ending):
    texts = pa.array(["long " * 20_000] * 1000).dictionary_encode()
    table = pa.table({"text": texts})
    path = tmp_path / f"in.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    tracemalloc.start()
    next(open_source(path).records(None))
    held = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes()
    tracemalloc.stop()
    assert held < 20 * 2**20  # of the 100 MB that all rows are


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_batch_is_checked_once_however_few_rows_of_it_are_held_at_a_time(tmp_path, ending, monkeypatch):
    table, path = (
        pa.table({"text": ["late goal"] * 1000, "words": [["late", "goal"]] * 1000}),
        tmp_path / f"in.{ending}",
    )
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    checked, is_sound = [], tables._is_sound
    monkeypatch.setattr(tables, "_is_sound", lambda column: checked.append(len(column)) or is_sound(column))
    assert len(list(open_source(path).records(None))) == 1000
    assert sum(checked) == 2 * 1000
