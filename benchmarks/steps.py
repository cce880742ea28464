"""What a training step costs beside the arithmetic: operations dispatched, reads that wait for a device, CPU time.

    python benchmarks/steps.py [--tasks 8] [--rows 64] [--width 16] [--precision bf16] [--lines 20]
        [--against OTHER/src]

`readers` on an encoder of six layers and this width, in bf16 autocast or in fp32, with sequences grouped as on a GPU.
Operations are those of forward, backward, clipping, optimiser and bookkeeping. There is no dropout in attention, since
the CPU has no kernel with it and would count a dozen operations where a GPU has one.
`--lines` names the lines that dispatch most in the forward; the backward is counted as the line that starts it.
`--against` runs this version and another in turns, a process each, `--rounds` times, and compares their times.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer as RawTokenizer
from tokenizers import models, pre_tokenizers, processors
from torch.utils._python_dispatch import TorchDispatchMode

import onepass
from onepass.encoder import batch
from onepass.encoder.config import EncoderConfig
from onepass.encoder.loading import random_encoder
from onepass.encoder.tokenizer import Tokenizer
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import MethodChoice, Task
from onepass.training.loop import Trainer
from onepass.training.options import train_options
from onepass.training.sets import read_set

WAITS = ("_local_scalar_dense", "nonzero", "_unique2", "masked_select")
WORDS = ("[", "]", "?", "goal", "vote", "match", "late")
WARM, TIMED = 5, 40
"""Steps before the first that counts, and steps that are timed"""


class Operations(TorchDispatchMode):
    """Counts operations by name, and by the line of the package that made them."""

    def __init__(self, lines: bool):
        super().__init__()
        self.names: Counter[str] = Counter()
        self.lines: Counter[str] | None = Counter() if lines else None

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[function.overloadpacket.__name__] += 1
        if self.lines is not None:
            package = str(Path(onepass.__file__).parent)
            own = [frame for frame in traceback.extract_stack() if frame.filename.startswith(package)]
            self.lines["/".join(own[-1].filename.rsplit("/", 2)[1:]) + f":{own[-1].lineno}"] += 1
        return function(*args, **(kwargs or {}))


class Enough(Exception):
    """All steps were seen."""


class Watched(Trainer):
    """Counts one step and times others."""

    lines = False
    taken = 0

    def __init__(self, *rest: Any, **options: Any):
        super().__init__(*rest, **options)
        self.times: list[float] = []

    def step(self, *rest: Any) -> bool:
        self.taken += 1
        if self.taken == WARM:
            with Operations(self.lines) as self.operations:
                return super().step(*rest)
        if self.taken > WARM + TIMED:
            raise Enough
        started = time.process_time()
        ok = super().step(*rest)
        if self.taken > WARM:
            self.times.append(1000 * (time.process_time() - started))
        return ok


def trainer(folder: Path, num_tasks: int, rows: int, precision: str, width: int) -> Watched:
    """A training of so many tasks: the first eight of two labels, then every other one of more."""
    raw = RawTokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="?"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(single="[ $A ]", special_tokens=[("[", 0), ("]", 1)])
    tokenizer = Tokenizer(raw, max_length=16)
    config = EncoderConfig(
        family="bert", vocab_size=tokenizer.vocab_size, width=width, depth=6, heads=max(2, width // 32),
        ffn_width=4 * width, max_positions=64, type_vocab=2, attention_dropout=0.0,
    )  # fmt: skip
    model = Model(make_method("readers", random_encoder(config), {}), tokenizer, MethodChoice(name="readers"), "random")
    draw = np.random.default_rng(0)
    each = -(-2 * (WARM + TIMED) * rows // num_tasks)
    sets = []
    for number in range(num_tasks):
        labels = 2 if number < 8 or number % 2 else number
        texts = (" ".join(draw.choice(WORDS[3:], draw.integers(1, 4))) for _ in range(each))
        lines = [f"{text} {place},label {place % labels}" for place, text in enumerate(texts)]
        file = folder / f"{number}.csv"
        file.write_text("\n".join(["text,label", *lines]))
        sets.append(
            read_set(Task(name=f"task_{number}", text="text", label="label", train=file, validation=0.1), tokenizer)
        )
        model.add(sets[-1].task, sets[-1].train)
    options = {"precision": precision, "batch_size": rows, "device": "cpu", "evaluate_every": 9, "epochs": 9}
    return Watched(model, sets, train_options(options), progress=False)


def measured(num_tasks: int, rows: int, precision: str, width: int, lines: int) -> dict[str, Any]:
    """One training's figures."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for limits in (batch.SHARE, batch.SMALL):
        limits["cpu"] = limits["cuda"]
    with tempfile.TemporaryDirectory() as folder:
        watched = trainer(Path(folder), num_tasks, rows, precision, width)
    watched.lines = bool(lines)
    with suppress(Enough):
        watched.run()
    names = watched.operations.names
    found = {"tasks": num_tasks, "rows": rows, "operations": sum(names.values()), "casts": names["_to_copy"]}
    found |= {"waits": sum(names[name] for name in WAITS), "ms": round(float(np.median(watched.times)), 1)}
    if lines:
        found |= {"names": dict(names.most_common(lines)), "lines": dict(watched.operations.lines.most_common(lines))}
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (("tasks", 8), ("rows", 64), ("width", 16), ("lines", 0), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16")
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    if options.against is None:
        print(json.dumps(measured(options.tasks, options.rows, options.precision, options.width, options.lines)))
        return
    command = [sys.executable, __file__, "--tasks", str(options.tasks), "--rows", str(options.rows)]
    command += ["--precision", options.precision, "--width", str(options.width)]
    found: dict[str, list[dict[str, Any]]] = {"this": [], "other": []}
    sources = {"this": Path(onepass.__file__).parents[1], "other": options.against}
    for _ in range(options.rounds):
        for name, source in sources.items():
            ran = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(source)}, check=True, capture_output=True)
            found[name].append(json.loads(ran.stdout))
    ratios = [this["ms"] / other["ms"] for this, other in zip(found["this"], found["other"], strict=True)]
    print(json.dumps({name: runs[0] | {"ms": [run["ms"] for run in runs]} for name, runs in found.items()}))
    print(json.dumps({"this_to_other": [round(ratio, 3) for ratio in sorted(ratios)]}))


if __name__ == "__main__":
    main()
