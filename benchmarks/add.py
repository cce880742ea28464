"""The whole command `onepass add` with 2,000 texts of about 30 tokens, on a model of 8 tasks: time, memory, proof.

    python benchmarks/add.py [--model FOLDER] [--rows 2000] [--tokens 30] [KEY=VALUE ...]

Without --model, a model of 8 untrained tasks on the embedded encoder is made: adding takes as long on it as on a
trained one. The texts are made of common words, with a word that tells the label in most of them. One JSON object on
stdout; `cpu_s` is user and system time, which other work on the machine does not change much.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COMMON = """
the a of to and in that it is was for on with as his her they at be this from have or by one had not but what all were
when we there can an your which their said if do will each about how up out them then she many some so these would other
into has more two like him see time could no make than first been its who now people my made over did down only way find
use may water long little very after words called just where most know
"""
SIGNS = {
    "yes": ("wonderful", "great", "pleased", "happy", "thanks"),
    "no": ("terrible", "broken", "angry", "refund", "waste"),
}


def write_texts(path: Path, rows: int, tokens: int, seed: int = 0) -> None:
    """Texts of about so many tokens, each of them a common word, with one that tells the label in 9 of 10."""
    generator, common = np.random.default_rng(seed), COMMON.split()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(rows):
            words = list(generator.choice(common, max(3, int(generator.normal(tokens - 2, tokens / 4)))))
            label = str(generator.choice(list(SIGNS)))
            if generator.random() < 0.9:
                words[int(generator.integers(len(words)))] = str(generator.choice(SIGNS[label]))
            writer.writerow([" ".join(words), label])


def make_model(folder: Path, num_tasks: int) -> None:
    """A model of untrained tasks."""
    import torch

    from onepass.encoder.loading import load_encoder
    from onepass.methods import make_method
    from onepass.model import Model
    from onepass.tasks import MethodChoice, Task

    torch.manual_seed(0)  # or the added task would begin elsewhere, and might end after fewer epochs, in every run
    encoder, tokenizer = load_encoder("embedded")
    model = Model(make_method("readers", encoder), tokenizer, MethodChoice(), "embedded")
    for number in range(num_tasks):
        model.add(Task(name=f"task-{number}", text=("text",), label="label", labels=("no", "yes")))
    model.save(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a trained model's folder; it is copied")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("options", nargs="*", metavar="KEY=VALUE", help="options of the training: epochs=4")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, texts = Path(place) / "model", Path(place) / "tone.csv"
        if given.model:
            subprocess.run(["cp", "-r", str(given.model), str(folder)], check=True)
        else:  # in a process of its own, whose memory is not counted
            code = f"import pathlib, add; add.make_model(pathlib.Path({str(folder)!r}), 8)"
            subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
        write_texts(texts, given.rows, given.tokens)
        start = time.perf_counter()
        task = ["--name", "tone", "--train", str(texts), "--text", "text", "--label", "label"]
        command = [sys.executable, "-m", "onepass", "add", str(folder), *given.options, *task, "--json"]
        adding = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        said = adding.stdout.read()
        _, status, used = os.wait4(adding.pid, 0)  # of this process alone: the model was made by another
        wall = time.perf_counter() - start
        if status:
            sys.exit("onepass add failed; what it said stands above.")
        known = json.loads((folder / "tasks" / "tone" / "task.json").read_text())
        found = {
            "rows": given.rows,
            "tokens": given.tokens,
            "wall_s": round(wall, 2),
            "cpu_s": round(used.ru_utime + used.ru_stime, 2),
            "peak_mb": round(used.ru_maxrss / 1024),
            "validation": known.get("scores", {}).get("validation", {}).get("score"),  # few rows are all learned from
            "proof": json.loads(said)["proof"],
        }
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
