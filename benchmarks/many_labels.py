"""A task with few rows of each label added to a model: its head drawn, or fitted to the rows first.

    python benchmarks/many_labels.py MODEL TRAIN TEST [--rows 5] [--seeds 3] [--ways "head=drawn" "head=fitted"]

MODEL is a model folder, which does not change; TRAIN and TEST are parquet files with the columns text and label. A way
is options of `onepass add`, with commas between them. One JSON line a way and seed: accuracy on 600 rows of TEST.
"""

import argparse
import json
import random
import tempfile
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import onepass
from onepass.plain_yaml import parse

TEST_ROWS = 600


def drawn(path: Path, each: int, seed: int) -> pa.Table:
    """So many rows of every label of a file."""
    table = pq.read_table(path, columns=["text", "label"])
    of_label = defaultdict(list)
    for row, label in enumerate(table["label"].to_pylist()):
        of_label[label].append(row)
    draw = random.Random(seed)
    return table.take([row for rows in of_label.values() for row in draw.sample(rows, min(each, len(rows)))])


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("model", "train", "test"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--rows", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ways", nargs="+", default=["head=drawn", "head=fitted"])
    given = parser.parse_args()
    test = pq.read_table(given.test, columns=["text", "label"])
    test = test.take(random.Random(1).sample(range(len(test)), min(TEST_ROWS, len(test))))
    with tempfile.TemporaryDirectory() as place:
        files = {name: Path(place) / f"{name}.parquet" for name in ("train", "test")}
        pq.write_table(test, files["test"])
        asked = {"tasks": {"new": {"test": files["test"], "text": "text", "label": "label"}}}
        for seed in range(given.seeds):
            pq.write_table(drawn(given.train, given.rows, seed), files["train"])
            for way in given.ways:
                words = (option.partition("=") for option in way.split(",") if option)
                options = {"seed": seed} | {key: parse(value).value for key, _, value in words}
                model = onepass.load(given.model)
                model.add_task("new", text="text", label="label", options=options, **files)
                score = onepass.evaluate(model, asked)["tasks"]["new"]["score"]
                print(json.dumps({"rows": given.rows, "way": way, "seed": seed, "score": round(score, 1)}), flush=True)


if __name__ == "__main__":
    main()
