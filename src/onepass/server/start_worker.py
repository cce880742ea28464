"""The start of a worker's process. What the worker needs takes a third of a second to import: where another one serves
meanwhile, a thread that gives way does it.

    python -m onepass.server.start_worker FD FOLDER OPTIONS [gently]
"""

from __future__ import annotations

import importlib
import json
import sys
from functools import partial
from pathlib import Path

from onepass.server.priority import COMPUTING, gently, give_way, prompt


def start(descriptor: str, folder: str, options: str, *words: str) -> None:
    give_way(COMPUTING)
    prompt()
    load_worker = partial(importlib.import_module, "onepass.server.worker")
    worker = gently(load_worker) if "gently" in words else load_worker()
    worker.main(int(descriptor), Path(folder), json.loads(options), "gently" in words)


if __name__ == "__main__":
    start(*sys.argv[1:])
