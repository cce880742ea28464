"""Sets of the hub, with a stand-in for the library that fetches them."""

import sys
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest

from onepass.data.files import read_chunks
from onepass.data.hub import hub_file
from onepass.errors import DataError
from onepass.tasks import Task
from onepass.training.sets import path_of


class Features(dict):
    arrow_schema = pa.schema({"label": pa.int64(), "sentence": pa.string(), "tags": pa.list_(pa.int64())})


class Rows(list):
    features = Features(
        label=SimpleNamespace(names=["negative", "positive"]),
        sentence=None,
        tags=SimpleNamespace(feature=SimpleNamespace(names=["O", "B-place"])),
    )


@pytest.fixture
def fetched(monkeypatch, tmp_path):
    """What the library was asked for."""
    asked = []
    library = ModuleType("datasets")

    def load_dataset(name, config=None, split=None):
        asked.append((name, config, split))
        if name == "glue/sst2" or split == "nowhere":
            raise ValueError("no such set\nand more")
        if split == "empty":
            return Rows()
        if split == "tagged":
            nothing = {"sentence": None, "label": -1, "tags": []}
            return Rows([nothing] * 10_000 + [{"sentence": "in Rome", "label": 1, "tags": [0, 1]}])
        return Rows([{"sentence": "good", "label": 1}, {"sentence": "bad", "label": 0}, {"sentence": "?", "label": -1}])

    library.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", library)
    monkeypatch.setenv("ONEPASS_CACHE", str(tmp_path))
    return asked


def test_a_set_is_fetched_once_with_labels_in_words(fetched):
    task = Task(name="tone", text="sentence", label="label", train="hub:nyu-mll/glue/sst2")
    (chunk,) = read_chunks(path_of(task, "train"))
    assert chunk.columns["sentence"] == ["good", "bad", "?"]
    assert chunk.columns["label"] == ["positive", "negative", None]
    path_of(task, "train")
    assert fetched == [("nyu-mll/glue", "sst2", "train")]


def test_sets_of_similar_names_are_kept_apart(fetched):
    files = {hub_file(source, "train") for source in ("hub:a/b/c", "hub:a/b_c", "hub:a_b/c", "hub:a/b")}
    assert len(files) == len(fetched) == 4


@pytest.mark.usefixtures("fetched")
def test_lists_of_labels_are_in_words_and_columns_may_begin_late():
    *_, last = read_chunks(hub_file("hub:a/b#tagged", "train"))
    assert [column[-1] for column in last.columns.values()] == ["positive", "in Rome", ["O", "B-place"]]


def test_a_split_can_be_named_and_old_sets_have_no_owner(fetched):
    hub_file("hub:glue/sst2#validation_matched", "validation")
    assert fetched == [("glue/sst2", None, "validation_matched"), ("glue", "sst2", "validation_matched")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("hub:a/b#nowhere", "a/b, split 'nowhere', could not be loaded from the hub: no such set. Without a network"),
        ("hub:a/b#empty", "hub:a/b#empty has no rows"),
        ("hub:", "names no set"),
        ("hub:a/b/c/d", "names no set"),
    ],
)
@pytest.mark.usefixtures("fetched")
def test_what_cannot_be_fetched_is_told_and_leaves_nothing(source, message, tmp_path):
    with pytest.raises(DataError, match=message):
        hub_file(source, "train")
    assert not list(tmp_path.rglob("*.*"))


def test_without_the_library_its_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEPASS_CACHE", str(tmp_path))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"onepass\[datasets\]"):
        hub_file("hub:a/b", "train")
