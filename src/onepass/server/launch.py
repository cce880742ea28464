"""How the server's other processes are started: the command of a worker, and everybody's environment and threads."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from onepass.server.priority import CORES
from onepass.server.settings import Settings

MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(4 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 2**20),
}
"""For glibc: with an arena for each thread, and blocks of any size in them, what is freed between two versions lay in
ever new pieces. Smaller blocks of their own would cost a tenth of the speed in large batches, these 0 to 2 %."""
QUIET = {"OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


@dataclass(frozen=True)
class Launch:
    """How the processes around a model folder are started."""

    folder: Path
    settings: Settings

    @property
    def threads(self) -> int:
        """Threads of a worker."""
        return self.settings.threads or max(1, (len(CORES) or os.cpu_count() or 1) // self.settings.workers)

    def worker(self, descriptor: int, gently: bool) -> list[str]:
        """The command of a worker that speaks by this file; `gently` while another one answers."""
        settings = self.settings
        options = {"abstain_below": settings.abstain_below, "threads": self.threads, "device": settings.device}
        command = [sys.executable, "-m", "onepass.server.start_worker", str(descriptor), str(self.folder)]
        return [*command, json.dumps(options), *["gently"] * gently]

    def environment(self) -> dict[str, str]:
        """Of workers and of those that change the folder."""
        return MEMORY | os.environ | QUIET | {"OMP_NUM_THREADS": str(self.threads)}
