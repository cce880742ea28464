"""The options of a training, as the `train:` part of a task file gives them."""

import math
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from onepass.contents import read_tasks
from onepass.data.samplers import SAMPLERS, Sampler, make_sampler
from onepass.errors import ConfigError, OnepassError, unknown
from onepass.methods import METHODS
from onepass.tasks import TaskFile
from onepass.training.baseline import read_baseline
from onepass.training.presets import PRESETS, with_preset

Criterion = Literal["mean", "worst", "weighted"]
TAUGHT_TIMES = 1.5  # better than 1 on the validation rows of nhc8 and content, see benchmarks/LOG.md


@dataclass(frozen=True)
class SelectOptions:
    """Which checkpoint to keep, where no task shall fall too far under what it reaches in a model of its own."""

    baseline: str
    """A folder of a model per task (its validation scores count), or a JSON file {TASK: SCORE, ...} in percent"""
    floor: float = 1.0
    """How many points a task may be under its baseline"""
    by: Criterion = "mean"
    """What decides between checkpoints in which no task is further under it"""


@dataclass(frozen=True)
class DistillOptions:
    """How to learn from trained models' answers to the training texts, beside the labels."""

    teachers: str | list[str]
    """A model folder, or several; where more than one knows a task, the mean of their logits is learned"""
    weight: float = 0.5
    """The teachers' part of the loss of a labelled row; the label has the rest"""
    temperature: float = 2.0
    """Both sides' logits are divided by it, so that more is learned of what the teacher holds for unlikely"""
    anneal: bool = False
    """Whether the teachers' part falls to nothing over the training (arXiv:1907.04829)"""
    all_texts: bool = False
    """Whether every text is also asked other tasks, with the teacher's answer in place of a label"""
    others: int = 8
    """How many other tasks a text is asked at most with all_texts, drawn anew each time; 0: all of them"""
    others_weight: float = 1.0
    """What these together weigh beside the text's own task"""


@dataclass(frozen=True)
class FinetuneOptions:
    """How to fine-tune each task from the model that was trained on all of them."""

    epochs: int = 2
    """Passes over the task's rows"""
    encoder_rate: float = 3e-5
    """Learning rate of the task's own encoder"""
    token_rate: float = 1e-4
    """Learning rate of the task's own input tokens"""
    head_rate: float = 1e-4
    """Learning rate of its pooler, head and what else the method has"""
    evaluate_every: float = 0.5
    """Epochs between two evaluations on validation"""


@dataclass(frozen=True)
class TrainOptions:
    """How to train. Every field can be set in the task file or as `key=value` on the command line."""

    preset: str = "default"
    """A named set of options, over which those given here win: default, fast, best"""
    epochs: int = 0
    """Passes over all tasks' rows together; 0: by their number, 16 for 800 rows, 8 for 12,000, 4 for 200,000, and half
    as many again for who learns from teachers"""
    effort: float = 1.0
    """Times the passes that are chosen so, where epochs is 0"""
    batch_size: int = 0
    """Rows of a step; 0: 64, and 128 from 30,000 rows on"""
    batches: Literal["mixed", "task"] = "mixed"
    """Whether a step has rows of all tasks, or of one, as MTOP and CA-MTL's rivals are trained"""
    batch_tokens: int = 8192
    """Tokens of a step at most; long texts make batches of fewer rows"""
    encoder_rate: float = 1e-4
    """Learning rate of the encoder"""
    token_rate: float = 3e-4
    """Learning rate of the tasks' own input tokens: readers, prompts"""
    head_rate: float = 2e-4
    """Learning rate of poolers, heads and what else a method adds"""
    layer_decay: float = 1.0
    """The rate of each layer of the encoder is this share of the rate of the layer above it; 1: one rate for all"""
    frozen_epochs: int = 0
    """Epochs with a fixed encoder before all learns, in which poolers, heads and tokens find their place"""
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
    sampler: str | dict[str, Any] = "square_root"
    """Which rows are trained on: proportional, uniform, square_root, annealed, uncertainty"""
    select: Criterion | SelectOptions = "mean"
    """What the kept checkpoint is best in on validation: the mean, the worst task, the mean by the tasks' weights, or
    {floor: 1, baseline: FOLDER}: the mean where no task is more than so far under its own model's score"""
    loss_scale: Literal["none", "log_classes"] = "none"
    """`log_classes` divides a task's losses by the logarithm of its number of outputs; none: as the method does"""
    rdrop: float = 0.0
    """Weight of the distance between two passes with different dropout (R-Drop); a step then costs twice as much"""
    soup: int = 1
    """Trainings from the same start over the rows in other orders, whose weights are averaged (arXiv:2203.05482)"""
    teachers: int | None = None
    """Trainings with other seeds whose mean answers are learned beside the labels; null: what the method is best with
    on a GPU, 0 on a CPU"""
    task_teachers: int = 0
    """Trainings of a model for each task by itself, whose answers are learned too; these need a pass and a model's
    room on the disk for every task while they last"""
    teacher_encoder: str | None = None
    """The encoder of these trainings, where a larger one shall teach: a folder or a hub name; none: the model's own"""
    distill: DistillOptions | None = None
    """Learn from trained models beside the labels: {teachers: FOLDER, weight: 0.5, temperature: 2, ...}"""
    finetune: FinetuneOptions | None = None
    """Fine-tune each task from the model of all tasks, as its own copy, which costs a pass a task: {epochs: 2, ...}"""
    evaluate_every: float = 1.0
    """Epochs between two evaluations on validation; parts of an epoch are possible"""
    patience: int = 0
    """Stop after so many evaluations without a better one; 0: never"""
    freeze_done: int = 0
    """A task's own weights stop learning after so many evaluations without a better score of its own; 0: never"""
    checkpoint_every_s: float = 300.0
    """Seconds between two checkpoints for --resume; they are written after evaluations"""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Numbers to compute in; auto is bf16 where it is faster, on GPUs and on some CPUs, and fp32 elsewhere"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train: auto, cpu, cuda"""
    seed: int = 0
    """Seed of everything that is drawn"""

    def sized(self, rows: int, taught: bool = False) -> "TrainOptions":
        """The options with what depends on the number of training rows, and on being `taught`, filled in.

        Few rows need more passes for enough steps (arXiv:2006.04884), many need fewer. Who learns from teachers does
        not learn labels by heart so soon and gains from more.
        """
        times = self.effort * (TAUGHT_TIMES if taught else 1.0)
        return replace(
            self,
            epochs=self.epochs or max(2, round(times * min(20.0, 85.0 / max(rows, 1) ** 0.25))),
            batch_size=self.batch_size or (64 if rows < 30_000 else 128),
        )


LEAST_EFFORT = 0.1
BOUNDLESS = 2**53  # whole numbers from here on are too large to be computed with, and no option means anything
# What is possible where it is not any number from 0: the least and the most.
LIMITS: dict[str, tuple[float, float]] = {
    "batch_tokens": (1, math.inf),
    "effort": (LEAST_EFFORT, 10),
    "warmup": (0, 1),
    "average": (0, 0.9999),  # at 1 the untrained weights would never be forgotten
    "dropout": (0, 0.9),
    "layer_decay": (0.01, 1),
    "soup": (1, 100),
    "teachers": (0, 100),
    "task_teachers": (0, 100),
    "max_length": (8, math.inf),
    "evaluate_every": (0.01, math.inf),
    "seed": (0, 2**32 - 1),
    "finetune.epochs": (1, math.inf),
    "finetune.evaluate_every": (0.01, math.inf),
    "distill.weight": (0, 1),
    "distill.temperature": (0.1, 100),
}


def train_options(values: dict[str, Any]) -> TrainOptions:
    """The options from plain values that `check_train` found no fault in."""
    values = _filled(values)
    parts = {key: _part(item.type) for key, item in _fields(TrainOptions).items()}
    return TrainOptions(**{k: parts[k](**v) if parts[k] and isinstance(v, dict) else v for k, v in values.items()})


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    """The values with those of their preset; the word none stands for no value where that is possible."""
    nothing: dict[str, Any] = {
        key: None for key, item in _fields(TrainOptions).items() if type(None) in get_args(item.type)
    }
    nothing |= {"teachers": 0}  # where no value would mean: as many as the method is best with
    return {k: nothing[k] if v == "none" and k in nothing else v for k, v in with_preset(values).items()}


def check_train(file: TaskFile) -> list[str]:
    """Faults in the `train:` part of a task file."""
    values = _filled(file.train)
    faults = _faults(TrainOptions, values, "")
    if isinstance(preset := values.get("preset", "default"), str) and preset not in PRESETS:
        faults.append(f"train.preset: {unknown('preset', preset, PRESETS)}")
    try:
        sampler = sampler_of(values.get("sampler", "square_root"))
        method = METHODS.get(file.method.name)
        if sampler.candidates != 1 and method is not None and method.cannot_choose:
            possible = ", ".join(name for name, known in SAMPLERS.items() if known.candidates == 1)
            faults.append(
                "train.sampler: this one asks the model about rows of all tasks before each step, which method "
                f"{file.method.name!r} does not allow: {method.cannot_choose}. Possible: {possible}."
            )
        if sampler.candidates != 1 and values.get("batches") == "task":
            faults.append(
                "train.batches is 'task', but this sampler chooses a step's rows among those of all tasks. "
                "Possible: mixed."
            )
    except ConfigError as error:
        faults.append(f"train.sampler: {error}")
    method = METHODS.get(file.method.name)
    if values.get("finetune") is not None and method is not None and method.cannot_choose:
        faults.append(f"train.finetune: method {file.method.name!r} trains no model of all tasks to start from.")
    if isinstance(select := values.get("select"), dict) and isinstance(select.get("baseline"), str):
        try:
            read_baseline(select["baseline"], list(file.tasks.values()))
        except OnepassError as error:
            faults.append(f"train.select.baseline: {error}")
    for own in ("teachers", "task_teachers", "teacher_encoder"):
        if values.get("distill") and values.get(own):
            faults.append(
                f"train.distill and train.{own}: the one names trained teachers, the other trains some. Give one."
            )
    if values.get("teacher_encoder") and values.get("teachers") == 0 and not values.get("task_teachers"):
        preset = f" (of preset {values['preset']!r})" if "teachers" not in file.train else ""
        faults.append(f"train.teacher_encoder: with train.teachers=0{preset} there are none. Give teachers=1 or more.")
    distill = values.get("distill")
    for folder in teachers_of(distill.get("teachers", [])) if isinstance(distill, dict) else ():
        try:
            read_tasks(Path(folder))
        except OnepassError as error:
            faults.append(f"train.distill.teachers: {error}")
    return faults


def teachers_of(value: Any) -> list[str]:
    """The folders of teachers, of which there may be one or several."""
    items = value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


def sampler_of(value: Any) -> Sampler:
    """A sampler from its name, or from a mapping with `name` and options."""
    options = (
        {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, dict) else {"name": repr(value)}
    )
    return make_sampler(options.pop("name", "square_root"), **options)


def _fields(options: Any) -> dict[str, Any]:
    return {item.name: item for item in fields(options)}


def _part(kind: Any) -> Any:
    """The dataclass of an option that is itself a set of options, else None."""
    return next((choice for choice in get_args(kind) if is_dataclass(choice)), None)


def _faults(options: Any, values: dict[str, Any], prefix: str) -> list[str]:
    """What is wrong with plain values for a dataclass of options; `prefix` leads to them, as in `distill.`."""
    known, faults = _fields(options), []
    for key, value in values.items():
        part = _part(known[key].type) if key in known else None
        if key not in known:
            faults.append(f"train{'.' if prefix else ''}{prefix.rstrip('.')}: {unknown('option', key, known)}")
        elif part and isinstance(value, dict):
            faults += _faults(part, value, f"{prefix}{key}.")
        elif wanted := _mismatch(prefix + key, value, known[key].type):
            faults.append(f"train.{prefix}{key} is {value!r}; possible: {wanted}.")
    for item in known.values():
        if item.default is MISSING and item.name not in values:
            faults.append(f"train.{prefix.rstrip('.')} has no {item.name}. Give it, as in {{{item.name}: ...}}.")
    return faults


def _mismatch(key: str, value: Any, kind: Any) -> str | None:
    """What was wanted, if the value is not of the field's sort."""
    if get_origin(kind) is Literal:
        return None if value in get_args(kind) else ", ".join(map(str, get_args(kind)))
    if part := _part(kind):
        words = [word for choice in get_args(kind) if get_origin(choice) is Literal for word in get_args(choice)]
        if value in words or (value is None and not words):
            return None
        described = ", ".join(f"{item.name}: ..." for item in fields(part))
        return ", ".join([*(words or ["none"]), f"{{{described}}}"])
    if kind in (str, str | None):
        optional = kind is not str
        filled = bool(value.strip()) if isinstance(value, str) else optional and value is None
        return None if filled else "none, a text" if optional else "a text"
    if kind is bool:
        return None if type(value) is bool else "true, false"
    if kind == str | list[str]:
        texts = [value] if isinstance(value, str) else value
        right = isinstance(texts, list) and texts and all(isinstance(text, str) and text.strip() for text in texts)
        return None if right else "a path, or a list of paths"
    if kind == int | None:
        wanted = None if value is None else _mismatch(key, value, int)
        return wanted and f"none, {wanted}"
    if kind not in (int, float):
        return None
    least, most = LIMITS.get(key, (0, math.inf))
    right = type(value) is int if kind is int else type(value) in (int, float)
    if right and least <= value <= most and value < (BOUNDLESS if type(value) is int else math.inf):
        return None
    to = "" if math.isinf(most) else f" to {most}"
    return f"a {'whole number' if kind is int else 'number'} from {least}{to}"
