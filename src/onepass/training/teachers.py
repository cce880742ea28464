"""Teachers of a model's own: the same training with other seeds, whose mean answers the model then learns.

Several trainings of one recipe are wrong about different texts, so their mean is right more often than any of them,
and it has an opinion about every task for every text. A model that learns these opinions beside the labels is about
as good as all of them together (arXiv:1503.02531), and still answers in one pass. Models of each task by itself are
wrong about others again, and know best what other tasks do not help with.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from onepass.atomic import verify
from onepass.contents import read_config
from onepass.errors import OnepassError
from onepass.heads import make_kind
from onepass.tasks import MethodChoice, Task, TaskFile
from onepass.training.distillation import teachable
from onepass.training.options import LEAST_EFFORT, DistillOptions, TrainOptions
from onepass.training.presets import with_preset

log = logging.getLogger(__name__)
RECIPE = DistillOptions(teachers=[], weight=0.5, temperature=1.0, all_texts=True, others=8, others_weight=3.0)
"""What was best on the validation rows of nhc8 and nhc41, see benchmarks/LOG.md"""
NEXT_SEED = 1000  # far from the seeds of trainings that are compared with each other
ALONE_RATES = {"encoder_rate": 5e-5, "head_rate": 5e-4}
"""What a model per task is best trained with; smaller rates that are given are kept"""
ONE_TASK = {"sampler": "square_root", "batches": "mixed"}  # of which there is no choice
ALONE_EFFORT = 0.5
# Of teachers with another encoder, which is larger as a rule: all-mpnet-base-v2 was trained so.
MOST_RATE = 5e-5
LARGER_EFFORT = 0.5


def with_learners(options: TrainOptions, tasks: Iterable[Task]) -> TrainOptions:
    """The options without teachers where no task is of a kind that could learn from them."""
    if any(teachable(make_kind(task)) for task in tasks):
        return options
    if options.teachers or options.task_teachers or options.teacher_encoder:
        log.info("trained without teachers: no task is of a kind that learns from them")
    return replace(options, teachers=0, task_teachers=0, teacher_encoder=None)


def teachers_wanted(options: TrainOptions, best: int, num_tasks: int, device: str) -> int:
    """How many teachers to train first: those asked for, else what the method is `best` with, where it is bearable."""
    if options.teachers is not None:
        return options.teachers
    if options.teacher_encoder is not None:
        return best or 1
    return 0 if options.distill is not None or num_tasks < 2 or device == "cpu" else best


def tell_of_teachers(options: TrainOptions, best: int, num_tasks: int, device: str) -> None:
    """Say that a training on a CPU could have teachers, where one on a GPU has some."""
    count = teachers_wanted(options, best, num_tasks, "cuda")
    chosen = options.teachers is not None or options.soup > 1
    if count and not chosen and not teachers_wanted(options, best, num_tasks, device):
        log.info(
            "trained without teachers, as always on a CPU unless asked for: train.teachers=%d takes about %d times as "
            "long and is often worth half a point or more",
            count, count + 2,  # the model itself goes over the rows longer too
        )  # fmt: skip


@contextmanager
def own_teachers(
    train: Callable[..., Any], file: TaskFile, key: str, options: TrainOptions, count: int, output: Path | None
) -> Iterator[DistillOptions | None]:
    """Train so many teachers, and say how to learn from them; they are gone after the block.

    They stand beside the output until then: a training that is resumed finds those that were finished. `key` names
    the training, so that the teachers of another are not taken for its own.
    """
    if not count + options.task_teachers:
        yield None
    elif output is None:
        with tempfile.TemporaryDirectory(prefix="onepass-teachers-") as folder:
            yield _trained(train, file, key, options, count, Path(folder))
    else:
        yield _trained(train, file, key, options, count, teachers_folder(output))
        forget_teachers(output)  # not after an error: `resume` goes on with them


def _trained(
    train: Callable[..., Any], file: TaskFile, key: str, options: TrainOptions, count: int, folder: Path
) -> DistillOptions:
    files = [one for some in teacher_files(file, options, count) for one in some]
    places = [folder / f"{key[:16]}-{number}" for number in range(len(files))]
    for number, (teacher, place) in enumerate(zip(files, places, strict=True)):
        if not _finished(place):
            log.info("teacher %d of %d", number + 1, len(files))
            train(teacher, place)
    return replace(RECIPE, teachers=[str(place) for place in places])


def teacher_files(file: TaskFile, options: TrainOptions, count: int) -> tuple[list[TaskFile], list[TaskFile]]:
    """The trainings of the teachers: `count` like the model's own with other seeds, and those of each task alone.

    Tasks of a kind that cannot learn from a teacher have no model of their own.
    """
    chosen = {key: value for key, value in with_preset(file.train).items() if key != "preset"}
    chosen |= {"soup": 1, "teachers": 0, "task_teachers": 0, "teacher_encoder": None, "finetune": None}
    if options.teacher_encoder is not None:
        file = file.model_copy(update={"encoder": options.teacher_encoder})
        chosen["encoder_rate"] = min(options.encoder_rate, MOST_RATE)
        chosen["effort"] = max(LEAST_EFFORT, LARGER_EFFORT * options.effort)
    learners = {
        name: task.model_copy(update={"group": None}) for name, task in file.tasks.items() if teachable(make_kind(task))
    }
    rates = {key: min(rate, chosen.get(key, rate)) for key, rate in ALONE_RATES.items()}
    alone = chosen | rates | ONE_TASK | {"effort": max(LEAST_EFFORT, ALONE_EFFORT * options.effort)}
    seeds = [(options.seed + NEXT_SEED * (number + 1)) % 2**32 for number in range(count + options.task_teachers)]
    return (
        [file.model_copy(update={"train": chosen | {"seed": seed}}) for seed in seeds[:count]],
        [
            file.model_copy(
                update={"train": alone | {"seed": seed}, "method": MethodChoice(name="single"), "tasks": learners}
            )
            for seed in seeds[count:]
        ],
    )


def seconds_of(own: DistillOptions) -> float:
    """What the trainings of teachers took, those of earlier runs included."""
    return float(sum(read_config(Path(folder))["training"]["seconds"] for folder in own.teachers))


def teachers_folder(output: Path) -> Path:
    return output.absolute().parent / f".{output.name}.teachers"


def forget_teachers(output: Path) -> None:
    """Remove the teachers beside an output: when it is written, and when a training of it begins anew."""
    shutil.rmtree(teachers_folder(output), ignore_errors=True)


def _finished(place: Path) -> bool:
    try:
        verify(place)
    except (OnepassError, OSError):
        return False
    return True
