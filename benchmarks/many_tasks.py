"""A model of 1,000 tasks: saving, loading, info, one text answered for all of them, memory. One JSON object on stdout.

    python benchmarks/many_tasks.py [--tasks 1000] [--groups 0] [OPTION=VALUE ...]

The tasks are untrained, with two to five labels each, on the embedded encoder; options are those of method readers
(default: depth=auto tokens=1 readout=attention pooler=low_rank). Each figure is of a process of its own. `cpu_s` is
user and system time, which other work on the machine does not change much.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEXT = "The senate passes the budget after a long night of talks, and the markets rise"
LIGHT = ["depth=auto", "tokens=1", "readout=attention", "pooler=low_rank"]


def timed(work: Callable[[], Any]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall_s": round(time.perf_counter() - wall, 3), "cpu_s": round(time.process_time() - cpu, 3)}


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def save(folder: str, num_tasks: str, groups: str, *options: str) -> dict[str, Any]:
    """Make the model and write its folder."""
    from onepass.encoder.loading import load_encoder
    from onepass.methods import make_method, settle_method
    from onepass.model import Model
    from onepass.plain_yaml import parse
    from onepass.tasks import MethodChoice, Task

    given = {key: parse(value).value for key, _, value in (option.partition("=") for option in options)}
    choice = settle_method(MethodChoice(name="readers", options=given), int(num_tasks))
    encoder, tokenizer = load_encoder("embedded")
    model = Model(make_method(choice.name, encoder, choice.options), tokenizer, choice, "embedded")
    for number in range(int(num_tasks)):
        labels = ("no", "yes", "some", "none", "all")[: 2 + number % 4]
        group = f"group-{number % int(groups)}" if int(groups) else None
        model.add(Task(name=f"task-{number}", text=("text",), label="label", labels=labels, group=group))
    return {"options": choice.options, "save": timed(lambda: model.save(folder)), "peak_mb": peak_mb()}


def use(folder: str) -> dict[str, Any]:
    """Load the model and ask it."""
    import onepass
    import onepass.folder  # so that what is imported is not counted as loading

    loaded: list[Any] = []
    found: dict[str, Any] = {"load": timed(lambda: loaded.append(onepass.load(folder)))}
    model = loaded[0]
    found["peak_mb_loaded"] = peak_mb()
    found["first_text"] = timed(lambda: model.predict(TEXT))
    times = [timed(lambda: model.predict(TEXT)) for _ in range(10)]
    found["one_text"] = {key: statistics.median(one[key] for one in times) for key in times[0]}
    found["sixteen_texts"] = timed(lambda: model.predict([f"{TEXT} {number}" for number in range(16)]))
    found["peak_mb"] = peak_mb()
    return found


def info(folder: str) -> dict[str, Any]:
    """onepass info, the whole command."""
    command = [sys.executable, "-m", "onepass", "info", folder, "--json"]
    wall = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"wall_s": round(time.perf_counter() - wall, 3), "cpu_s": round(cpu.ru_utime + cpu.ru_stime, 3)}


def apart(name: str, *values: str) -> dict[str, Any]:
    """What a function of this file finds in a process of its own."""
    ran = subprocess.run([sys.executable, __file__, "--run", name, *values], check=True, capture_output=True, text=True)
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="1000")
    parser.add_argument("--groups", default="0", help="groups of tasks that share their readers")
    parser.add_argument("options", nargs="*", default=LIGHT, metavar="OPTION=VALUE", help="of method readers")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = str(Path(place) / "model")
        found = {"tasks": int(given.tasks), "groups": int(given.groups)}
        found |= {"made": apart("save", folder, given.tasks, given.groups, *given.options)}
        found["folder_mb"] = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) // 2**20
        found |= {"used": apart("use", folder), "info": apart("info", folder)}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        print(json.dumps({"save": save, "use": use, "info": info}[sys.argv[2]](*sys.argv[3:])))
    else:
        main()
