"""The options of a training, as the `train:` part of a task file gives them."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_origin

from onepass.data.samplers import make_sampler
from onepass.errors import ConfigError, unknown
from onepass.tasks import TaskFile


@dataclass(frozen=True)
class TrainOptions:
    """How to train. Every field can be set in the task file or as `key=value` on the command line."""

    epochs: int = 8
    """Passes over all tasks' rows together"""
    batch_size: int = 64
    """Rows of a step, of all tasks mixed"""
    batch_tokens: int = 8192
    """Tokens of a step at most; long texts make batches of fewer rows"""
    encoder_rate: float = 1e-4
    """Learning rate of the encoder"""
    token_rate: float = 3e-4
    """Learning rate of the tasks' own input tokens: readers, prompts"""
    head_rate: float = 2e-4
    """Learning rate of poolers, heads and what else a method adds"""
    freeze: Literal["none", "embeddings"] = "none"
    """What of the encoder does not learn: `embeddings` are its tables of words, positions and types"""
    warmup: float = 0.1
    """Share of the training over which the rates rise; then they fall to zero"""
    weight_decay: float = 0.01
    """Decay of weight matrices; norms and biases are left alone"""
    clip: float = 1.0
    """Largest norm of a step's gradient"""
    average: float = 0.99
    """Keep a running mean of the weights instead of the last ones; 0.99 is about the mean of 100 steps, 0: none"""
    dropout: float = 0.1
    """Dropout before the heads"""
    max_length: int = 128
    """Tokens of a text (or of a pair together) that are read"""
    sampler: str | dict[str, Any] = "proportional"
    """How an epoch is divided among tasks: proportional, uniform, square_root, annealed"""
    select: Literal["mean", "worst", "weighted"] = "mean"
    """What the kept checkpoint is best in on validation: the mean, the worst task, or the mean by the tasks' weights"""
    evaluate_every: float = 1.0
    """Epochs between two evaluations on validation; parts of an epoch are possible"""
    patience: int = 0
    """Stop after so many evaluations without a better one; 0: never"""
    checkpoint_every_s: float = 300.0
    """Seconds between two checkpoints for --resume; they are written after evaluations"""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Numbers to compute in; auto is bf16 on a GPU and fp32 elsewhere"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train: auto, cpu, cuda"""
    seed: int = 0
    """Seed of everything that is drawn"""


# What is possible where it is not any number from 0: the least and the most.
LIMITS: dict[str, tuple[float, float]] = {
    "epochs": (1, math.inf),
    "batch_size": (1, math.inf),
    "batch_tokens": (1, math.inf),
    "warmup": (0, 1),
    "average": (0, 0.9999),  # at 1 the untrained weights would never be forgotten
    "dropout": (0, 0.9),
    "max_length": (8, math.inf),
    "evaluate_every": (0.01, math.inf),
    "seed": (0, 2**32 - 1),
}


def train_options(values: dict[str, Any]) -> TrainOptions:
    """The options from plain values that `check_train` found no fault in."""
    return TrainOptions(**values)


def check_train(file: TaskFile) -> list[str]:
    """Faults in the `train:` part of a task file."""
    known = {item.name: item for item in fields(TrainOptions)}
    faults = []
    for key, value in file.train.items():
        if key not in known:
            faults.append(f"train: {unknown('option', key, known)}")
        elif wanted := _mismatch(key, value, known[key].type):
            faults.append(f"train.{key} is {value!r}; possible: {wanted}.")
    try:
        sampler_of(file.train.get("sampler", "proportional"))
    except ConfigError as error:
        faults.append(f"train.sampler: {error}")
    return faults


def sampler_of(value: Any) -> Any:
    """A sampler from its name, or from a mapping with `name` and options."""
    options = (
        {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, dict) else {"name": repr(value)}
    )
    return make_sampler(options.pop("name", "proportional"), **options)


def _mismatch(key: str, value: Any, kind: Any) -> str | None:
    """What was wanted, if the value is not of the field's sort."""
    if get_origin(kind) is Literal:
        return None if value in get_args(kind) else ", ".join(map(str, get_args(kind)))
    if kind not in (int, float):
        return None
    least, most = LIMITS.get(key, (0, math.inf))
    right = type(value) is int if kind is int else type(value) in (int, float)
    if right and least <= value <= most and math.isfinite(value):
        return None
    to = "" if math.isinf(most) else f" to {most}"
    return f"a {'whole number' if kind is int else 'number'} from {least}{to}"
