"""What training costs: time per row as the number of tasks grows, and memory."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepass.errors import ConfigError, OnepassError, listed

if TYPE_CHECKING:
    from numpy.random import Generator

    from onepass.tasks import MethodChoice

STEPS, ROWS, TOKENS = 12, 32, 24


def cost_per_row(method: str, tasks: Sequence[int], encoder: str = "embedded", steps: int = STEPS) -> dict[str, Any]:
    """Time of a training step, by number of tasks, on the same random rows; models take turns step by step.

    Every row asks a task drawn at random, as in a mixed batch of equally large tasks.
    """
    import numpy as np

    trainers = {count: _trainer(method, count, encoder, np.random.default_rng(0)) for count in tasks}
    times: dict[int, list[float]] = {count: [] for count in tasks}
    for step in range(steps + 2):
        for count, run in trainers.items():
            start = time.perf_counter()
            run(step)
            if step >= 2:  # the first steps warm up
                times[count].append(1000 * (time.perf_counter() - start) / ROWS)
    medians = {count: statistics.median(found) for count, found in times.items()}
    first = medians[tasks[0]]
    return {
        "method": method,
        "steps": steps,
        "rows_a_step": ROWS,
        "tokens_a_row": TOKENS,
        "rows": [{"tasks": count, "ms_a_row": ms, "ratio": ms / first} for count, ms in medians.items()],
    }


def _trainer(method: str, num_tasks: int, source: str, generator: Generator) -> Callable[[int], None]:
    """A function that makes one training step of a new model with so many two-label tasks."""
    import numpy as np

    from onepass.data.examples import Examples
    from onepass.encoder.loading import load_encoder
    from onepass.methods import make_method
    from onepass.model import Model
    from onepass.tasks import Task
    from onepass.training.average import RunningMean
    from onepass.training.loop import Trainer
    from onepass.training.losses import TaskLosses
    from onepass.training.objective import Objective
    from onepass.training.optimizer import make_optimizer
    from onepass.training.options import TrainOptions
    from onepass.training.sets import TaskSet

    choice = _choice(method, num_tasks)
    encoder, tokenizer = load_encoder(source)
    model = Model(make_method(choice.name, encoder, choice.options), tokenizer, choice, source)
    options, sets = TrainOptions(device="cpu"), []
    rows = STEPS * ROWS
    for number in range(num_tasks):
        task = Task(name=f"task-{number}", text=("text",), label="label", labels=("no", "yes"))
        words = encoder.config.vocab_size
        ids = generator.integers(min(1000, words // 2), words, rows * TOKENS).astype(np.int32)
        firsts, zeros = np.full(rows, TOKENS, np.int32), np.zeros(rows, np.int64)
        offsets = np.arange(rows + 1, dtype=np.int64) * TOKENS
        examples = Examples(
            ids, offsets, firsts, generator.integers(0, 2, rows), zeros, zeros.astype(np.uint64), zeros > 0
        )
        sets.append(TaskSet(task, examples, examples.take(np.zeros(0, np.int64))))
        model.add(task)
    trainer = Trainer(model, sets, options, progress=False)
    optimizer = make_optimizer(model.method, model.heads, options)
    losses_of, losses = Objective(model.train(), None, options), TaskLosses()
    mean = RunningMean([p for group in optimizer.param_groups for p in group["params"]], options.average)
    asked = generator.integers(0, num_tasks, (STEPS + 2, ROWS))

    def step(number: int) -> None:
        pairs = [(int(task), number * ROWS + i) for i, task in enumerate(asked[number])]
        trainer.step(losses_of, optimizer, [(task, row % rows) for task, row in pairs], losses, mean)

    return step


def _choice(method: str, num_tasks: int) -> MethodChoice:
    """A method as `bench accuracy` takes it, with what a training of so many tasks would choose."""
    from onepass.methods import method_faults, settle_method
    from onepass.plain_yaml import parse
    from onepass.tasks import MethodChoice

    name, _, words = method.partition(":")
    pairs = (word.partition("=") for word in words.split(",") if word)
    choice = MethodChoice(name=name, options={key: parse(value).value for key, _, value in pairs})
    if faults := method_faults(choice, num_tasks):
        raise ConfigError(listed(faults))
    return settle_method(choice, num_tasks)


def peak_memory(suite: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The high-water mark of a process that trains on a suite, on the CPU."""
    code = "import sys; from onepass.bench.training import train_and_measure; train_and_measure(*sys.argv[1:])"
    command = [sys.executable, "-c", code, suite, "train.device=cpu", *overrides]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise OnepassError(f"The training on {suite} failed:\n{ran.stderr.strip()[-3000:]}")
    return {"suite": suite, "overrides": list(overrides), "peak_mb": float(ran.stdout.split()[-1])}


def train_and_measure(suite: str, *overrides: str) -> None:
    """Train in this process, then write the most memory it ever held, in MB."""
    from onepass.training import train

    try:
        train(suite, overrides=overrides, progress=False)
    except OnepassError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{most_held_mb():.0f}\n")


def most_held_mb() -> float:
    """The most memory that this process held; Linux's ru_maxrss begins at what the process had that started it."""
    try:
        return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
