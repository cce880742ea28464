"""What a suite holds, as a short text: a result is only worth keeping for the tasks and rows it was measured on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from onepass.tasks import read_task_file


def suite_fingerprint(suite: str, overrides: Sequence[str] = ()) -> str:
    """64 bits that change with a suite's settings and with its data files, wherever the suite is kept.

    Of `overrides` those count that name another encoder, other tasks and files, or what is learned from.
    """
    from onepass.training.options import teachers_of

    file, given = read_task_file(suite), read_task_file(suite, overrides)
    known: dict[str, Any] = {
        "encoder": _encoder(given.encoder),
        "method": file.method.model_dump(),
        "train": file.train,
    }
    known["tasks"] = {
        name: {key: _hash_of(value) if isinstance(value, Path) else value for key, value in dict(task).items()}
        for name, task in given.tasks.items()
    }
    distill = given.train.get("distill")
    trained = teachers_of(distill.get("teachers", [])) if isinstance(distill, dict) else []
    teachers = [given.train.get("teacher_encoder"), *trained]
    if learned_from := [_encoder(folder) for folder in teachers if folder]:
        known["learned from"] = learned_from
    return hashlib.blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8).hexdigest()


def _encoder(source: str) -> Any:
    """The name of an encoder, or what its folder holds, wherever that is; a model's folder lists its files in one."""
    folder = Path(source).expanduser()
    if source == "embedded" or not folder.is_dir():
        return source
    return {path.name: _hash_of(path) for path in sorted(folder.iterdir()) if path.suffix in (".json", ".safetensors")}


def _hash_of(path: Path) -> str:
    """Of a data file; one that is not there is told of when it is read."""
    try:
        state = path.stat()
        return _hash_of_state(path, state.st_size, state.st_mtime_ns)
    except OSError:
        return ""


@cache  # several tasks may read one large file
def _hash_of_state(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=8)).hexdigest()
