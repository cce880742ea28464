"""Tasks added later to a frozen model: with all their rows, and with 8, 16 and 64 of them.

    python benchmarks/few_shot.py train alone add --suite SUITES/nhc41.yaml --out runs/few --jobs 14
    python benchmarks/few_shot.py show --out runs/few

The stages, one or several in one pool of processes:

    train   two models a seed: of all tasks of the suite but seven (base-SEED), and of all of them (all-SEED)
    alone   for each of the seven, what needs no such model: a logistic regression on the mean state of the pretrained
            encoder (linear), and an encoder fine-tuned for the task (finetuned)
    add     each of the seven added to every base model, alone, with the options of onepass add (added ...); beside it
            a logistic regression on the mean state of the base model's encoder (linear_on_base), and the task in the
            model that was trained on all (together); and the other tasks in both models (others_base, others_together)

Every score is taken on test and on validation: choose a way by `show --split validation`, and report test. Few rows are
drawn several times, the same for every way; nothing of validation is learned from then. Several ways of adding at
once: --ways "" "start=fresh" "head=drawn" for few rows, --full-ways for all. A line of JSON for every score goes to
OUT/results.jsonl; what is there already is not repeated. Other models than those of `train`: --base FOLDER ... and
--all FOLDER ..., one for each seed. Other tasks than the seven: --tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from onepass.bench.lines import end_last_line, read_lines

HELD_OUT = ("travel", "weddings", "weird_news", "wellness", "women", "world_news", "worldpost")
"""Of nhc41: the last seven in alphabetical order"""
ALL_ROWS = 0
SPLITS = ("validation", "test")
Line = dict[str, Any]


# --- the models -------------------------------------------------------------------------------------------------------


def train_model(suite: str, folder: str, without: Sequence[str], seed: int, overrides: Sequence[str]) -> list[Line]:
    """Train a model of a suite's tasks but some; a training that was killed goes on."""
    import onepass
    from onepass.tasks import read_task_file

    file = read_task_file(suite, [*overrides, f"train.seed={seed}", "train.checkpoint_every_s=60"])
    kept = {name: task for name, task in file.tasks.items() if name not in without}
    onepass.train(file.model_copy(update={"tasks": kept}), folder, overwrite=True, resume=True, progress=False)
    return []


def task_names(suite: str) -> list[str]:
    from onepass.tasks import read_task_file

    return list(read_task_file(suite, require=("train", "test")).tasks)


# --- what needs no model of many tasks --------------------------------------------------------------------------------


def draw(targets: np.ndarray, shots: int, seed: int) -> np.ndarray:
    """So many rows, as evenly over the labels as they allow; all rows for 0."""
    if shots == ALL_ROWS:
        return np.arange(len(targets))
    by_label: dict[Any, list[int]] = {}
    for row in np.random.default_rng([seed, shots]).permutation(len(targets)).tolist():
        by_label.setdefault(targets[row], []).append(row)
    in_turn = [row for turn in range(shots) for rows in by_label.values() for row in rows[turn : turn + 1]]
    return np.array(in_turn[:shots])


def draws_of(shots: int, draws: int) -> range:
    return range(1 if shots == ALL_ROWS else draws)


class Rows:
    """A task's rows: those it may learn from, and those it is scored on."""

    def __init__(self, suite: str, name: str, tokenizer: Any):
        from onepass.data.reading import read_examples
        from onepass.heads import make_kind
        from onepass.tasks import read_task_file
        from onepass.training.sets import path_of, read_set

        file = read_task_file(suite, require=("train", "test"))
        self.item = read_set(file.tasks[name], tokenizer)
        self.task, self.train = self.item.task, self.item.train
        test = read_examples(self.task, path_of(self.task, "test"), make_kind(self.task), tokenizer, self.task.labels)
        self.scored = {"validation": self.item.validation, "test": test}


def linear(suite: str, name: str, encoder: str, given: dict[str, Any]) -> list[Line]:
    """Logistic regressions on the mean states of the pretrained encoder."""
    from onepass.encoder.loading import load_encoder

    network, tokenizer = load_encoder(encoder)
    rows = Rows(suite, name, tokenizer)
    return linear_lines(network.to(device_of(given)), rows, "linear", None, given)


def linear_lines(encoder: Any, rows: Rows, way: str, seed: int | None, given: dict[str, Any]) -> list[Line]:
    """A logistic regression for each draw; without a seed, the draws are what is repeated."""
    train = mean_states(encoder.eval(), rows.train)
    scored = {split: mean_states(encoder, examples) for split, examples in rows.scored.items()}
    lines = []
    for shots in given["shots"]:
        for number in draws_of(shots, given["draws"]):
            chosen = draw(rows.train.targets, shots, number)
            center, spread = train[chosen].mean(0), train[chosen].std() + 1e-6
            weight, bias = logistic_regression((train[chosen] - center) / spread, rows.train.targets[chosen])
            line = {"task": rows.task.name, "seed": number if seed is None else seed, "shots": shots, "draw": number}
            for split, examples in rows.scored.items():
                found = (((scored[split] - center) / spread) @ weight + bias).argmax(1)
                line[split] = 100.0 * float((found == examples.targets).mean())
            lines.append({**line, "way": way})
    return lines


def mean_states(encoder: Any, examples: Any) -> np.ndarray:
    """The mean of the last states of each text's tokens, (R, H)."""
    import torch

    from onepass.data.stream import sorted_batches
    from onepass.encoder.batch import Batch
    from onepass.methods.base import mean_tokens

    found = np.zeros((len(examples), encoder.width), np.float32)
    with torch.inference_mode():
        for rows in sorted_batches(examples.lengths, 512, 4096):
            batch = Batch.of([examples.sequence(row) for row in rows]).to(next(encoder.parameters()).device)
            found[rows] = mean_tokens(encoder(batch), batch.layout).cpu().numpy()
    return found


def logistic_regression(x: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weight (H, C) and bias (C,) of the least sum of losses and half the squared weights, as scikit-learn has it.

    Of two labels it holds one weight, the difference of ours, whose square is twice the sum of ours.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    rows, width, labels = len(x), x.shape[1], int(targets.max()) + 1
    truth, x, penalty = np.eye(labels)[targets], x.astype(np.float64), 2.0 if labels == 2 else 1.0

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight, bias = flat[: width * labels].reshape(width, labels), flat[width * labels :]
        logs = log_softmax(x @ weight + bias, 1)
        error = np.exp(logs) - truth  # (R, C)
        value = -(truth * logs).sum() + 0.5 * penalty * (weight**2).sum()
        return value / rows, np.concatenate([(x.T @ error + penalty * weight).ravel(), error.sum(0)]) / rows

    found = minimize(loss, np.zeros((width + 1) * labels), jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    return found[: width * labels].reshape(width, labels), found[width * labels :]


def finetuned(suite: str, name: str, overrides: Sequence[str], shots: int, number: int) -> list[Line]:
    """The scores of a whole encoder fine-tuned: on few rows for 100 steps of up to 32, on all for 5 epochs.

    Of few rows there are none to choose a checkpoint on, and the last one is kept.
    """
    import pyarrow.parquet

    import onepass
    from onepass.tasks import MethodChoice, read_task_file
    from onepass.training.evaluation import evaluate

    file = read_task_file(suite, [word for word in overrides if not word.startswith(("train.", "method"))])
    task = file.tasks[name]
    options = {"batch_size": 32, "epochs": 5, "encoder_rate": 5e-5, "head_rate": 5e-4, "seed": number}
    options |= {key: value for key, value in file.train.items() if key == "max_length"}  # it reads what the others read
    with tempfile.TemporaryDirectory() as place:
        if shots != ALL_ROWS:
            table = pyarrow.parquet.read_table(task.train)
            targets = np.unique(table[task.label].to_numpy(zero_copy_only=False), return_inverse=True)[1]
            rows = draw(targets, shots, number)
            pyarrow.parquet.write_table(table.take(rows), Path(place) / "rows.parquet")
            batch = min(32, len(rows))
            options |= {"batch_size": batch, "epochs": -(-100 * batch // len(rows)), "average": 0.0, "patience": 0}
            # A share of no row: all of them are learned from.
            task = task.model_copy(update={"train": Path(place) / "rows.parquet", "validation": 1e-9})
        chosen = {"tasks": {name: task}, "method": MethodChoice(name="single"), "train": options}
        model = onepass.train(file.model_copy(update=chosen), progress=False).to(device_of({}))
    alone = file.model_copy(update={"tasks": {name: file.tasks[name]}})
    line: Line = {"task": name, "seed": number, "shots": shots, "draw": number, "way": "finetuned"}
    for split in SPLITS:
        line[split] = float(evaluate(model, alone, split=split)["tasks"][name]["score"])
    return [line]


# --- adding -----------------------------------------------------------------------------------------------------------


def added(suite: str, base: str, name: str, seed: int, given: dict[str, Any]) -> list[Line]:
    """One task added to one base model, in every way and number of rows."""
    import onepass
    from onepass.training.adding import add_options, cached_logits, train_task
    from onepass.training.cache import TextCache
    from onepass.training.evaluation import scores_of
    from onepass.training.sets import TaskSet

    model = onepass.load(base, device_of(given))
    rows = Rows(suite, name, model.tokenizer)
    nothing = rows.train.take(np.zeros(0, np.int64))
    texts = {split: TextCache(model.method, examples) for split, examples in rows.scored.items()}
    lines = linear_lines(model.method.encoder, rows, "linear_on_base", seed, given)
    for shots in given["shots"]:
        for number in draws_of(shots, given["draws"]):
            chosen = rows.train.take(draw(rows.train.targets, shots, number))
            few = TaskSet(rows.task, chosen, nothing if shots != ALL_ROWS else rows.item.validation)
            for way in given["full_ways" if shots == ALL_ROWS else "ways"]:
                train_task(model, few, add_options(options_of(way, seed)), progress=False)
                last = len(model.tasks) - 1
                task, kind = model.tasks[last], model.kinds[last]
                line = {"task": name, "seed": seed, "shots": shots, "draw": number, "way": f"added {way}".strip()}
                for split, examples in rows.scored.items():
                    line[split] = scores_of(task, kind, cached_logits(model, last, texts[split]), examples)["score"]
                lines.append(line)
                model.discard(last)
    return lines


def together(suite: str, folder: str, names: Sequence[str], way: str, seed: int, given: dict[str, Any]) -> list[Line]:
    """The scores of these tasks in a model that was trained on them."""
    import onepass
    from onepass.tasks import read_task_file
    from onepass.training.evaluation import evaluate

    file = read_task_file(suite, require=("train", "test"))
    file = file.model_copy(update={"tasks": {name: file.tasks[name] for name in names}})
    model = onepass.load(folder, device_of(given))
    found = {split: evaluate(model, file, split=split)["tasks"] for split in SPLITS}
    about = {"seed": seed, "shots": ALL_ROWS, "draw": 0, "way": way}
    return [{**about, "task": name, **{split: found[split][name]["score"] for split in SPLITS}} for name in names]


def options_of(way: str, seed: int) -> dict[str, Any]:
    """How to add, from words like `epochs=8 start=fresh`."""
    from onepass.plain_yaml import parse

    return {
        "seed": seed,
        **{key: parse(value).value for key, _, value in (word.partition("=") for word in way.split())},
    }


def device_of(given: dict[str, Any]) -> str:
    import torch

    torch.set_num_threads(1)
    return given.get("device") or ("cuda" if torch.cuda.is_available() else "cpu")


# --- doing it all side by side ----------------------------------------------------------------------------------------


class Pool:
    """Processes side by side, and the file that gets their lines; what is in the file is not done again."""

    def __init__(self, jobs: int, results: Path):
        os.environ |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
        self.processes = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
        self.results = results
        end_last_line(results)
        self.done = {line["unit"] for line in read_lines(results)}
        self.failed = 0
        self.running: dict[Future[list[Line]], str] = {}

    def submit(self, what: Any, *arguments: Any) -> None:
        unit = json.dumps([what.__name__, *arguments])
        if unit not in self.done:
            self.running[self.processes.submit(what, *arguments)] = unit

    def wait(self) -> Any:
        """Keep the lines of what is ready and say which it was, until nothing runs; more may be submitted meanwhile."""
        while self.running:
            future = next(as_completed(self.running))
            unit = self.running.pop(future)
            if error := future.exception():  # the others go on; the same command does this one again
                say(f"FAILED {unit[:120]}: {error!r}")
                self.failed += 1
                continue
            with self.results.open("a", encoding="utf-8") as file:  # all lines at once: a unit is done or not
                file.write("".join(json.dumps({**line, "unit": unit}) + "\n" for line in future.result()))
            say(f"{len(self.running)} to do; done: {unit[:120]}")
            yield json.loads(unit)


def run(given: argparse.Namespace) -> None:
    """The stages asked for; what waits for a model begins when the model is there."""
    out, names = Path(given.out), given.tasks or list(HELD_OUT)
    out.mkdir(parents=True, exist_ok=True)
    stages = given.stages
    pool = Pool(given.jobs, out / "results.jsonl")
    bases = given.base or [str(out / f"base-{seed}") for seed in range(given.seeds)]
    others = given.all or [str(out / f"all-{seed}") for seed in range(given.seeds)]
    about = {"shots": given.shots, "draws": given.draws, "device": given.device}
    ways = {**about, "ways": given.ways, "full_ways": given.full_ways}

    kept = [name for name in task_names(given.suite) if name not in names]

    def submit_added(folder: str) -> None:
        if "add" in stages and (Path(folder) / "MANIFEST.json").is_file():
            parts = [[count for count in given.shots if (count == ALL_ROWS) == full] for full in (True, False)]
            for name, shots in product(names if folder in bases else (), filter(None, parts)):
                pool.submit(added, given.suite, folder, name, bases.index(folder), {**ways, "shots": shots})
            if folder in others:
                pool.submit(together, given.suite, folder, names, "together", others.index(folder), about)
                pool.submit(together, given.suite, folder, kept, "others_together", others.index(folder), about)
            elif ALL_ROWS in given.shots:
                pool.submit(together, given.suite, folder, kept, "others_base", bases.index(folder), about)

    for folder in [*bases, *others]:
        seed, without = (bases.index(folder), names) if folder in bases else (others.index(folder), [])
        if "train" in stages and not (Path(folder) / "MANIFEST.json").is_file():
            pool.submit(train_model, given.suite, folder, without, seed, given.options)
        submit_added(folder)
    if "alone" in stages:
        encoder = next((word.partition("=")[2] for word in given.options if word.startswith("encoder=")), "embedded")
        for name in names:
            pool.submit(linear, given.suite, name, encoder, about)
            for shots in given.shots:
                for number in range(given.draws):
                    pool.submit(finetuned, given.suite, name, given.options, shots, number)
    for what, *arguments in pool.wait():
        if what == "train_model":
            submit_added(arguments[1])
    pool.processes.shutdown()
    show(given)
    if pool.failed:
        sys.exit(f"{pool.failed} failed, and are in no mean. The same command tries them again.")


# --- showing ----------------------------------------------------------------------------------------------------------


def summarise(lines: Sequence[Line], split: str) -> list[Line]:
    """By way and number of rows, the mean over tasks and draws, and its spread over seeds."""
    groups: dict[tuple[str, int], list[Line]] = {}
    for line in lines:
        groups.setdefault((line["way"], line["shots"]), []).append(line)
    found = []
    for (way, shots), group in groups.items():
        seeds = [np.mean([li[split] for li in group if li["seed"] == seed]) for seed in {li["seed"] for li in group}]
        names = sorted({line["task"] for line in group})
        tasks = {name: float(np.mean([line[split] for line in group if line["task"] == name])) for name in names}
        spread = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else 0.0
        about = {"way": way, "shots": shots, "seeds": len(seeds), "scores": len(group)}
        found.append({**about, "mean": float(np.mean(seeds)), "spread": spread, "tasks": tasks})
    return sorted(found, key=lambda row: (row["way"], row["shots"] or 10**9))


def show(given: argparse.Namespace) -> None:
    rows = summarise(list(read_lines(Path(given.out) / "results.jsonl")), given.split)
    if given.json:
        print(json.dumps({"split": given.split, "rows": rows}, indent=2))
        return
    shots = sorted({row["shots"] for row in rows}, key=lambda count: count or 10**9)
    cells = {(row["way"], row["shots"]): f"{row['mean']:.2f} ± {row['spread']:.2f} ({row['scores']})" for row in rows}
    print(f"| {given.split} | " + " | ".join("all rows" if count == ALL_ROWS else str(count) for count in shots) + " |")
    print("|---" * (len(shots) + 1) + "|")
    for way in dict.fromkeys(row["way"] for row in rows):
        print(f"| {way} | " + " | ".join(cells.get((way, count), "") for count in shots) + " |")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="+", choices=("train", "alone", "add", "show"))
    parser.add_argument("--suite", help="a task file with test files")
    parser.add_argument("--out", default="runs/few_shot", help="the folder for models and results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--device", default="", help="cpu or cuda, for all but training; a GPU if there is one")
    parser.add_argument("--tasks", nargs="*", default=[], help="the tasks that come later; the seven of nhc41")
    parser.add_argument(
        "--options", nargs="*", default=[], metavar="KEY=VALUE",
        help="of train: train.epochs=5; encoder=FOLDER also of alone",
    )  # fmt: skip
    parser.add_argument("--base", nargs="*", default=[], help="base models, one for each seed")
    parser.add_argument("--all", nargs="*", default=[], help="models trained with all tasks, one for each seed")
    parser.add_argument("--shots", nargs="*", type=int, default=[8, 16, 64, ALL_ROWS], help="rows; 0: all")
    parser.add_argument("--draws", type=int, default=3, help="different draws of few rows; repeats of fine-tuning")
    parser.add_argument("--ways", nargs="*", default=[""], help="options of onepass add, for few rows")
    parser.add_argument("--full-ways", nargs="*", default=[""], help="options of onepass add, for all rows")
    parser.add_argument("--split", choices=SPLITS, default="test", help="what is shown")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    (show if given.stages == ["show"] else run)(given)


if __name__ == "__main__":
    main()
