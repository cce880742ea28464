"""A suite of ten sets of all seven kinds, for `onepass bench accuracy`: GoEmotions, STS-B, WNUT-17, COPA, WiC, a sample
of SQuAD and four sets of one label.

    python benchmarks/kinds.py DATA OUTPUT
    onepass bench accuracy --suite OUTPUT/kinds.yaml --methods "readers single" --seeds 3 --jobs 4

DATA is the folder of the data sets (parquet files, one folder a set). OUTPUT/kinds.yaml names its files where they are;
only SQuAD's one file is parted into train (70 %), validation (10 %) and test (20 %), by article, and written to OUTPUT.
COPA and WiC have no test labels: their validation files are the test, and a share of train is validation.
"""

import hashlib
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq

SUITE = """\
# Ten sets of all seven kinds; made by benchmarks/kinds.py.
tasks:
  emotions:
    kind: multilabel
    train: {data}/goemotions/train.parquet
    validation: {data}/goemotions/validation.parquet
    test: {data}/goemotions/test.parquet
    text: text
    label: label_names
    metric: macro_f1
    threshold: {{best: f1}}
  similarity:
    kind: regression
    train: {data}/glue_stsb/train.parquet
    validation: {data}/glue_stsb/validation.parquet
    test: {data}/glue_stsb/test.parquet
    text: [sentence1, sentence2]
    label: label
  names:
    kind: tagging
    train: {data}/wnut17/train.parquet
    validation: {data}/wnut17/validation.parquet
    test: {data}/wnut17/test.parquet
    text: tokens
    label: ner_tags
  cause:
    kind: choice
    train: {data}/superglue_copa/train.parquet
    test: {data}/superglue_copa/validation.parquet
    text: premise
    template: "{{premise}} What was the {{question}}?"
    choices: [choice1, choice2]
    label: label
  sense:
    kind: words
    train: {data}/superglue_wic/train.parquet
    test: {data}/superglue_wic/validation.parquet
    text: [sentence1, sentence2]
    words: word
    match: form
    label: label
  answer:
    kind: extraction
    train: {output}/squad-train.jsonl
    validation: {output}/squad-validation.jsonl
    test: {output}/squad-test.jsonl
    text: [question, context]
    label: answers
    starts: answer_start
{others}
train: {{max_length: 256}}
"""
OTHER = """\
  {name}:
    train: {data}/suites/content/{name}/train.parquet
    validation: {data}/suites/content/{name}/validation.parquet
    test: {data}/suites/content/{name}/test.parquet
    text: text
    label: label
"""
OTHERS = ("question_type", "review_polarity", "subjectivity", "spam")


def main(data: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    parts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for row in pq.read_table(data / "squad_v1_dev_xquad_en" / "validation.parquet").to_pylist():
        share = hashlib.md5(row["title"].encode()).digest()[0] / 256
        part = "train" if share < 0.7 else "validation" if share < 0.8 else "test"
        parts[part].append(json.dumps({key: row[key] for key in ("question", "context", "answers", "answer_start")}))
    for part, lines in parts.items():
        (output / f"squad-{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    others = "".join(OTHER.format(name=name, data=data) for name in OTHERS)
    suite = SUITE.format(data=data, output=output, others=others.rstrip())
    (output / "kinds.yaml").write_text(suite, encoding="utf-8")
    print(f"{output / 'kinds.yaml'}: SQuAD {', '.join(f'{len(lines)} {part}' for part, lines in parts.items())}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/kinds.py DATA OUTPUT")
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
