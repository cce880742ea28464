"""Writing a recipe's task file and data, and what can be in the way."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from onepass.errors import ConfigError, DataError
from onepass.heads import check_kinds
from onepass.recipes import RECIPES, find_recipe, write_recipe, writing
from onepass.tasks import NAME, read_task_file


@pytest.fixture
def emotions(lay):
    return lay({f"{split}.tsv": "thanks !\t15,17\tid1\nwhat\t27\tid2\n" for split in ("train", "dev", "test")})


def test_the_file_explains_itself(emotions, tmp_path):
    made = write_recipe(RECIPES["goemotions"], tmp_path / "tasks.yaml", emotions)
    text = made.task_file.read_text()
    assert text.startswith("# GoEmotions (Demszky et al. 2020)")
    assert "# Rows: train 2, validation 2, test 2" in text and "train: goemotions/goemotions-train.jsonl" in text


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_recipe_says_what_it_is_and_names_its_tasks_well(name):
    recipe = RECIPES[name]
    assert recipe.about and NAME.fullmatch(name)
    for known in recipe.sets:
        assert NAME.fullmatch(known.name) and known.about and "train" in known.parts
        assert known.hub is None or set(known.hub.splits) <= set(known.parts)
        assert set(known.answers) <= set(known.parts)


def test_what_is_there_is_replaced_only_by_force(emotions, tmp_path):
    target = tmp_path / "tasks.yaml"
    write_recipe(RECIPES["goemotions"], target, emotions)
    with pytest.raises(ConfigError, match="exists already"):
        write_recipe(RECIPES["goemotions"], target, emotions)
    with pytest.raises(ConfigError, match="data of an earlier recipe"):
        write_recipe(RECIPES["goemotions"], tmp_path / "other.yaml", emotions)
    (tmp_path / "goemotions" / "notes.txt").write_text("mine")
    (tmp_path / "goemotions" / "goemotions-train.jsonl").write_text("stale")
    write_recipe(RECIPES["goemotions"], target, emotions, overwrite=True)
    assert (tmp_path / "goemotions" / "notes.txt").read_text() == "mine"
    assert "stale" not in (tmp_path / "goemotions" / "goemotions-train.jsonl").read_text()
    mine = tmp_path / "mine" / "goemotions"
    mine.mkdir(parents=True)
    with pytest.raises(ConfigError, match="in the way"):
        write_recipe(RECIPES["goemotions"], tmp_path / "mine" / "tasks.yaml", emotions, overwrite=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("thanks !\t15\n", "line 1: 2 fields, but 3 are needed"),
        ("thanks !\t99\tid\n", "line 1 is not as expected"),
        (b"caf\xe9\t1\tid\n", "byte 0xe9 is not UTF-8"),
        ("\n", "has no row for goemotions"),
    ],
)
def test_a_file_that_is_not_as_expected_leaves_nothing(lay, tmp_path, text, message):
    folder = lay({"train.tsv": text, "dev.tsv": "a\t1\tid\n", "test.tsv": "a\t1\tid\n"})
    with pytest.raises(DataError, match=message):
        write_recipe(RECIPES["goemotions"], tmp_path / "tasks.yaml", folder)
    assert [path.name for path in tmp_path.iterdir()] == ["originals"]


def test_a_test_set_can_be_held_out_of_the_validation_set(lay, tmp_path, rows, run):
    table = "index\tsentence1\tsentence2\tlabel\n" + "".join(
        f"{n}\tgoal {n // 2}\tx\u2028\tentailment\n" for n in range(90)
    )
    folder = lay({f"RTE/{split}.tsv": table for split in ("train", "dev")})
    arguments = ["init", "--recipe", "glue", "--from", folder, "--tasks", "rte", "-o", tmp_path / "tasks.yaml"]
    assert run(*arguments, "--holdout").exit_code == 0
    validation, test = (rows(tmp_path / "glue" / f"rte-{split}.jsonl") for split in ("validation", "test"))
    assert len(validation) + len(test) == 90 and 45 < len(test) < 75
    assert not {row["sentence1"] for row in validation} & {row["sentence1"] for row in test}
    task = read_task_file(tmp_path / "tasks.yaml", checks=[check_kinds]).tasks["rte"]
    assert task.test.name == "rte-test.jsonl"


def test_names_that_are_not_there_are_told(emotions, tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'glue'"):
        find_recipe("glu")
    with pytest.raises(ConfigError, match="Unknown task of goemotions 'joy'"):
        write_recipe(RECIPES["goemotions"], tmp_path / "tasks.yaml", emotions, only=["joy"])
    with pytest.raises(ConfigError, match="There is no folder"):
        write_recipe(RECIPES["goemotions"], tmp_path / "tasks.yaml", tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="The hub does not have mr, cr"):
        write_recipe(RECIPES["sentences"], tmp_path / "tasks.yaml")


class FromHub(list):
    """Rows as the library `datasets` gives them, with the names of labels."""

    features = {"label": SimpleNamespace(names=["entailment", "neutral", "contradiction"]), "premise": None}


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for the library `datasets`; returns what it was asked for."""
    asked = []
    library = ModuleType("datasets")

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        if split == "test":
            raise ConnectionError("no network\nmore")
        pair = {"premise": "a goal", "hypothesis": "a match"}
        return FromHub([pair | {"label": 1}, pair | {"label": -1}])

    library.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", library)
    return asked


def test_a_set_comes_from_the_hub_with_labels_in_words(hub, tmp_path, rows, monkeypatch):
    snli = RECIPES["snli"].sets[0]
    monkeypatch.delitem(snli.hub.splits, "test")
    made = write_recipe(RECIPES["snli"], tmp_path / "tasks.yaml")
    assert hub == [("stanfordnlp/snli", None, "train"), ("stanfordnlp/snli", None, "validation")]
    assert rows(made.folder / "snli-train.jsonl") == [
        {"premise": "a goal", "hypothesis": "a match", "label": "neutral"}
    ]
    assert read_task_file(made.task_file, checks=[check_kinds]).tasks["snli"].test is None


@pytest.mark.usefixtures("hub")
def test_without_a_network_the_folder_is_asked_for(tmp_path):
    with pytest.raises(DataError, match=r"stanfordnlp/snli, split 'test', could not be .* no network.* --from FOLDER"):
        write_recipe(RECIPES["snli"], tmp_path / "tasks.yaml")
    assert list(tmp_path.iterdir()) == []


def test_without_the_library_its_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"onepass\[datasets\]"):
        write_recipe(RECIPES["snli"], tmp_path / "tasks.yaml")


def test_files_of_others_are_there_whatever_ends_the_writing(emotions, tmp_path, monkeypatch):
    target, folder = tmp_path / "tasks.yaml", tmp_path / "goemotions"
    write_recipe(RECIPES["goemotions"], target, emotions)
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")

    def interrupted(draft, folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_recipe(RECIPES["goemotions"], target, emotions, overwrite=True)
    assert [path.read_text() for path in tmp_path.rglob("notes.txt")] == ["mine"]
    assert (folder / "mine" / "notes.txt").is_file()


def test_a_link_to_the_folder_stays_one_and_the_rows_go_where_it_leads(emotions, tmp_path):
    target, place = tmp_path / "work" / "tasks.yaml", tmp_path / "disk" / "rows"
    target.parent.mkdir()
    (target.parent / "goemotions").symlink_to(place)
    write_recipe(RECIPES["goemotions"], target, emotions)  # to where nothing is yet
    (place / "goemotions-train.jsonl").write_text("stale")
    (place / "notes.txt").write_text("mine")
    write_recipe(RECIPES["goemotions"], target, emotions, overwrite=True)
    assert sorted(path.name for path in target.parent.iterdir()) == ["goemotions", "tasks.yaml"]
    assert [path.name for path in place.parent.iterdir()] == ["rows"]
    assert (target.parent / "goemotions").readlink() == place
    assert "stale" not in (place / "goemotions-train.jsonl").read_text()
    assert (place / "notes.txt").read_text() == "mine"
