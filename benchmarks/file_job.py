"""A file job of many short rows, killed at random moments: are its bytes those of an unbroken run, and what memory?

python benchmarks/file_job.py MODEL [--rows 1000000] [--kills 20] [--folder DIR] [--seed 0] [--json]

MODEL is a model folder. Every run is `onepass predict` as a process of its own; a kill is SIGKILL.
"""

import argparse
import filecmp
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from onepass.filejob.job import rejects_beside

WORDS = ("late", "goal", "wins", "the", "match", "why", "is", "my", "bill", "senate", "passes", "budget", "café")
"""One that is not ASCII: a file in which no such word is UTF-8 is refused as a whole, and not row by row"""


def write_rows(path: Path, rows: int, seed: int) -> None:
    """Short texts; one in a thousand is empty, broken or has a field too many."""
    chance = random.Random(seed)
    with open(path, "wb") as file:
        file.write(b"id,text\n")
        for number in range(rows):
            text = " ".join(chance.choices(WORDS, k=chance.randint(2, 6))).encode()
            if number % 1000 == 999:
                text = chance.choice([b"", b"caf\xe9", b"nul \0 byte", b"one,too many"])
            file.write(b"%d,%s\n" % (number, text))


class Run:
    """One process of `onepass predict`, and the most memory it had."""

    def __init__(self, model: str, source: Path, output: Path):
        command = [sys.executable, "-m", "onepass", "predict", model, "--input", str(source), "--output", str(output)]
        self.process = subprocess.Popen([*command, "--text", "text", "--quiet"], stdout=subprocess.DEVNULL)
        self.journal = output.with_name(f".{output.name}.job") / "journal.json"
        self.peak_mb = 0.0

    def rows(self) -> int:
        """The rows that are done, as the journal says."""
        try:
            state = json.loads(self.journal.read_text())
            return int(state["rows"] + state["rejected"])
        except (OSError, ValueError):
            return 0

    def wait(self, until_row: int | None = None) -> bool:
        """Wait for the end, or for a row; returns whether the process still runs."""
        while self.process.poll() is None:
            try:
                status = Path(f"/proc/{self.process.pid}/status").read_text()
                self.peak_mb = max(self.peak_mb, int(status.partition("VmHWM:")[2].split()[0]) / 1024)
            except (OSError, IndexError):
                pass
            if until_row is not None and self.rows() >= until_row:
                return True
            time.sleep(0.02)
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        source, clean, output = folder / "in.csv", folder / "clean.csv", folder / "out.csv"
        write_rows(source, given.rows, given.seed)
        started = time.monotonic()
        unbroken = Run(given.model, source, clean)
        unbroken.wait()
        if unbroken.process.returncode:
            sys.exit(f"onepass predict failed with {unbroken.process.returncode}; what it said stands above.")
        seconds = time.monotonic() - started
        chance = random.Random(given.seed)
        kills, peaks = 0, [unbroken.peak_mb]
        for until in sorted(chance.randrange(given.rows) for _ in range(given.kills)):
            run = Run(given.model, source, output)
            if run.wait(until_row=until):
                time.sleep(chance.uniform(0, 0.3))
                os.kill(run.process.pid, signal.SIGKILL)
                kills += run.process.wait() == -signal.SIGKILL
            peaks.append(run.peak_mb)
        last = Run(given.model, source, output)
        last.wait()
        peaks.append(last.peak_mb)
        rejects = [rejects_beside(path) for path in (clean, output)]
        pairs = {"output": (clean, output), "rejects": rejects}
        result = {
            "rows": given.rows,
            "bytes": clean.stat().st_size,
            "rows_per_second": round(given.rows / seconds),
            "kills": kills,
            "different": [name for name, pair in pairs.items() if not filecmp.cmp(*pair, shallow=False)],
            "rejected": len(rejects[0].read_text().splitlines()),
            "peak_mb": round(max(peaks)),
        }
        print(json.dumps(result) if given.json else "\n".join(f"{key:16} {value}" for key, value in result.items()))
        sys.exit(1 if result["different"] else 0)


if __name__ == "__main__":
    main()
