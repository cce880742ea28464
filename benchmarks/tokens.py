"""What it costs `readers` to answer a tagging task in the same pass: the time of a pass with it, over one without.

    python benchmarks/tokens.py [--tasks 8] [--rows 8] [--tokens 128] [--rounds 15]

Untrained tasks on the embedded encoder. The two passes take turns, and the shortest of each counts; one JSON object.
"""

import argparse
import json
import time

import numpy as np
import torch

from onepass.encoder.batch import Batch
from onepass.encoder.loading import load_encoder
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import MethodChoice, Task


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (("tasks", 8), ("rows", 8), ("tokens", 128), ("rounds", 15)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(1)
    encoder, tokenizer = load_encoder("embedded")
    model = Model(make_method("readers", encoder), tokenizer, MethodChoice(name="readers"), "embedded").eval()
    for number in range(options.tasks):
        model.add(Task(name=f"task-{number}", text="text", label="label", labels=["no", "yes"]))
    tags = [f"{part}-{label}" for label in ("person", "place", "group", "work") for part in "BI"]
    model.add(Task(name="names", kind="tagging", text="tokens", label="tags", labels=[*tags, "O"]))
    ids = np.random.default_rng(0).integers(1000, 20000, (options.rows, options.tokens))
    batch = Batch.of([(row, np.zeros(options.tokens, int)) for row in ids])
    plain = list(range(options.tasks))
    passes = {"plain": lambda: encoder(batch), "without": plain, "with": [*plain, options.tasks]}
    best = dict.fromkeys(passes, float("inf"))
    with torch.inference_mode():
        for _ in range(options.rounds):
            for name, asked in passes.items():
                start = time.perf_counter()
                asked() if callable(asked) else model.logits(batch, asked)
                best[name] = min(best[name], time.perf_counter() - start)
    ratios = {f"{name}_to_plain": round(best[name] / best["plain"], 3) for name in ("without", "with")}
    print(json.dumps(vars(options) | ratios | {"with_to_without": round(best["with"] / best["without"], 3)}))


if __name__ == "__main__":
    main()
