"""One table over methods on a suite: accuracy over seeds, passes, weights, multiplications and time per text.

Accuracy comes from trainings (see accuracy.py). Cost and time are those of untrained models of the same shape: they
do not depend on what was learned. Times are relative to a plain pass of the encoder, which takes turns with the method.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onepass.analysis.spread import score_spread
from onepass.bench.accuracy import one_recipe, plan, summarise
from onepass.bench.runs import Run, read_suite, run_all
from onepass.errors import ConfigError

if TYPE_CHECKING:
    from onepass.model import Model

TEXTS = {"cuda": 32, "cpu": 4}  # of a pass that is timed
REPEATS = {"cuda": 15, "cpu": 5}
WARM_UP = 2


def compare(
    suite: str,
    methods: Sequence[str],
    *,
    seeds: int = 3,
    overrides: Sequence[str] = (),
    output: Path = Path("runs/methods.jsonl"),
    jobs: int = 1,
    tokens: int = 128,
    progress: bool = False,
    limit_s: float | None = None,
) -> dict[str, Any]:
    """The table's rows: those of `summarise`, with each method's cost and relative time; without seeds these alone."""
    overrides, methods = one_recipe(suite, overrides), list(dict.fromkeys(methods))
    runs = plan(suite, methods, max(seeds, 1), overrides)
    check_tokens(read_suite(runs[0]).encoder, tokens)
    if seeds:
        summary = summarise(run_all(runs, output, jobs, progress, limit_s))
    else:
        runs, summary = [], {"suite": Path(suite).stem, "rows": [{"method": name, "seeds": 0} for name in methods]}
    summary["done"], summary["planned"] = sum(row["seeds"] for row in summary["rows"]), len(runs)
    for row in summary["rows"]:
        if "tasks" in row:
            row["deviation"] = score_spread(row["tasks"]).deviation
            row["scores"] = row.pop("tasks")  # the cost has a number of tasks
        row |= cost_and_time(Run(suite, row["method"], 0, tuple(overrides)), tokens)
    return summary


def check_tokens(encoder: str, tokens: int) -> None:
    """Raise, before anything is trained, if texts of so many tokens are too long for an encoder that is here."""
    from onepass.encoder.loading import known_config

    known = known_config(encoder)
    if known is not None and tokens > known.capacity:
        raise ConfigError(
            f"--tokens is {tokens}, but {encoder} has positions for {known.capacity} tokens. Give --tokens "
            f"{known.capacity}, or less."
        )


def cost_and_time(run: Run, tokens: int = 128) -> dict[str, Any]:
    """What a run's method costs with the suite's number of tasks, and its time relative to a plain pass."""
    import torch

    from onepass.analysis.cost import cost_of, untrained_model
    from onepass.encoder.loading import load_encoder

    file = read_suite(run)
    encoder, tokenizer = load_encoder(file.encoder, max_length=tokens)
    model = untrained_model(file.method.name, encoder, tokenizer, len(file.tasks), file.method.options)
    cost = cost_of(model, tokens)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return cost.to_dict() | {"time": relative_time(model.to(device), tokens), "device": device}


def relative_time(model: Model, tokens: int = 128) -> float:
    """The time in which all tasks are answered for some texts, in plain passes over them; the median of turns."""
    import torch

    from onepass.analysis.cost import all_tasks, random_texts

    batch = random_texts(model.method.encoder, tokens, TEXTS[model.device.type]).to(model.device)
    asked = all_tasks(model, batch)
    on_gpu = model.device.type == "cuda"
    ratios = []
    half = torch.autocast("cuda", torch.bfloat16) if on_gpu else nullcontext()
    with torch.inference_mode(), half:
        for turn in range(WARM_UP + REPEATS[model.device.type]):
            plain = _seconds(lambda: model.method.encoder(batch), on_gpu)
            whole = _seconds(lambda: model(batch, asked), on_gpu)
            if turn >= WARM_UP:
                ratios.append(whole / plain)
    return statistics.median(ratios)


def _seconds(call: Callable[[], Any], on_gpu: bool) -> float:
    import torch

    if on_gpu:
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if on_gpu:
        torch.cuda.synchronize()
    return time.perf_counter() - start
