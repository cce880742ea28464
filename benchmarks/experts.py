"""The cost of a training step with experts against one without, measured in turns in one run.

    python benchmarks/experts.py [--experts 4] [--rows 32] [--tokens 128] [--steps 12] [--encoder FOLDER]

A step is forward, backward and optimiser on rows of 8 tasks, in bf16 on a GPU and in fp32 elsewhere. The result is one
JSON object: the medians in ms, and their ratio.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

from onepass.encoder.batch import Batch
from onepass.encoder.loading import load_encoder
from onepass.methods import make_method
from onepass.model import Model
from onepass.tasks import MethodChoice, Task
from onepass.training.objective import Objective
from onepass.training.optimizer import make_optimizer
from onepass.training.options import TrainOptions

TASKS = 8


def stepper(source: str, rows: int, tokens: int, device: str, **options: object) -> Callable[[], None]:
    """A function that makes one training step of MT-TaG with these options."""
    torch.manual_seed(0)
    encoder, tokenizer = load_encoder(source, max_length=max(tokens, 16))
    method = make_method("mttag", encoder, options)
    model = Model(method, tokenizer, MethodChoice(name="mttag", options=options), source)
    for number in range(TASKS):
        model.add(Task(name=f"task-{number}", text="text", label="label", labels=["no", "yes"]))
    model.to(device).train()
    chosen = TrainOptions()
    objective, optimizer = Objective(model, None, chosen), make_optimizer(method, model.heads, chosen)
    ids = torch.randint(1000, encoder.config.vocab_size, (rows, tokens)).tolist()
    batch = Batch.of([(row, [0] * tokens) for row in ids]).to(device)
    asked = (torch.arange(rows) % TASKS).unsqueeze(1)
    targets = [row % 2 for row in range(rows)]

    def step() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = objective(batch, asked, targets).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def timed(step: Callable[[], None], device: str) -> float:
    start = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("experts", 4), ("rows", 32), ("tokens", 128), ("steps", 12)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--encoder", default="embedded")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kinds = {"dense": {"gate": "dense"}, "experts": {"experts": given.experts}}
    sizes = (given.encoder, given.rows, given.tokens, device)
    steps = {name: stepper(*sizes, **options) for name, options in kinds.items()}
    found: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(given.steps + 2):
        for name, step in steps.items():
            took = timed(step, device)
            if turn >= 2:  # the first two warm up
                found[name].append(took)
    medians = {name: statistics.median(times) for name, times in found.items()}
    ratio = statistics.median(b / a for a, b in zip(found["dense"], found["experts"], strict=True))
    print(
        json.dumps(
            {
                "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
                **vars(given),
                "dense_ms": round(medians["dense"], 2),
                "experts_ms": round(medians["experts"], 2),
                "ratio": round(ratio, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
