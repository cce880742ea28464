"""Small folders in the layouts of the originals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from onepass.cli.app import app

NLI_HEAD = "index\tpromptID\tpairID\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"


def tsv(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def mnli_lines(count: int, labelled: bool) -> str:
    head = NLI_HEAD + "sentence1\tsentence2" + ("\tlabel1\tgold_label" if labelled else "")
    names = ("neutral", "entailment", "contradiction")
    rows = [
        f'{n}\t0\t0\tp\tp\tp\tp\tthe goal {n} is late\tit is "good'
        + (f"\t{names[n % 3]}\t{names[n % 3]}" if labelled else "")
        for n in range(count)
    ]
    return tsv(head, *rows)


def glue_files() -> dict[str, str]:
    """Every file of the download, with a few rows; quotes in texts are not closed."""
    files: dict[str, str] = {}
    for split in ("train", "dev"):
        files[f"CoLA/{split}.tsv"] = tsv(*(f'gj04\t{n % 2}\t{"*" * (n % 2)}\tthe "goal {n} is late' for n in range(8)))
        files[f"SST-2/{split}.tsv"] = tsv("sentence\tlabel", *(f"good match {n}\t{n % 2}" for n in range(8)))
        files[f"MRPC/{split}.tsv"] = "\ufeff" + tsv(
            "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
            *(f'{n % 2}\t1\t2\tthe "goal" {n}\tlate goal {n}' for n in range(8)),
        )
        files[f"STS-B/{split}.tsv"] = tsv(
            "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
            *(f"{n}\tg\tf\ty\t{n}\ts\ts\tgoal {n}\tmatch {n}\t{n / 2}" for n in range(8)),
        )
        files[f"QQP/{split}.tsv"] = tsv(
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
            *(f"{n}\t1\t2\twhy {n} ?\twhy is it {n} ?\t{n % 2}" for n in range(8)),
            "9\t1\t2\tcut short",
        )
        files[f"QNLI/{split}.tsv"] = tsv(
            "index\tquestion\tsentence\tlabel",
            *(f"{n}\twhy {n} ?\tit is {n}\t{('entailment', 'not_entailment')[n % 2]}" for n in range(8)),
        )
        files[f"RTE/{split}.tsv"] = tsv(
            "index\tsentence1\tsentence2\tlabel",
            *(f"{n}\tgoal {n}\tmatch {n}\t{('entailment', 'not_entailment')[n % 2]}" for n in range(8)),
        )
        files[f"WNLI/{split}.tsv"] = tsv(
            "index\tsentence1\tsentence2\tlabel", *(f"{n}\tgoal {n}\tmatch {n}\t{n % 2}" for n in range(8))
        )
    files["MNLI/train.tsv"] = mnli_lines(9, labelled=True) + NLI_HEAD.replace("\t", "x\t") + "a\tb\t-\t-\n"
    files["MNLI/dev_matched.tsv"] = mnli_lines(6, labelled=True)
    files["MNLI/dev_mismatched.tsv"] = mnli_lines(3, labelled=True)
    files["MNLI/test_matched.tsv"] = mnli_lines(3, labelled=False)
    files["MNLI/test_mismatched.tsv"] = mnli_lines(2, labelled=False)
    files["diagnostic/diagnostic.tsv"] = tsv("index\tsentence1\tsentence2", "0\tthe goal\tthe match")
    files["CoLA/test.tsv"] = tsv("index\tsentence", "0\tthe goal is late", "1\tgoal the")
    files["SST-2/test.tsv"] = tsv("index\tsentence", "0\tgood", "1\tbad")
    files["MRPC/test.tsv"] = tsv("index\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t1\t2\tgoal\tlate goal")
    files["STS-B/test.tsv"] = tsv(
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2",
        "0\tg\tf\ty\t0\ts\ts\tgoal\tvote",
    )
    files["QQP/test.tsv"] = tsv("id\tquestion1\tquestion2", "0\twhy ?\twhy is it ?")
    files["QNLI/test.tsv"] = tsv("index\tquestion\tsentence", "0\twhy ?\tit is")
    files["RTE/test.tsv"] = tsv("index\tsentence1\tsentence2", "0\tgoal\tmatch")
    files["WNLI/test.tsv"] = tsv("index\tsentence1\tsentence2", "0\tgoal\tmatch")
    return files


@pytest.fixture
def lay(tmp_path: Path) -> Callable[[dict[str, Any]], Path]:
    """Writes files into the folder of originals, and returns it."""

    def call(files: dict[str, Any]) -> Path:
        for name, text in files.items():
            path = tmp_path / "originals" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path / "originals"

    return call


@pytest.fixture
def glue(lay: Callable[[dict[str, Any]], Path]) -> Path:
    return lay(glue_files())


@pytest.fixture
def rows() -> Callable[[Path], list[dict[str, Any]]]:
    """Reads a jsonl file."""
    return lambda path: [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture
def run() -> Callable[..., Any]:
    """Runs a command in this process."""
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="onepass")
