"""Where a training stands, on the disk, so that a killed one can go on and end with the same weights.

A checkpoint is a folder beside the output, written whole or not at all, and removed when the model is saved.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from onepass.atomic import new_folder, read_json, verify, write_json
from onepass.contents import manifest_of
from onepass.data.stream import RowStream
from onepass.errors import ConfigError
from onepass.folder import save_tensors
from onepass.model import Model
from onepass.tasks import TaskFile
from onepass.training.average import RunningMean
from onepass.training.best import Best
from onepass.training.kept import check_same, forget, kept_folder
from onepass.training.options import TrainOptions, teachers_of
from onepass.training.sets import TaskSet, fingerprint
from onepass.training.stages import Finished

FORMAT = 2


class StageState:
    """Everything that changes while a stage is trained, but the model: optimiser, mean, best weights, position."""

    def __init__(
        self,
        optimizer: Any,
        mean: RunningMean,
        best: Best,
        stream: RowStream,
        finished: Finished,
        evaluate_every: float,
    ):
        self.optimizer, self.mean, self.best, self.stream, self.finished = optimizer, mean, best, stream, finished
        self.epoch, self.batch, self.rows, self.skipped_in_a_row = 0, 0, 0, 0
        self.next_evaluation = evaluate_every
        self.at_epoch = stream.state()
        """The stream as it was before this epoch's order was drawn"""

    def tensors(self) -> dict[str, Tensor]:
        found = {f"mean.{i}": mean for i, mean in enumerate(self.mean.means)}
        found |= {f"best.{name}": kept for name, kept in self.best.kept.items()}
        for number, values in self.optimizer.state_dict()["state"].items():
            found |= {f"optimizer.{number}.{key}": torch.as_tensor(value) for key, value in values.items()}
        found["random.cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            found["random.cuda"] = torch.cuda.get_rng_state()
        return found

    def numbers(self) -> dict[str, Any]:
        return {
            "position": [self.epoch, self.batch, self.rows, self.skipped_in_a_row, self.next_evaluation],
            "stream": self.at_epoch,
            "mean_steps": self.mean.steps,
            "best": [self.best.score, self.best.epoch, self.best.since],
            "finished": self.finished.numbers(),
        }

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Go on where another run stood."""
        self.epoch, self.batch, self.rows, self.skipped_in_a_row, self.next_evaluation = numbers["position"]
        self.stream.restore(numbers["stream"])
        self.mean.steps = numbers["mean_steps"]
        for i, mean in enumerate(self.mean.means):
            mean.copy_(tensors[f"mean.{i}"])
        self.best.score, self.best.epoch, self.best.since = numbers["best"]
        self.finished.restore(numbers["finished"])
        device = self.optimizer.param_groups[0]["params"][0].device
        self.best.kept = {k.removeprefix("best."): t.to(device) for k, t in tensors.items() if k.startswith("best.")}
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimizer."):
                _, number, key = name.split(".")
                state.setdefault(int(number), {})[key] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        torch.set_rng_state(tensors["random.cpu"])
        if "random.cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["random.cuda"])


def checkpoint_folder(output: Path) -> Path:
    """Where a training to this output keeps how far it is."""
    return kept_folder(output, "training")


class Checkpoints:
    """The checkpoint folder of one output."""

    def __init__(self, output: Path, key: str, every_s: float):
        self.folder = checkpoint_folder(output)
        self.key, self.every_s = key, every_s
        self.tried = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self.tried >= self.every_s

    def save(self, model: Model, stage: int, state: StageState, progress: dict[str, Any]) -> None:
        """Write where the training stands; `progress` is what the trainer wants back."""
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()} | state.tensors()
        try:
            with new_folder(self.folder, overwrite=True) as draft:
                save_tensors(
                    {k: t.detach().cpu().contiguous().clone() for k, t in tensors.items()}, draft / "state.safetensors"
                )
                numbers = {
                    "format": FORMAT,
                    "key": self.key,
                    "stage": stage,
                    "state": state.numbers(),
                    "progress": progress,
                }
                write_json(draft / "config.json", numbers)
        finally:  # the next one is as far away when this one could not be written
            self.tried = time.monotonic()

    def load(self, model: Model) -> dict[str, Any] | None:
        """Put the model's weights back and return the rest; None if there is nothing to go on from."""
        if not self.folder.is_dir():
            return None
        verify(self.folder)
        saved: dict[str, Any] = read_json(self.folder / "config.json")
        if saved.get("format") != FORMAT:
            raise ConfigError(
                f"The training in {self.folder} was cut short by another version of onepass, which alone can go on "
                "with it. Train anew without --resume, or remove that folder."
            )
        check_same(self.folder, self.key)
        tensors = load_file(self.folder / "state.safetensors")
        model.load_state_dict({k.removeprefix("model."): t for k, t in tensors.items() if k.startswith("model.")})
        saved["tensors"] = {name: tensor for name, tensor in tensors.items() if not name.startswith("model.")}
        return saved

    def remove(self) -> None:
        forget(self.folder)


def training_key(file: TaskFile, sets: Sequence[TaskSet], options: TrainOptions) -> str:
    """What two runs must share so that one can go on with the other: tasks, data, method, encoder, options, teachers.

    Those that a training has for itself are made of the rest.
    """
    teachers = teachers_of(options.distill.teachers) if options.distill else []
    parts = {
        "file": file.model_dump(mode="json", exclude={"path"}),
        "data": [[fingerprint(item.train), fingerprint(item.validation)] for item in sets],
        # A checkpoint knows the rows that are still to come by their numbers.
        "order": [hashlib.blake2b(item.train.hashes.tobytes(), digest_size=8).hexdigest() for item in sets],
        "teachers": [hashlib.sha256(manifest_of(Path(folder)) or b"").hexdigest() for folder in teachers],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
