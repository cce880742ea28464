"""A suite of seven small sets that no choice of the recipe has looked at, for `onepass bench accuracy`: six questions
about comments and one about reviews of restaurants, about a thousand rows each.

    python benchmarks/unseen.py DATA OUTPUT
    onepass bench accuracy --suite OUTPUT/unseen.yaml --methods "readers single" --seeds 3 --jobs 2

DATA is the folder of the data sets (parquet files, one folder a set). They have one file each, which is parted by a
hash of the text, so that a text is on the same side in every task: train (60 %), validation (10 %), test (30 %).
"""

import hashlib
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SETS = {
    "toxicity": "ni_civil_toxicity",
    "severe_toxicity": "ni_civil_severetoxicity",
    "insult": "ni_civil_insult",
    "obscenity": "ni_civil_obscenity",
    "threat": "ni_civil_threat",
    "sexually_explicit": "ni_civil_sexuallyexplicit",
    "restaurant": "ni_yelp_restaurant",
}
PARTS = {"train": 0.6, "validation": 0.7, "test": 1.0}
TASK = """\
  {name}:
    train: {name}-train.parquet
    validation: {name}-validation.parquet
    test: {name}-test.parquet
    text: text
    label: label
"""


def main(data: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for name, folder in SETS.items():
        rows = pq.read_table(data / folder / "train.parquet").to_pylist()
        parts: dict[str, list[dict[str, str]]] = {part: [] for part in PARTS}
        for row in rows:
            share = int.from_bytes(hashlib.md5(row["text"].encode()).digest()[:4]) / 2**32
            parts[next(part for part, end in PARTS.items() if share < end)].append(row)
        for part, found in parts.items():
            pq.write_table(pa.Table.from_pylist(found), output / f"{name}-{part}.parquet")
        print(f"{name}: {', '.join(f'{len(found)} {part}' for part, found in parts.items())}")
    tasks = "".join(TASK.format(name=name) for name in SETS)
    (output / "unseen.yaml").write_text(f"# Seven small sets; made by benchmarks/unseen.py.\ntasks:\n{tasks}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/unseen.py DATA OUTPUT")
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
