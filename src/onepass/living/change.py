"""A change to the tasks of a model folder: it happens whole or not at all.

Whoever reads the folder meanwhile sees the old model or the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from onepass.atomic import CARD, Edit, edit_folder, read_json, write_json
from onepass.card import card
from onepass.contents import DERIVED, RECORDED, read_config
from onepass.errors import FolderError
from onepass.folder import load_model, save_task
from onepass.living.proof import TOLERANCE, Proof, Unproven, largest_change

log = logging.getLogger(__name__)


class Change:
    """A change to the tasks of a model folder, under way."""

    def __init__(self, edit: Edit):
        self.edit = edit
        self.model = load_model(edit.folder)
        self.orders: dict[str, int] = {
            name: read_json(edit.folder / "tasks" / name / "task.json")["order"] for name in self.model.names
        }
        self.touched: set[str] = set()
        edit.drop(*DERIVED)

    def place(self, name: str) -> Path:
        """The folder in which a task is written."""
        self.touched.add(name)
        return self.edit.draft / "tasks" / name

    def drop(self, name: str) -> None:
        self.touched.add(name)
        self.edit.drop(f"tasks/{name}/")

    def write(self, number: int, order: int | None = None) -> None:
        """Write one of the model's tasks."""
        name = self.model.tasks[number].name
        self.drop(name)  # what there is of it
        self.orders[name] = max(self.orders.values()) + 1 if order is None else order
        save_task(self.model, number, self.place(name), self.orders[name])

    def describe(self, number: int) -> None:
        """Write what is said of one of the model's tasks anew; its weights stay."""
        task, file = self.model.tasks[number], Path("tasks") / self.model.tasks[number].name / "task.json"
        known = {key: value for key, value in read_json(self.edit.folder / file).items() if key not in RECORDED}
        self.place(task.name).mkdir(parents=True)
        write_json(self.edit.draft / file, known | task.model_dump(mode="json") | self.model.records[number])

    def prove(self, renamed: Mapping[str, str] | None = None) -> Proof:
        """Complete the new folder, read it back from the disk and compare it with the old one."""
        told = card(self.model.tasks, self.model.records, read_config(self.edit.folder))
        (self.edit.draft / CARD).write_text(told, encoding="utf-8")
        self.edit.complete()
        stay = [name for name in self.model.names if name not in self.touched or name in (renamed or {})]
        after = load_model(self.edit.draft)
        files = self._same_files(renamed or {})
        change = largest_change(self.model, after, stay)
        if not change <= TOLERANCE:  # also if it is NaN
            raise Unproven(
                f"the answers of other tasks would have changed by {change:.3g} on the probe texts, more than "
                f"{TOLERANCE:g}. Nothing was changed."
            )
        return Proof(files, len(stay), change)

    def _same_files(self, renamed: Mapping[str, str]) -> int:
        """How many files stayed; raises if one changed that should not have."""
        after = self.edit.after or {}
        free = (CARD, *DERIVED, *(f"tasks/{name}/" for name in self.touched))
        stay = {file: sha for file, sha in self.edit.before.items() if not file.startswith(free)}
        pairs = [(sha, after.get(file), file) for file, sha in stay.items()]
        for new, old in renamed.items():
            file = f"tasks/{old}/weights.safetensors"
            pairs.append((self.edit.before[file], after.get(f"tasks/{new}/weights.safetensors"), file))
        if moved := [file for sha, found, file in pairs if sha != found]:
            raise Unproven(f"{', '.join(moved)} would have changed. Nothing was changed.")
        return len(pairs)


@contextmanager
def changing(folder: Path) -> Iterator[Change]:
    """A change to a model folder; after an error the folder is as it was."""
    folder = Path(folder).expanduser()
    if not folder.is_dir():
        raise FolderError(
            f"There is no model folder {folder}. Only a folder on this machine can be changed; a model of the hub is "
            "put into one with onepass.load(NAME).save(FOLDER)."
        )
    read_config(folder)  # says so if this is no model folder
    with edit_folder(folder) as edit:
        yield Change(edit)
    for file in DERIVED:
        if file in edit.before:
            log.warning("%s was made from the model as it was, and is left out: make it again", file)
