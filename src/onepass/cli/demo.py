"""onepass demo: train on the example data, ask about new texts, measure one pass against many."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onepass.cli.console import listen, percent, progress, results, say, show, table, write_json
from onepass.cli.options import Json
from onepass.errors import FolderError
from onepass.examples import TASK_FILE, TEST_FILE, TEST_TABLE

if TYPE_CHECKING:
    from onepass.model import Model
    from onepass.prediction import Labelled

NEW_TEXTS = [
    "Chlorine is leaking at the swimming pool, everyone must leave the building now",
    "What an evening! The youth choir sang, and the whole church rose to cheer them.",
    "Will the council vote on the cycle lanes before the summer break or after it?",
    "Only a spineless idiot like you would sell those shares, go away and take your lies with you.",
    "She put her old phone behind the router, and you will not believe what happened next",
]
TIMED_TEXTS, REPEATS = 16, 7


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to write.", metavar="FOLDER")] = Path(
        "runs/demo"
    ),
    json: Json = False,
) -> None:
    """Train on the example data and show what one pass answers.

    Six tasks whose data are in the package, about a minute on two cores, no network. An earlier demo in the output
    folder is replaced.
    """
    start = time.perf_counter()
    check_place(output)
    say(f"Training one model on the six tasks of {near(TASK_FILE)}, about a minute on two cores ...")
    from onepass import training

    listen(quiet=json)
    model = training.train(TASK_FILE, progress=progress())
    model.training_record["demo"] = True
    model.save(output, overwrite=True)
    answers = model.label(NEW_TEXTS)
    scores = training.evaluate(model, TEST_FILE)
    timing = measure(model)
    seconds = time.perf_counter() - start
    if json:
        write_json(
            {
                "output": str(output),
                "seconds": round(seconds, 1),
                "answers": [labelled.to_dict() for labelled in answers],
                "test": scores,
                "timing": timing,
                "next": next_commands(output),
            }
        )
        return
    rows = max(task["rows"] for task in scores["tasks"].values())
    accuracies = ", ".join(f"{name} {percent(task['score'], 0)} %" for name, task in scores["tasks"].items())
    show(
        "\nFive texts the model has never seen:",
        "\n".join(f"  {number}  {text}" for number, text in enumerate(NEW_TEXTS, 1)),
        answer_table(answers),
        f"Right on {rows} test texts: {accuracies}; mean {percent(scores['average'])} %.\n",
        f"All {timing['tasks']} tasks in one pass: {timing['one_pass_ms']:.0f} ms. One encoder pass for each task, "
        f"as with a model per task: {timing['passes_ms']:.0f} ms, {timing['ratio']:.1f} times as long.\n"
        f"(measured just now: {timing['texts']} test texts together, {timing['threads']} threads, "
        f"median of {timing['repeats']} turns each, one after the other)\n",
        f"The model is in {output}, after {seconds:.0f} seconds. Next:\n",
        "\n".join(f"  {command}" for command in next_commands(output)),
    )


def check_place(output: Path) -> None:
    """Raise unless the output can be written, and is free or holds an earlier demo."""
    from onepass.atomic import read_json
    from onepass.folder import check_output

    if not output.exists():
        check_output(output)
        return
    try:
        earlier = bool(read_json(output / "config.json")["training"]["demo"])
    except (FolderError, KeyError, TypeError):
        earlier = False
    if not earlier:
        raise FolderError(f"{output} exists already and is no earlier demo. Choose another folder with -o.")


def answer_table(answers: list[Labelled]) -> Any:
    """A row a task, a column a text."""
    between = " " if results().width >= 100 else "\n"
    made = table("task", *(str(number) for number in range(1, len(answers) + 1)))
    for name in answers[0].tasks:
        found = [labelled.tasks[name] for labelled in answers]
        made.add_row(name, *(f"{answer.label}{between}{answer.score:.0%}" for answer in found))
    return made


def measure(model: Model) -> dict[str, Any]:
    """The time of one pass for all tasks, and of one plain encoder pass for each task."""
    import statistics

    import torch

    from onepass.data.files import read_chunks
    from onepass.encoder.batch import Batch

    texts = next(iter(read_chunks(TEST_TABLE, ["text"], size=TIMED_TEXTS))).columns["text"]
    batch = Batch.of([(encoded.ids, encoded.types) for encoded in model.tokenizer.encode([(text,) for text in texts])])
    tasks = list(range(len(model.tasks)))

    def one_pass() -> None:
        model.logits(batch, tasks)

    def passes() -> None:
        with torch.inference_mode():
            for _ in tasks:
                model.method.encoder(batch)

    times: dict[Callable[[], None], list[float]] = {one_pass: [], passes: []}
    for turn in range(REPEATS + 1):
        for function, found in times.items():
            start = time.perf_counter()
            function()
            if turn:  # the first turn warms up
                found.append(1000 * (time.perf_counter() - start))
    one_ms, passes_ms = (statistics.median(found) for found in times.values())
    return {
        "tasks": len(tasks),
        "texts": len(texts),
        "threads": torch.get_num_threads(),
        "repeats": REPEATS,
        "one_pass_ms": round(one_ms, 2),
        "passes_ms": round(passes_ms, 2),
        "ratio": round(passes_ms / one_ms, 2),
    }


def next_commands(output: Path) -> list[str]:
    """Three commands that work as they stand, here and now."""
    onepass = spoken()
    examples = [shlex.quote(near(TASK_FILE.with_name(name))) for name in ("topic.csv", "form.csv")]
    file = _free(output.with_name("tasks.yaml"))
    model = _free(output.with_name("mine"))
    return [
        f'{onepass} predict {shlex.quote(str(output))} "Any text of yours"',
        f"{onepass} init {' '.join(examples)} -o {shlex.quote(str(file))}    # name your own data files here",
        f"{onepass} train {shlex.quote(str(file))} -o {shlex.quote(str(model))}",
    ]


def spoken() -> str:
    """How this program was called, so that it can be called again from here."""
    script = Path(sys.argv[0])
    if script.stem != "onepass":
        return f"{shlex.quote(near(Path(sys.executable)))} -m onepass"
    found = shutil.which("onepass")
    return "onepass" if found and os.path.samefile(found, script) else shlex.quote(near(script))


def near(path: Path) -> str:
    """A path as seen from the working folder if it lies below, else the whole of it."""
    path = Path(os.path.abspath(path))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _free(path: Path) -> Path:
    """The path, or one like it that does not exist yet."""
    number, free = 2, path
    while free.exists():
        free = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return free
