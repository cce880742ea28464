"""From a recipe to a task file with its data files beside it."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onepass.atomic import draft_of, exchange, keep_others, read_json, write_json
from onepass.data.examples import text_hash
from onepass.errors import ConfigError, DataError, listed, unknown
from onepass.plain_yaml import quoted
from onepass.recipes.hub import rows_from_hub
from onepass.recipes.recipe import KnownSet, Part, Recipe, Row

RECORD = "recipe.json"


@dataclass(frozen=True)
class Written:
    """What became of a recipe."""

    task_file: Path
    folder: Path
    """With the data files"""
    rows: dict[str, dict[str, int]]
    """By task and split"""


def write_recipe(
    recipe: Recipe,
    task_file: Path,
    source: Path | None = None,
    *,
    only: Sequence[str] | None = None,
    holdout: bool = False,
    overwrite: bool = False,
) -> Written:
    """Write the task file, and the rows of every set as jsonl files into a folder beside it, named as the recipe.

    source: a folder of the originals' own files; without it the sets come from the hub.
    only: the sets to take.
    holdout: make two thirds of a validation set the test set, where a set has no labelled one.
    """
    sets = _chosen(recipe, only)
    task_file = task_file.absolute()
    folder = task_file.parent / recipe.name
    _check_target(task_file, folder, overwrite)
    found = _found(recipe, sets, source) if source is not None else {}
    if source is None and (strange := [known.name for known in sets if known.hub is None]):
        raise ConfigError(f"The hub does not have {', '.join(strange)}. Give the folder of the files: --from FOLDER")
    place = folder.resolve()  # where a link leads: the link itself is left alone
    draft = draft_of(place)
    try:
        draft.mkdir(parents=True)
        rows = {known.name: _convert(known, draft, found if source is not None else None, holdout) for known in sets}
        record = {name: sorted(splits) for name, splits in rows.items()}
        write_json(draft / RECORD, {"recipe": recipe.name, "tasks": record})
        if place.exists():
            keep_others(place, draft, _own(place))
            exchange(draft, place)
        else:
            os.rename(draft, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # unfinished, or the folder that was replaced
    text_draft = draft_of(task_file)
    text_draft.write_text(_task_file(recipe, sets, rows), encoding="utf-8")
    os.replace(text_draft, task_file)
    return Written(task_file, folder, rows)


def _own(folder: Path) -> set[str]:
    """The files that an earlier recipe wrote."""
    record = read_json(folder / RECORD)["tasks"]
    return {RECORD, *(f"{name}-{split}.jsonl" for name, splits in record.items() for split in splits)}


def _chosen(recipe: Recipe, only: Sequence[str] | None) -> list[KnownSet]:
    names = {known.name: known for known in recipe.sets}
    if faults := [unknown(f"task of {recipe.name}", name, names) for name in only or () if name not in names]:
        raise ConfigError(listed(faults))
    return [names[name] for name in names if not only or name in only]


def _check_target(task_file: Path, folder: Path, overwrite: bool) -> None:
    if task_file.exists() and not overwrite:
        raise ConfigError(f"{task_file} exists already. Choose another name with -o, or replace it with --force.")
    if not task_file.parent.is_dir():
        raise ConfigError(f"There is no folder {task_file.parent}. Make it first, or choose another name with -o.")
    if folder.exists() and not (folder / RECORD).is_file():
        raise ConfigError(f"{folder} is in the way: the data files go there. Choose another folder with -o.")
    if folder.exists() and not overwrite:
        raise ConfigError(f"{folder} has the data of an earlier recipe. Choose another folder with -o, or --force.")


def _found(recipe: Recipe, sets: Sequence[KnownSet], source: Path) -> dict[tuple[str, str], Path]:
    """Where every part lies; all that are missing are told at once."""
    if not source.is_dir():
        raise ConfigError(f"There is no folder {source}.")
    found, missing = {}, []
    for known in sets:
        for split, part in known.parts.items():
            place = next((source / name for name in part.files if _is_there(source, name)), None)
            if place is not None:
                found[known.name, split] = place
            elif not part.optional:
                missing.append(f"{known.name}, {split}: {_looked_for(part)}")
    if missing:
        some = "" if len(sets) == 1 else " Or take only some of the tasks: --tasks A,B"
        raise DataError(f"Files of {recipe.name} are not in {source}.{some} Looked for:\n  " + "\n  ".join(missing))
    return found


def _is_there(source: Path, name: str) -> bool:
    return (source / name).is_dir() if name.endswith("/") else (source / name).is_file()


def _looked_for(part: Part) -> str:
    return part.files[0] + (f" (or {', '.join(part.files[1:])})" if len(part.files) > 1 else "")


def _convert(known: KnownSet, folder: Path, found: dict[tuple[str, str], Path] | None, holdout: bool) -> dict[str, int]:
    """Write every split of a set; returns how many rows each has."""
    counts = {}
    for split, where, rows in _splits(known, found):
        counts[split] = _write_rows(folder / f"{known.name}-{split}.jsonl", rows)
        if not counts[split]:
            raise DataError(f"{where} has no row for {known.name}.")
    if holdout and "validation" in counts and "test" not in counts:
        counts |= _part_validation(known, folder)
    return counts


def _splits(
    known: KnownSet, found: dict[tuple[str, str], Path] | None
) -> Iterator[tuple[str, str | Path, Iterator[Row]]]:
    """The splits of a set, where each comes from, and its rows. `found`: the files of its parts; None: the hub."""
    if found is not None:
        for split, part in known.parts.items():
            if path := found.get((known.name, split)):
                yield split, path, part.read(path)
    elif known.hub is not None:
        for split in known.hub.splits:
            yield split, f"the hub's split of {split}", rows_from_hub(known, split)


def _part_validation(known: KnownSet, folder: Path) -> dict[str, int]:
    """Move two thirds of the validation rows to a test file, by the hash of their first text."""
    text = known.keys["text"]
    column = text if isinstance(text, str) else text[0]
    path = folder / f"{known.name}-validation.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    sides: dict[str, list[Row]] = {"validation": [], "test": []}
    for row in rows:
        sides["test" if text_hash((str(row[column]),)) // 11 % 3 else "validation"].append(row)
    if not all(sides.values()):
        raise DataError(f"{known.name} has too few validation rows ({len(rows)}) to make a test set of some.")
    return {split: _write_rows(folder / f"{known.name}-{split}.jsonl", iter(side)) for split, side in sides.items()}


def _write_rows(path: Path, rows: Iterator[Row]) -> int:
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            # Half of a surrogate pair would spoil the file.
            line = json.dumps(row, ensure_ascii=False)
            file.write(line.encode("utf-8", "replace").decode() + "\n")
            count += 1
        file.flush()
        os.fsync(file.fileno())
    return count


def _task_file(recipe: Recipe, sets: Sequence[KnownSet], rows: dict[str, dict[str, int]]) -> str:
    lines = [f"# {line}" for line in recipe.about.splitlines()]
    lines += ["encoder: embedded", "method: readers", "tasks:"]
    for known in sets:
        counts = rows[known.name]
        lines.append(f"  # {known.about}")
        lines.append("  # Rows: " + ", ".join(f"{split.replace('_', ' ')} {n:,}" for split, n in counts.items()))
        lines.append(f"  {known.name}:")
        files = {
            split: f"{recipe.name}/{known.name}-{split}.jsonl"
            for split in ("train", "validation", "test")
            if split in counts
        }
        kind = {"kind": known.keys.get("kind", "classification")}
        for key, value in (kind | files | {k: v for k, v in known.keys.items() if k != "kind"}).items():
            lines.append(f"    {key}: {_value(value)}")
    if recipe.train:
        lines.append(f"train: {_value(dict(recipe.train))}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value)


def record_of(folder: Path) -> dict[str, Any] | None:
    """What a folder's recipe.json says, if it has one."""
    path = folder / RECORD
    return read_json(path) if path.is_file() else None
