"""The single sets: each from a small folder in the layout of its original."""

import gzip
import json

import pytest

from onepass.data.examples import text_hash
from onepass.errors import DataError
from onepass.heads import check_kinds, make_kind
from onepass.recipes import RECIPES, write_recipe
from onepass.recipes.nhc import CATEGORIES, is_test
from onepass.tasks import read_task_file


def made_of(name, folder, tmp_path, **options):
    made = write_recipe(RECIPES[name], tmp_path / "tasks.yaml", folder, **options)
    return made, read_task_file(made.task_file, checks=[check_kinds]).tasks


def lines(*values):
    return "".join(json.dumps(value) + "\n" for value in values)


def test_snli_leaves_out_pairs_without_agreement(lay, tmp_path, rows):
    pair = {"sentence1": "a goal", "sentence2": "a match", "pairID": "1"}
    text = lines(pair | {"gold_label": "neutral"}, pair | {"gold_label": "-"})
    folder = lay({f"snli_1.0/snli_1.0_{split}.jsonl": text for split in ("train", "dev", "test")})
    made, tasks = made_of("snli", folder, tmp_path)
    assert made.rows == {"snli": {"train": 1, "validation": 1, "test": 1}}
    assert rows(made.folder / "snli-train.jsonl") == [
        {"premise": "a goal", "hypothesis": "a match", "label": "neutral"}
    ]
    assert tasks["snli"].labels == ("entailment", "neutral", "contradiction")


@pytest.mark.parametrize("form", ["tsv", "snli"])
def test_scitail_is_read_in_both_of_its_formats(lay, tmp_path, rows, form):
    if form == "tsv":
        text, name = 'the "goal\tit is late\tentails\n', "tsv_format/scitail_1.0_{}.tsv"
    else:
        text = lines({"sentence1": 'the "goal', "sentence2": "it is late", "gold_label": "entailment"})
        name = "snli_format/scitail_1.0_{}.txt"
    folder = lay({name.format(split): text for split in ("train", "dev", "test")})
    made, _ = made_of("scitail", folder, tmp_path)
    assert rows(made.folder / "scitail-test.jsonl") == [
        {"premise": 'the "goal', "hypothesis": "it is late", "label": "entails"}
    ]


def test_imdb_is_read_from_its_folders(lay, tmp_path, rows):
    files = {}
    for split in ("train", "test"):
        for label in ("neg", "pos"):
            files |= {f"aclImdb/{split}/{label}/{n}_1.txt": f"{label} {n}<br />é" for n in range(2)}
    made, tasks = made_of("imdb", lay(files), tmp_path)
    assert rows(made.folder / "imdb-train.jsonl")[2] == {"text": "pos 0 é", "label": "positive"}
    assert tasks["imdb"].validation == 0.1


def test_yelp_has_ones_and_twos(lay, tmp_path, rows):
    text = '"1","bad ""food""\\nno"\n"2","good"\n'
    made, _ = made_of("yelp", lay({"train.csv": text, "test.csv": text}), tmp_path)
    assert rows(made.folder / "yelp-test.jsonl") == [
        {"text": 'bad "food"\nno', "label": "negative"},
        {"text": "good", "label": "positive"},
    ]


@pytest.mark.parametrize(
    ("name", "label", "text", "read"),
    [
        ("imdb", "neg", "bad<br />no", "bad no"),
        ("yelp", "1", 'bad ""food""\\nno', 'bad "food"\nno'),
        ("rotten_tomatoes", "neg", "bad", "bad"),
    ],
)
def test_reviews_of_the_hub_are_read_as_those_of_the_originals(name, label, text, read):
    (known,) = RECIPES[name].sets
    assert list(known.hub.read(iter([{"text": text, "label": label}]))) == [{"text": read, "label": "negative"}]


def test_rotten_tomatoes_has_the_hubs_split(lay, tmp_path):
    text = "".join(f"caf\xe9 {n}\n" for n in range(5331)).encode("cp1252")
    files = {f"rt-polarity.{label}": text for label in ("neg", "pos")}
    made, _ = made_of("rotten_tomatoes", lay(files), tmp_path)
    assert made.rows["rotten_tomatoes"] == {"train": 8530, "validation": 1066, "test": 1066}


@pytest.mark.parametrize("form", ["all", "two"])
def test_sentence_sets_are_split_by_their_texts(lay, tmp_path, rows, form):
    names = {"MR": "rt-polarity", "CR": "custrev", "MPQA": "mpqa"}
    files = {}
    for name, stem in names.items():
        one, two = ("".join(f"{label} {name} {n % 90}\n" for n in range(100)) for label in ("bad", "good"))
        if form == "two":
            files |= {f"{name}/{stem}.neg": one, f"{name}/{stem}.pos": two}
        else:
            files |= {f"{stem}.all": "".join(f"{n % 2} {name} {n // 2 % 90}\n" for n in range(200))}

    made, _ = made_of("sentences", lay(files), tmp_path, only=["mr", "cr", "mpqa"])
    for task in ("mr", "cr", "mpqa"):
        files = {split: rows(made.folder / f"{task}-{split}.jsonl") for split in made.rows[task]}
        texts = {split: {row["text"] for row in found} for split, found in files.items()}
        assert not texts["train"] & texts["test"] and not texts["train"] & texts["validation"]
        assert sum(made.rows[task].values()) == 200
        assert 90 <= made.rows[task]["train"] <= 150


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
def test_old_sentence_sets_are_read_in_their_own_encoding_and_in_utf_8(lay, tmp_path, rows, encoding):
    texts = [f"a café, \u201cgood\u201d {n}" for n in range(40)]
    folder = lay({"rt-polarity.neg": "", "rt-polarity.pos": ""})
    for name in ("neg", "pos"):
        (folder / f"rt-polarity.{name}").write_bytes("\n".join(texts).encode(encoding))
    made = write_recipe(RECIPES["sentences"], tmp_path / "tasks.yaml", folder, only=["mr"])
    assert {row["text"] for row in rows(made.folder / "mr-train.jsonl")} <= set(texts)
    (folder / "rt-polarity.neg").write_bytes(b"caf\x81\n")
    with pytest.raises(DataError, match=r"rt-polarity\.neg: byte 0x81 is not Windows-1252"):
        write_recipe(RECIPES["sentences"], tmp_path / "tasks.yaml", folder, only=["mr"], overwrite=True)


def test_a_sentence_set_without_files_says_what_it_looked_for(lay, tmp_path):
    with pytest.raises(DataError, match=r"neither custrev.all nor custrev.neg and custrev.pos"):
        made_of("sentences", lay({"CR/other.txt": "x"}), tmp_path, only=["cr"])


def test_goemotions_has_names_for_its_numbers(lay, tmp_path, rows):
    text = "thanks !\t15,17\tid1\nwhat\t27\tid2\n"
    made, tasks = made_of("goemotions", lay({f"{split}.tsv": text for split in ("train", "dev", "test")}), tmp_path)
    found = [row["labels"] for row in rows(made.folder / "goemotions-train.jsonl")]
    assert found == [["gratitude", "joy"], ["neutral"]]
    assert len(tasks["goemotions"].labels) == 28 and tasks["goemotions"].kind == "multilabel"


def test_winogrande_takes_the_largest_set_that_is_there(lay, tmp_path, rows):
    row = {"qID": "1", "sentence": "The _ is late.", "option1": "goal", "option2": "vote", "answer": "2"}
    small, large = lines(row), lines(row, row)
    folder = lay({"train_xs.jsonl": small, "train_l.jsonl": large, "dev.jsonl": small})
    made, tasks = made_of("winogrande", folder, tmp_path)
    assert made.rows["winogrande"] == {"train": 2, "validation": 1}
    kind, task = make_kind(tasks["winogrande"]), tasks["winogrande"]
    (found,) = rows(made.folder / "winogrande-validation.jsonl")
    assert kind.item(task, found).sequences == [("The goal is late.",), ("The vote is late.",)]
    assert kind.target(found, task, ()).value.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_cosmosqa_reads_the_question_with_each_answer(lay, tmp_path, rows, ending):
    row = {"id": "1", "context": 'A "goal",\nlate.', "question": "Why?", "label": "2"} | {
        f"answer{n}": f"answer {n}" for n in range(4)
    }
    text = lines(row)
    if ending == "csv":
        head, cells = ",".join(row), ",".join('"' + cell.replace('"', '""') + '"' for cell in row.values())
        text = f"{head}\n{cells}\n"
    made, tasks = made_of("cosmosqa", lay({f"data/{name}.{ending}": text for name in ("train", "valid")}), tmp_path)
    (found,) = rows(made.folder / "cosmosqa-train.jsonl")
    sequences = make_kind(tasks["cosmosqa"]).item(tasks["cosmosqa"], found).sequences
    assert len(sequences) == 4 and sequences[2] == ('A "goal",\nlate.', "Why? answer 2")


SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "x",
            "paragraphs": [
                {
                    "context": "The late goal wins.",
                    "qas": [
                        {"id": "q1", "question": "What wins?", "answers": [{"text": "goal", "answer_start": 9}]},
                        {"id": "q2", "question": "Who?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}


@pytest.mark.parametrize("form", ["mrqa", "squad"])
def test_mrqa_is_read_in_its_own_format_and_in_squads(lay, tmp_path, rows, form):
    if form == "squad":
        folder = lay({f"SQuAD/{split}.json": json.dumps(SQUAD) for split in ("train", "dev")})
    else:
        answers = [{"text": "Goal", "char_spans": [[9, 12]], "token_spans": [[2, 2]]}]
        question = {"qid": "q1", "question": "What wins?", "answers": ["Goal"], "detected_answers": answers}
        text = lines({"header": {"dataset": "SQuAD"}}, {"id": "", "context": "The late goal wins.", "qas": [question]})
        folder = lay({f"{split}/SQuAD.jsonl.gz": gzip.compress(text.encode()) for split in ("train", "dev")})
    made, tasks = made_of("mrqa", folder, tmp_path, only=["squad"])
    found = rows(made.folder / "squad-train.jsonl")
    assert found[0]["answers"] == ["goal"] and found[0]["answer_start"] == [9]
    kind = make_kind(tasks["squad"])
    assert kind.target(found[0], tasks["squad"], ()).value == ((9, 13),)
    if form == "squad":
        assert kind.target(found[1], tasks["squad"], ()).value == ()


def test_the_words_of_wnut_keep_their_tags(lay, tmp_path, rows):
    text = "Late\tO\nAnn\tB-person\nLee\tI-person\n\t\n\n@x\tO\nok\tO\n"
    names = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    made, tasks = made_of("wnut17", lay(dict.fromkeys(names, text)), tmp_path)
    found = rows(made.folder / "wnut17-train.jsonl")
    assert found == [
        {"tokens": ["Late", "Ann", "Lee"], "tags": ["O", "B-person", "I-person"]},
        {"tokens": ["@x", "ok"], "tags": ["O", "O"]},
    ]
    assert tasks["wnut17"].metric == "span_f1"


def test_a_word_without_a_tag_is_told(lay, tmp_path):
    names = ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")
    with pytest.raises(DataError, match=r"wnut17train\.conll, line 2: a line has a word and its tag"):
        made_of("wnut17", lay(dict.fromkeys(names, "Late\tO\nAnn\n")), tmp_path)


@pytest.fixture
def huffpost(lay):
    """400 headlines of each of nine categories; some twice, some without text, some too late."""
    rows = []
    for category in (*CATEGORIES, "CRIME", "WORLD NEWS"):
        name = category.title()
        rows += [
            {
                "category": category,
                "headline": f"{name} story {n}",
                "short_description": f"More {n}.",
                "date": "2017-03-04",
            }
            for n in range(400)
        ]
    rows += [{"category": "CRIME", "headline": "travel  STORY 1", "date": "2017-03-04"}]
    rows += [{"category": "TRAVEL", "headline": " ", "date": "2017-03-04"}]
    rows += [{"category": "TRAVEL", "headline": "Too late", "date": "2018-06-01"}]
    return lay({"News_Category_Dataset_v3.json": lines(*rows)})


def test_no_headline_of_nhc_is_trained_on_in_one_task_and_tested_in_another(huffpost, tmp_path, rows):
    made, tasks = made_of("nhc", huffpost, tmp_path)
    assert list(tasks)[3:] == ["travel", "style_beauty", "parenting", "healthy_living"]
    sides = {"train": set(), "test": set()}
    for name, task in tasks.items():
        assert task.test is not None and task.validation == 0.1
        for side, texts in sides.items():
            found = rows(made.folder / f"{name}-{side}.jsonl")
            labels = [row["label"] for row in found]
            assert labels.count("yes") == labels.count("no") > 50
            own = {row["headline"] for row in found if row["label"] == "yes"}
            assert all(text.lower().startswith(name.partition("_")[0]) for text in own)
            texts |= {row["headline"].casefold() for row in found}
            assert {row["short_description"].partition(" ")[0] for row in found} <= {"More", ""}
    assert not sides["train"] & sides["test"]
    assert "too late" not in sides["train"] | sides["test"]


def test_nhc_is_drawn_alike_every_time(huffpost, tmp_path):
    first = write_recipe(RECIPES["nhc"], tmp_path / "tasks.yaml", huffpost)
    before = (first.folder / "travel-train.jsonl").read_bytes()
    again = write_recipe(RECIPES["nhc"], tmp_path / "tasks.yaml", huffpost, overwrite=True)
    assert (again.folder / "travel-train.jsonl").read_bytes() == before


def test_one_headline_in_five_is_for_testing():
    share = sum(is_test(text_hash((f"headline {n}",))) for n in range(5000)) / 5000
    assert 0.18 < share < 0.22


def test_originals_that_are_damaged_are_named(lay, tmp_path):
    files = {
        f"{split}/{label}/{n}.txt": "good" for split in ("train", "test") for label in ("neg", "pos") for n in "01"
    }
    folder = lay(files)
    (folder / "train" / "pos" / "1.txt").write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match=r"1\.txt: byte 0xe9 is not UTF-8"):
        made_of("imdb", folder, tmp_path)
    for text in ('"1","good"\n"2","never closed' + "x" * 200_000, '"1","good"\n"2","un\n'):
        folder = lay({"train.csv": text, "test.csv": '"1","good"\n'})
        with pytest.raises(DataError, match=r"train\.csv, line 2 is not as expected"):
            made_of("yelp", folder, tmp_path)
