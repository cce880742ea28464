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


def draw(targets: np.ndarray, shots: int, seed: int) -> np.ndarray:
    """So many rows, as evenly over the labels as they allow; all rows for 0."""
    if shots == ALL_ROWS:
        return np.arange(len(targets))
    by_label: dict[Any, list[int]] = {}
    for row in np.random.default_rng([seed, shots]).permutation(len(targets)).tolist():
        by_label.setdefault(targets[row], []).append(row)
    in_turn = [row for turn in range(shots) for rows in by_label.values() for row in rows[turn : turn + 1]]
    return np.array(in_turn[:shots])


def measure(suite: str, base: str, together: str | None, name: str, seed: int, given: dict[str, Any]) -> list[Line]:
    """Everything about one task and one base model."""
    import torch

    import onepass
    from onepass.data.examples import read_examples
    from onepass.heads import make_kind
    from onepass.tasks import read_task_file
    from onepass.training.adding import add_options, cached_logits, train_task
    from onepass.training.cache import TextCache
    from onepass.training.evaluation import evaluate, scores_of
    from onepass.training.sets import TaskSet, path_of, read_set

    torch.set_num_threads(1)
    file = read_task_file(suite, require=("train", "test"))
    about = {"task": name, "seed": seed}
    lines: list[Line] = []
    if together is not None:
        score = evaluate(onepass.load(together), file.model_copy(update={"tasks": {name: file.tasks[name]}}))
        lines.append({**about, "way": "together", "shots": ALL_ROWS, "draw": 0, "score": score["tasks"][name]["score"]})
    model = onepass.load(base)
    item = read_set(file.tasks[name], model.tokenizer)
    task, nothing = item.task, item.train.take(np.zeros(0, np.int64))
    test = read_examples(task, path_of(task, "test"), make_kind(task), model.tokenizer, task.labels)
    read_test = TextCache(model.method, test)
    linear = Linear(model, item.train, test)
    for shots in given["shots"]:
        for number in range(1 if shots == ALL_ROWS else given["draws"]):
            rows = draw(item.train.targets, shots, number)
            here = {**about, "shots": shots, "draw": number}
            few = TaskSet(task, item.train.take(rows), item.validation if shots == ALL_ROWS else nothing)
            for way in given["ways"]:
                train_task(model, few, add_options(options_of(way, seed)), progress=False)
                last = len(model.tasks) - 1
                score = scores_of(model, last, cached_logits(model, last, read_test), test)["score"]
                lines.append({**here, "way": f"added {way}".strip(), "score": score})
                model.discard(last)
            lines += [{**here, "way": way, "score": score} for way, score in linear.scores(rows).items()]
            if given["finetune"] and shots != ALL_ROWS:
                score = finetuned(file, name, item.train.rows[rows] - 1, seed)
                lines.append({**here, "way": "finetuned", "score": score})
    return lines


class Linear:
    """Logistic regressions on the mean states of the texts, of the pretrained encoder and of a model's."""

    def __init__(self, model: Any, train: Any, test: Any):
        from onepass.encoder.loading import load_encoder

        encoders = {"linear": load_encoder(model.source)[0], "linear_on_base": model.method.encoder}
        self.targets = train.targets, test.targets
        self.states = {
            way: tuple(mean_states(encoder.eval(), examples) for examples in (train, test))
            for way, encoder in encoders.items()
        }

    def scores(self, rows: np.ndarray) -> dict[str, float]:
        """Accuracy on test in percent, learned from these rows."""
        from sklearn.linear_model import LogisticRegression

        found = {}
        for way, (train, test) in self.states.items():
            center, spread = train[rows].mean(0), train[rows].std() + 1e-6
            learner = LogisticRegression(max_iter=2000)
            learner.fit((train[rows] - center) / spread, self.targets[0][rows])
            found[way] = 100.0 * learner.score((test - center) / spread, self.targets[1])
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
            found[[row for _, row in pairs]] = mean_tokens(encoder(batch), batch.layout).numpy()
    return found


def finetuned(file: Any, name: str, rows: np.ndarray, seed: int) -> float:
    """The score of a whole encoder fine-tuned on these rows of the training file, for 100 steps of 32."""
    import pyarrow.parquet

    import onepass
    from onepass.tasks import MethodChoice
    from onepass.training.evaluation import evaluate

    batch = min(32, len(rows))
    options = {"epochs": -(-100 * batch // len(rows)), "batch_size": batch, "encoder_rate": 5e-5, "head_rate": 5e-4}
    options |= {"average": 0.0, "patience": 0, "seed": seed}
    with tempfile.TemporaryDirectory() as place:
        few = Path(place) / "rows.parquet"
        pyarrow.parquet.write_table(pyarrow.parquet.read_table(file.tasks[name].train).take(rows), few)
        # The few rows are also what the checkpoint is chosen on: there are no others.
        task = file.tasks[name].model_copy(update={"train": few, "validation": few})
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
