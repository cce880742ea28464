"""Models that parts of a training made, beside the output, for a training that is resumed after such a part."""

from __future__ import annotations

import glob
import logging
import shutil
from pathlib import Path

from onepass.atomic import read_json
from onepass.errors import ConfigError, FolderError, OnepassError
from onepass.model import Model

log = logging.getLogger(__name__)


class KeptModel:
    """The model of one part, such as `joint`."""

    def __init__(self, output: Path, part: str, key: str):
        self.folder = kept_folder(output, part)
        self.key = key

    def load(self, dropout: float) -> Model | None:
        """The model, with the dropout of the training, which no folder holds; None if there is none of this one."""
        try:
            model = Model.load(self.folder)
        except (OnepassError, OSError):
            return None
        model.dropout.p = dropout
        return model if model.training_record.get("key") == self.key else None

    def save(self, model: Model) -> bool:
        """Whether there was room for it."""
        model.training_record["key"] = self.key
        try:
            model.save(self.folder, overwrite=True)
        except FolderError as error:
            log.warning("the training goes on, but --resume could not go on from here: %s", error)
            return False
        return True


def check_same(folder: Path, key: str) -> None:
    """Refuse to go on from what a part of another training left."""
    try:
        config = read_json(folder / "config.json")
        found = config.get("key") or config["training"]["key"]
    except (FolderError, AttributeError, KeyError, TypeError):
        return  # nothing that anybody would go on from
    if found != key:
        raise ConfigError(
            f"The task file, the options, the data or a teacher changed since the training in {folder} was cut short. "
            "Restore them to go on, or train anew without --resume."
        )


def kept_folder(output: Path, part: str) -> Path:
    return output.absolute().parent / f".{output.name}.{part}"


def forget(folder: Path) -> None:
    """Remove a folder, and drafts of it that trainings left which were killed while they wrote one."""
    drafts = folder.parent.glob(f".{glob.escape(folder.name)}.*.new")
    for place in (folder, *drafts):
        shutil.rmtree(place, ignore_errors=True)
