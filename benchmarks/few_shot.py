"""Tasks added later to a frozen model: with all their rows, and with 8, 16 and 64 of them.

    python benchmarks/few_shot.py train --suite SUITES/nhc41.yaml --out runs/few --seeds 3 --jobs 6
    python benchmarks/few_shot.py add   --suite SUITES/nhc41.yaml --out runs/few --seeds 3 --jobs 14
    python benchmarks/few_shot.py show  --out runs/few

`train` makes two models a seed: of all tasks of the suite but seven (base-SEED), and of all of them (all-SEED). `add`
adds each of the seven to every base model, alone, and scores it on its test file. Beside it, on the same rows: a
logistic regression on the mean state of the pretrained encoder (linear) and of the base model's (linear_on_base), and,
with --finetune, a model of its own (finetuned). `show` prints a table and, with --json, everything.

Other models than those of `train`: --base FOLDER ... and --all FOLDER ..., one for each seed. Other tasks than the
seven: --tasks. Several ways of adding at once, on the same rows: --ways "start=fresh" "start=similar head_rate=3e-3".
What was measured already is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

HELD_OUT = ("travel", "weddings", "weird_news", "wellness", "women", "world_news", "worldpost")
"""Of nhc41: the last seven in alphabetical order"""
ALL_ROWS = 0
Line = dict[str, Any]


# --- the models -------------------------------------------------------------------------------------------------------


def train_model(suite: str, folder: Path, without: Sequence[str], seed: int, overrides: Sequence[str]) -> str:
    """Train a model of a suite's tasks but some; a training that was killed goes on."""
    import onepass
    from onepass.tasks import read_task_file

    file = read_task_file(suite, [*overrides, f"train.seed={seed}", "train.checkpoint_every_s=60"])
    kept = {name: task for name, task in file.tasks.items() if name not in without}
    onepass.train(file.model_copy(update={"tasks": kept}), folder, overwrite=True, resume=True, progress=False)
    return f"{folder}: {len(kept)} tasks, seed {seed}"


def train(given: argparse.Namespace) -> None:
    tasks = given.tasks or list(HELD_OUT)
    wanted = [(Path(given.out) / f"base-{seed}", tasks, seed) for seed in range(given.seeds)]
    wanted += [(Path(given.out) / f"all-{seed}", [], seed) for seed in range(given.seeds)]
    missing = [job for job in wanted if not (job[0] / "MANIFEST.json").is_file()]
    with workers(given.jobs) as pool:
        started = [pool.submit(train_model, given.suite, *job, given.options) for job in missing]
        for future in as_completed(started):
            say(future.result())


# --- adding -----------------------------------------------------------------------------------------------------------


def draw(labels: Sequence[Any], shots: int, seed: int) -> list[int]:
    """So many rows, as evenly over the labels as they allow; all rows for 0."""
    if shots == ALL_ROWS:
        return list(range(len(labels)))
    order = np.random.default_rng([seed, shots]).permutation(len(labels)).tolist()
    by_label: dict[Any, list[int]] = {}
    for row in order:
        by_label.setdefault(labels[row], []).append(row)
    in_turn = [row for turn in range(shots) for rows in by_label.values() for row in rows[turn : turn + 1]]
    return in_turn[:shots]


def measure(suite: str, base: str, together: str | None, name: str, seed: int, given: dict[str, Any]) -> list[Line]:
    """Everything about one task and one base model."""
    import torch

    import onepass
    from onepass.data.examples import read_examples
    from onepass.heads import make_kind
    from onepass.tasks import read_task_file
    from onepass.training.evaluation import evaluate, score_tasks
    from onepass.training.sets import path_of

    torch.set_num_threads(1)
    file = read_task_file(suite, require=("train", "test"))
    task = file.tasks[name]
    about = {"task": name, "seed": seed}
    lines: list[Line] = []
    if together is not None:
        model = onepass.load(together)
        score = evaluate(model, file.model_copy(update={"tasks": {name: task}}))["tasks"][name]["score"]
        lines.append({**about, "way": "together", "shots": ALL_ROWS, "draw": 0, "score": score})
    model = onepass.load(base)
    table = read_table(path_of(task, "train"))
    labels = table.column(task.label).to_pylist()
    linear = Linear(model, file, name)
    keys = {"kind": task.kind, "text": task.text, "label": task.label, "metric": task.metric, **task.options}
    keys["labels"] = linear.labels  # known, even if the few rows do not have all of them
    with tempfile.TemporaryDirectory() as place:
        for shots in given["shots"]:
            for number in range(1 if shots == ALL_ROWS else given["draws"]):
                rows = draw(labels, shots, number)
                source = Path(place) / "rows.parquet"
                write_table(table.take(rows), source)
                here = {**about, "shots": shots, "draw": number}
                if shots == ALL_ROWS:
                    keys["validation"] = task.validation
                for way in given["ways"]:
                    model.add_task(name, train=source, options=options_of(way, seed), **keys)
                    kind = make_kind(model.tasks[-1])
                    test = read_examples(
                        model.tasks[-1], path_of(task, "test"), kind, model.tokenizer, model.tasks[-1].labels
                    )
                    score = score_tasks(model, {len(model.tasks) - 1: test})[name]["score"]
                    lines.append({**here, "way": f"added {way}".strip(), "score": score})
                    model.remove_task(name)
                keys.pop("validation", None)
                lines += [{**here, "way": way, "score": score} for way, score in linear.scores(rows).items()]
                if given["finetune"] and shots != ALL_ROWS:
                    score = finetuned(file, name, source, len(rows), seed)
                    lines.append({**here, "way": "finetuned", "score": score})
    return lines


class Linear:
    """Logistic regressions on the mean states of the texts, of the pretrained encoder and of a model's."""

    def __init__(self, model: Any, file: Any, name: str):
        from onepass.data.examples import find_labels, read_examples
        from onepass.encoder.loading import load_encoder
        from onepass.heads import make_kind
        from onepass.training.sets import path_of

        task, kind = file.tasks[name], make_kind(file.tasks[name])
        self.labels = labels = find_labels(task, path_of(task, "train"), kind)
        encoders = {"linear": load_encoder(model.source)[0], "linear_on_base": model.method.encoder}
        sets = {
            split: read_examples(task, path_of(task, split), kind, model.tokenizer, labels)
            for split in ("train", "test")
        }
        self.rows = {int(row) - 1: place for place, row in enumerate(sets["train"].row_numbers)}
        self.targets = {split: examples.targets for split, examples in sets.items()}
        self.states = {
            way: {split: mean_states(encoder.eval(), examples) for split, examples in sets.items()}
            for way, encoder in encoders.items()
        }

    def scores(self, rows: Sequence[int]) -> dict[str, float]:
        """Accuracy on test in percent, learned from these rows of the file."""
        from sklearn.linear_model import LogisticRegression

        chosen = [self.rows[row] for row in rows if row in self.rows]
        found = {}
        for way, states in self.states.items():
            center, spread = states["train"][chosen].mean(0), states["train"][chosen].std() + 1e-6
            learner = LogisticRegression(max_iter=2000)
            learner.fit((states["train"][chosen] - center) / spread, self.targets["train"][chosen])
            found[way] = 100.0 * learner.score((states["test"] - center) / spread, self.targets["test"])
        return found


def mean_states(encoder: Any, examples: Any) -> np.ndarray:
    """The mean of the last states of each text's tokens, (R, H)."""
    import torch

    from onepass.data.stream import sorted_batches
    from onepass.encoder.batch import Batch
    from onepass.methods.base import mean_tokens

    found = np.zeros((len(examples), encoder.width), np.float32)
    order = [(0, row) for row in range(len(examples))]
    with torch.inference_mode():
        for pairs in sorted_batches(order, [examples.lengths], 512, 4096):
            batch = Batch.of([examples.sequence(row) for _, row in pairs])
            found[[row for _, row in pairs]] = mean_tokens(encoder(batch), batch).numpy()
    return found


def finetuned(file: Any, name: str, source: Path, rows: int, seed: int) -> float:
    """The score of a whole encoder fine-tuned on these rows, for 100 steps of 32."""
    import onepass
    from onepass.tasks import MethodChoice
    from onepass.training.evaluation import evaluate

    task = file.tasks[name].model_copy(update={"train": source, "validation": source})
    options = {"epochs": -(-100 * min(32, rows) // rows), "batch_size": min(32, rows), "encoder_rate": 5e-5}
    options |= {"head_rate": 5e-4, "average": 0.0, "seed": seed, "evaluate_every": 1000.0}
    chosen = {"tasks": {name: task}, "method": MethodChoice(name="single"), "train": options}
    model = onepass.train(file.model_copy(update=chosen), progress=False)
    return float(evaluate(model, file.model_copy(update={"tasks": {name: file.tasks[name]}}))["tasks"][name]["score"])


def options_of(way: str, seed: int) -> dict[str, Any]:
    """How to add, from words like `epochs=8 start=fresh`."""
    from onepass.plain_yaml import parse

    return {
        "seed": seed,
        **{key: parse(value).value for key, _, value in (word.partition("=") for word in way.split())},
    }


def read_table(path: Path) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path)


def write_table(table: Any, path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(table, path)


def add(given: argparse.Namespace) -> None:
    out = Path(given.out)
    bases = given.base or [str(out / f"base-{seed}") for seed in range(given.seeds)]
    together = given.all or [str(out / f"all-{seed}") for seed in range(given.seeds)]
    wanted = {"shots": given.shots, "draws": given.draws, "ways": given.ways, "finetune": given.finetune}
    results = out / "results.jsonl"
    done = {line["unit"] for line in read_lines(results)}
    with workers(given.jobs) as pool:
        started = {}
        for seed, base in enumerate(bases):
            other = together[seed] if seed < len(together) and Path(together[seed]).is_dir() else None
            for name in given.tasks or HELD_OUT:
                unit = json.dumps([Path(given.suite).stem, base, name, wanted])
                if unit not in done:
                    started[pool.submit(measure, given.suite, base, other, name, seed, wanted)] = unit
        for future in as_completed(started):
            with results.open("a", encoding="utf-8") as file:
                for line in future.result():
                    file.write(json.dumps({**line, "unit": started[future]}) + "\n")
            say(f"{started[future][:100]}")
    show(given)


# --- showing ----------------------------------------------------------------------------------------------------------


def summarise(lines: Sequence[Line]) -> list[Line]:
    """By way and number of rows, the mean over tasks and draws, and its spread over seeds."""
    groups: dict[tuple[str, int], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["way"], line["shots"]), []).append(line)
    found = []
    for (way, shots), group in groups.items():
        seeds = [np.mean([line["score"] for line in group if line["seed"] == s]) for s in {li["seed"] for li in group}]
        tasks = {
            name: [line["score"] for line in group if line["task"] == name] for name in {li["task"] for li in group}
        }
        found.append(
            {
                "way": way,
                "shots": shots,
                "mean": float(np.mean(seeds)),
                "spread": float(np.std(seeds)),
                "seeds": len(seeds),
                "tasks": {name: float(np.mean(scores)) for name, scores in sorted(tasks.items())},
            }
        )
    return sorted(found, key=lambda row: (row["way"], row["shots"] or 10**9))


def show(given: argparse.Namespace) -> None:
    rows = summarise(read_lines(Path(given.out) / "results.jsonl"))
    if given.json:
        print(json.dumps({"rows": rows}, indent=2))
        return
    shots = sorted({row["shots"] for row in rows}, key=lambda count: count or 10**9)
    cells = {(row["way"], row["shots"]): f"{row['mean']:.2f} ± {row['spread']:.2f}" for row in rows}
    print("| way | " + " | ".join("all rows" if count == ALL_ROWS else str(count) for count in shots) + " |")
    print("|---" * (len(shots) + 1) + "|")
    for way in dict.fromkeys(row["way"] for row in rows):
        print(f"| {way} | " + " | ".join(cells.get((way, count), "") for count in shots) + " |")


def read_lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def workers(jobs: int) -> ProcessPoolExecutor:
    os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("train", "add", "show"))
    parser.add_argument("--suite", help="a task file with test files")
    parser.add_argument("--out", default="runs/few_shot", help="the folder for models and results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--tasks", nargs="*", default=[], help="the tasks that come later; the seven of nhc41")
    parser.add_argument("--options", nargs="*", default=[], metavar="KEY=VALUE", help="train: train.epochs=5")
    parser.add_argument("--base", nargs="*", default=[], help="add: base models, one for each seed")
    parser.add_argument("--all", nargs="*", default=[], help="add: models trained with all tasks, one for each seed")
    parser.add_argument("--shots", nargs="*", type=int, default=[8, 16, 64, ALL_ROWS], help="rows; 0: all")
    parser.add_argument("--draws", type=int, default=3, help="different draws of few rows")
    parser.add_argument("--ways", nargs="*", default=[""], help="add: options of onepass add, several in quotes")
    parser.add_argument("--finetune", action="store_true", help="add: also a model of its own on the few rows")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    {"train": train, "add": add, "show": show}[given.command](given)


if __name__ == "__main__":
    main()
