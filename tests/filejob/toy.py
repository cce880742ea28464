"""A model without an encoder, and a job with it that other processes can be killed in.

python toy.py SOURCE OUTPUT [DELAY_S]   DELAY_S is slept for each piece, so that a kill finds the job at work.
"""

import hashlib
import sys
import time
from pathlib import Path
from typing import Any

from onepass.filejob import FileJob
from onepass.prediction import Labelled, Prediction
from onepass.tasks import Task

LONGEST = 1000  # characters the model reads


class Toy:
    """Answers by the digest of the text: one task with scores, one without, one on pairs."""

    def __init__(self, delay_s: float = 0.0):
        self.delay_s = delay_s
        self.asked: list[Any] = []
        self.tasks = [
            Task(name="topic", text="text", label="topic", labels=["a", "b"]),
            Task(name="tone", text="text", label="tone", kind="regression"),
            Task(name="tags", text="text", label="tags", labels=["x", "y"], kind="multilabel"),
            Task(name="same", text=["first", "second"], label="same", labels=["no", "yes"]),
        ]

    def numbers(self, names: Any) -> list[int]:
        return [number for number, task in enumerate(self.tasks) if names is None or task.name in names]

    def applicable(self, num_texts: int, names: Any) -> list[int]:
        return [number for number in self.numbers(names) if len(self.tasks[number].text) == num_texts]

    def label(self, texts: Any, tasks: Any = None) -> list[Labelled]:
        time.sleep(self.delay_s)
        self.asked.append(list(texts))
        return [self._one(text, tasks) for text in texts]

    def _one(self, text: Any, tasks: Any) -> Labelled:
        whole = text if isinstance(text, str) else "\t".join(text)
        number = int.from_bytes(hashlib.sha256(whole[:LONGEST].encode()).digest()[:4], "big") / 2**32
        known = {
            "topic": Prediction("ab"[number > 0.5], number),
            "tone": Prediction(number - 0.5),
            "tags": Prediction(["x", "y"][: int(3 * number)], number),
            "same": Prediction("yes" if number > 0.5 else "no", number),
        }
        names = [self.tasks[number].name for number in self.numbers(tasks)]
        return Labelled(text, {name: known[name] for name in names}, len(whole) > LONGEST)


def job(source: Path, output: Path, delay_s: float = 0.0, **options: Any) -> FileJob:
    options = {"model_id": "toy", "text": ["text"], "tasks": ["topic", "tone", "tags"]} | options
    return FileJob(options.pop("model", None) or Toy(delay_s), source, output, **options)


if __name__ == "__main__":
    job(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])).run()
