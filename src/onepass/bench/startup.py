"""From the start of a process to its first label."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onepass.loading import load

TEXT = "Why is my bill so high"


def startup(folder: Path | None = None, *, runs: int = 5) -> dict[str, Any]:
    """Seconds of whole processes, in turns: Python with the engine, the command predict, and Python with the model,
    where there is torch.

    Without a folder, an untrained model of eight tasks on the embedded encoder is written and exported first.
    """
    if folder is not None:
        load(folder, engine=True)  # says what is wrong with it
    with tempfile.TemporaryDirectory() as place:
        model = folder or untrained(Path(place) / "model", 8)
        ask = f"import onepass; onepass.load({str(model)!r}, engine={{}}).predict({TEXT!r})"
        commands = {
            "python, engine": [sys.executable, "-c", ask.format(True)],
            "onepass predict, engine": [sys.executable, "-m", "onepass", "predict", str(model), TEXT],
        }
        if find_spec("torch") is not None:
            commands["python, model"] = [sys.executable, "-c", ask.format(False)]
        # As after an installation, which compiles what it installs; the first runs, which do so here, do not count.
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(Path(place) / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        times: dict[str, list[float]] = {name: [] for name in commands}
        for number in range(runs + 1):
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True, env=environment)
                if number:  # the first run fills the disk's cache
                    times[name].append(time.perf_counter() - start)
    rows = [{"what": name, "s": statistics.median(found), "best_s": min(found)} for name, found in times.items()]
    return {"runs": runs, "rows": rows}


def untrained(folder: Path, tasks: int) -> Path:
    """The folder of a model that has learned nothing, with its engine."""
    from onepass.encoder.loading import load_encoder
    from onepass.engine.export import export_model
    from onepass.methods import make_method
    from onepass.model import Model
    from onepass.tasks import MethodChoice, Task

    encoder, tokenizer = load_encoder("embedded")
    model = Model(make_method("readers", encoder), tokenizer, MethodChoice(), "embedded")
    for number in range(tasks):
        model.add(Task(name=f"task{number}", text=("text",), label="label", labels=("no", "yes")))
    model.save(folder)
    export_model(folder)
    return folder
