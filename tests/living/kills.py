"""Kills a change to a model folder at each of its writes, one after the other, and looks at what is left.

python kills.py FOLDER TASK.CSV add|update|remove|threshold [MOMENTS]

With MOMENTS it is killed so many times at moments drawn at random instead. Prints how many kills there were; every
fault is an AssertionError.
"""

import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from onepass import atomic, folder, living
from onepass.tasks import Task
from onepass.training.adding import AddOptions

KILLED = -signal.SIGKILL


def main(model: Path, data: Path, command: str, moments: int = 0) -> None:
    torch.set_num_threads(1)
    # The lock of progress bars is one for all forked processes: a killed one would keep it, and all others wait.
    tqdm.set_lock(threading.RLock())
    tqdm.monitor_interval = 0
    tone = Task(name="tone", text="text", label="label", train=data)
    options = AddOptions(epochs=1)
    other = {"train": data, "label": "label", "labels": []}
    change: Callable[[Path], Any] = {
        "add": lambda path: living.add_tasks(path, [tone], options, progress=False),
        "update": lambda path: living.update_task(path, "spam", other, options, False),
        "remove": lambda path: living.remove_task(path, "spam"),
        "threshold": lambda path: living.change_thresholds(path, None, 0.7),
    }[command]
    old = contents(model)
    shutil.copytree(model, done := model.parent / "done")
    started = time.perf_counter()
    change(done)
    seconds = time.perf_counter() - started
    new = contents(done)
    assert new != old
    folder.load_model(done)
    place = model.parent / "place" / "model"
    place.parent.mkdir()
    seen = {"old": 0, "new": 0}
    for kill in range(1, 1 + (moments or 1000)):
        shutil.copytree(model, place)
        pid = os.fork()
        if pid == 0:
            if not moments:
                kill_at(kill)
            try:
                change(place)
            except BaseException:  # noqa: BLE001  the exit code says it
                os._exit(1)
            os._exit(0)
        if moments:
            time.sleep(random.Random(kill).uniform(0, 1.2 * seconds))
            os.kill(pid, signal.SIGKILL)  # it may be done already, but nobody has waited for it yet
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, KILLED), f"write {kill}: exit code {status}"
        found = contents(place)
        assert found in (old, new), f"write {kill}: a mixture"
        seen["old" if found == old else "new"] += 1
        if status == KILLED and kill % 5 == 1:  # whatever was left behind is in nobody's way, and goes
            if found == old:
                change(place)
            else:
                living.rename_task(place, "topic", "theme")
            assert os.listdir(place.parent) == ["model"], f"write {kill}: {os.listdir(place.parent)}"
        shutil.rmtree(place.parent)
        place.parent.mkdir()
        assert status == KILLED or found == new
        if status == 0 and not moments:
            break
    sys.stdout.write(f"{kill if moments else kill - 1} kills: {seen['old']} old, {seen['new']} new\n")


def contents(path: Path) -> dict[str, bytes]:
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def kill_at(last: int) -> None:
    """End this process at the so-manieth write, link, rename, removal or flush; a write is cut in half."""
    count = 0

    def counted(call: Callable[..., Any], half: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == last:
                if half is not None:
                    half(*args, **kwargs)
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return run

    for name in ("rename", "link", "mkdir", "unlink", "rmdir", "fsync", "open"):
        setattr(os, name, counted(getattr(os, name)))
    write_text, save_file = Path.write_text, folder.save_file
    half_text = lambda path, text, **options: write_text(path, text[: len(text) // 2], **options)  # noqa: E731
    Path.write_text = counted(write_text, half_text)  # type: ignore[method-assign]

    def half_file(tensors: Any, path: Path) -> None:
        save_file(tensors, path)
        os.truncate(path, path.stat().st_size // 2)

    folder.save_file = counted(save_file, half_file)
    atomic.exchange = counted(atomic.exchange)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 0)
