"""Rows of tables past values that cannot be read or kept."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from onepass.filejob import open_source, tables
from onepass.filejob.records import DEEPEST, Reject, Row


def read(path):
    return list(open_source(path).records(None))


def write_table(path, table):
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)


def halves(count):
    return pa.array(range(0, count + 1, 2), pa.int32())


def column_of(kind, texts):
    """A column whose rows hold two texts each."""
    struct = pa.StructArray.from_arrays([texts, texts], names=["x", "y"])
    return {
        "list": lambda: pa.ListArray.from_arrays(halves(len(texts)), texts),
        "large list": lambda: pa.LargeListArray.from_arrays(halves(len(texts)).cast(pa.int64()), texts),
        "fixed list": lambda: pa.FixedSizeListArray.from_arrays(texts, 2),
        "map": lambda: pa.MapArray.from_arrays(halves(len(texts)), pa.array(map(str, range(len(texts)))), texts),
        "list of structs": lambda: pa.ListArray.from_arrays(halves(len(texts)), struct),
        "struct of lists": lambda: pa.StructArray.from_arrays([column_of("list", texts)], names=["x"]),
        "list of lists": lambda: pa.ListArray.from_arrays(
            pa.array(range(len(texts) // 2 + 1), pa.int32()), column_of("list", texts)
        ),
        "extension": lambda: pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.string(), [2]), column_of("fixed list", texts)
        ),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array(range(len(texts)))[::2], texts),
        "list of codes": lambda: pa.ListArray.from_arrays(
            halves(len(texts)), pa.DictionaryArray.from_arrays(pa.array(range(len(texts))), texts)
        ),
    }[kind]()


def texts_with(place, text, count):
    return pa.array([text if n == place else b"tag %d" % n for n in range(count)], pa.binary()).view(pa.string())


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
@pytest.mark.parametrize(
    "kind",
    ["list", "large list", "fixed list", "map", "list of structs", "struct of lists", "list of lists"],
)
def test_a_bad_value_in_a_nested_column_costs_its_row_alone(tmp_path, kind, ending):
    path = tmp_path / f"in.{ending}"
    tags = column_of(kind, texts_with(102, b"caf\xe9", 200))
    write_table(path, pa.table({"text": [f"goal {n}" for n in range(100)], "tags": tags}))
    records = read(path)
    (bad,) = [record for record in records if isinstance(record, Reject)]
    assert bad.number == 52 and "column 'tags' cannot be read" in bad.reason and bad.start == "goal 51"
    good = column_of(kind, texts_with(102, b"good", 200)).to_pylist()
    assert [record.values["tags"] for record in records if record is not bad] == good[:51] + good[52:]


@pytest.mark.parametrize("kind", ["dictionary", "list of codes", "extension"])
def test_a_bad_value_in_an_encoded_column_costs_its_row_alone(tmp_path, kind):
    path = tmp_path / "in.arrow"
    write_table(path, pa.table({"text": ["goal"] * 100, "tags": column_of(kind, texts_with(102, b"caf\xe9", 200))}))
    assert [record.number for record in read(path) if isinstance(record, Reject)] == [52]


def test_what_lies_behind_a_row_without_a_value_is_not_read(tmp_path):
    bad = texts_with(1, b"caf\xe9", 3)
    none = pa.array([False, True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), bad, mask=none)
    structs = pa.StructArray.from_arrays([bad], names=["x"], mask=none)
    write_table(tmp_path / "in.arrow", pa.table({"text": ["goal"] * 3, "lists": lists, "structs": structs}))
    assert [record.values["lists"] for record in read(tmp_path / "in.arrow")] == [["tag 0"], None, ["tag 2"]]


def damaged(path, kind, number, offset):
    """A file of 20 rows in which an offset of a column of lists is another."""
    write_table(path, pa.table({"text": ["goal"] * 20, "tags": column_of(kind, texts_with(0, b"tag 0", 40))}))
    width, data = (8 if kind == "large list" else 4), path.read_bytes()
    offsets = b"".join(n.to_bytes(width, "little") for n in range(0, 41, 2))
    assert data.count(offsets) == 1
    place = data.index(offsets) + number * width
    path.write_bytes(data[:place] + offset.to_bytes(width, "little", signed=True) + data[place + width :])


@pytest.mark.parametrize("kind", ["list", "list of structs", "map", "large list", "struct of lists"])
@pytest.mark.parametrize("offset", [-3, 7, 2**30])
def test_a_list_that_points_outside_costs_the_rows_beside_it(tmp_path, kind, offset):
    damaged(tmp_path / "in.arrow", kind, 10, offset)
    # 7 lies inside: row 10 then ends before it begins, and row 11 is only longer.
    expected = [10] if offset == 7 else [10, 11]
    assert [record.number for record in read(tmp_path / "in.arrow") if isinstance(record, Reject)] == expected


def test_a_last_list_that_points_far_outside_is_no_crash(tmp_path):
    damaged(tmp_path / "in.arrow", "large list", 20, 2**50)
    assert [record.number for record in read(tmp_path / "in.arrow") if isinstance(record, Reject)] == [20]


@pytest.mark.parametrize("depth", [DEEPEST - 1, DEEPEST, 300, 500, 700, 900])
def test_a_row_of_a_json_file_that_is_nested_too_deeply_costs_that_row_alone(tmp_path, depth):
    path = tmp_path / "in.json"
    path.write_text(f'[{{"text": "goal", "x": {"[" * depth}1{"]" * depth}}}, {{"text": "vote", "x": [[1]]}}]')
    first, second = read(path)
    assert isinstance(second, Row) and second.values["x"] == [[1]]
    if depth < DEEPEST:
        assert isinstance(first, Row)
    else:
        assert first.reason == "is nested too deeply (more than 100 times)." and first.start.startswith("goal | ")


@pytest.mark.parametrize("ending", ["parquet", "arrow", "json"])
def test_a_rejected_row_of_a_table_is_kept_with_its_start(tmp_path, ending):
    rows = [{"text": "late goal", "note": "x"}, {"text": "late vote", "note": "x\0y"}]
    path = tmp_path / f"in.{ending}"
    path.write_text(json.dumps(rows)) if ending == "json" else write_table(path, pa.Table.from_pylist(rows))
    assert read(path)[1] == Reject(
        2, None, "column 'note' holds a NUL character.", "late vote | x\\x00y", len("late votex\0y")
    )


def test_a_nul_in_a_map_rejects_its_row(tmp_path):
    maps = pa.array([[("k", "v")], [("k", "x\0y")], [("k\0", "v")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"text": ["goal"] * 3, "map": maps}), tmp_path / "in.parquet")
    first, *bad = read(tmp_path / "in.parquet")
    assert isinstance(first, Row)
    assert [record.reason for record in bad] == ["column 'map' holds a NUL character."] * 2


@pytest.mark.parametrize("ending", ["json", "parquet", "arrow"])
def test_a_name_that_cannot_be_written_costs_the_rows_that_have_a_value_there(tmp_path, ending):
    rows = [{"text": "goal", "b\0": 1}, {"text": "vote", "b\0": None}]
    path = tmp_path / f"in.{ending}"
    path.write_text(json.dumps(rows)) if ending == "json" else write_table(path, pa.Table.from_pylist(rows))
    source = open_source(path)
    first, second = source.records(None)
    assert list(source.columns) == ["text"] and second.values == {"text": "vote"}
    assert first.reason == "the name of column 'b\\x00' holds a NUL character." and first.start == "goal | 1"


def test_rejects_that_wait_for_a_later_chunk_are_not_looked_at_again_and_again(tmp_path):
    compared = 0

    class Number(int):
        def __lt__(self, other):
            nonlocal compared
            compared += 1
            return int(self) < other

    broken = tables._Broken(tmp_path / "in.json")
    for number in range(1, 1001, 2):
        broken.add(Number(number), "a row must be a JSON object.")
    found = [[reject.number for reject in broken.before(number)] for number in range(2, 1002, 2)]
    assert found == [[number] for number in range(1, 1001, 2)]
    assert compared <= 1000 and list(broken.before(None)) == []
