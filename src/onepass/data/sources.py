"""Which data files belong together: the splits of one task, or of one wide table."""

import logging
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onepass.data.columns import Column, sample_columns
from onepass.data.files import FORMATS
from onepass.data.findings import counted, short
from onepass.data.guesses import Guess
from onepass.data.roles import guess_roles, is_general
from onepass.errors import DataError, listed

log = logging.getLogger(__name__)
SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing"), "test"),
}
NO_DATA = ("dataset_info.json", "dataset_dict.json", "dataset_infos.json", "state.json")  # of the hub's library
_WORDS = "|".join(SPLITS)
_PART = re.compile(r"-(?:\d+|\*)-of-(\d+)$")  # as the hub and its library name the files that a table is parted into
_SPLIT_LAST = re.compile(rf"(?:(?P<name>.+)[-_. ])?(?P<split>{_WORDS})", re.IGNORECASE)
_SPLIT_FIRST = re.compile(rf"(?P<split>{_WORDS})[-_. ](?P<name>.+)", re.IGNORECASE)


@dataclass(eq=False)
class Source:
    """The files of one task, or of one wide table, by split, and the columns of each."""

    name: str
    files: dict[str, Path] = field(default_factory=dict)
    columns: dict[str, list[Column]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def move(self, split: str, to: str) -> None:
        self.files[to], self.columns[to] = self.files.pop(split), self.columns.pop(split)


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """The files given, and the data files in the folders given and one level below; each once."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted([*path.glob("*"), *path.glob("*/*")])
            seen = [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)]
            found = [
                file for file in seen if file.suffix.lower() in FORMATS and file.name not in NO_DATA and file.is_file()
            ]
            if not found:
                raise DataError(f"There is no data file in {path}. Files can be {', '.join(FORMATS)}.")
            files += found
        else:
            files.append(path)
    if not files:
        raise DataError(f"No data file was given. Files can be {', '.join(FORMATS)}.")
    return list(dict.fromkeys(files))


def find_sources(files: list[Path], named: Container[Path]) -> list[Source]:
    """The files, with those that are splits of one another joined, and a sample of each.

    One that cannot be read is a fault if it was `named`, and left out if it was found in a folder.
    """
    sources: dict[tuple[str, Path], Source] = {}
    faults, broken = [], []
    files = _with_parts_joined(files)
    for path in files:
        name, split, folder = _parted(path, files)
        source = sources.setdefault((name.casefold(), folder), Source(name))
        if split in source.files and split:
            source.notes.append(f"{short(path.name)} was left out: {short(source.files[split].name)} is its {split}.")
            continue
        if split in source.files:  # x.csv and x.jsonl
            source = sources[path.name, folder] = Source(name)
        source.files[split] = path
        try:
            source.columns[split] = sample_columns(path)
        except DataError as error:
            del source.files[split]
            broken.append((path, source, str(error)))
    for path, source, fault in broken:
        if (
            path in named or "*" in path.name or source.files
        ):  # without it another split of its task would take its place
            faults.append(fault)
        else:  # it only happens to lie there
            log.warning("%s It is left out.", fault)
    if faults:
        raise DataError(listed(faults))
    if not (found := [source for source in sources.values() if source.files]):
        raise DataError(f"There is no data file that can be read. Files can be {', '.join(FORMATS)}.")
    return found


def _parted(path: Path, files: list[Path]) -> tuple[str, str, Path]:
    """The name of what the file holds, its split or '', and the folder in which its other splits lie.

    x-train.csv, train_x.csv, x/train.csv and train/x.csv are all the split 'train' of 'x'.
    """
    folder = path.absolute().parent
    stem = _PART.sub("", path.stem)
    if match := _SPLIT_LAST.fullmatch(stem):
        return match["name"] or _name(folder.name, folder.parent) or "task", SPLITS[match["split"].casefold()], folder
    if match := _SPLIT_FIRST.fullmatch(stem):
        # Beside test.csv, train_partial.csv is no file of a task 'partial'.
        bare = any(file.absolute().parent == folder and file.stem.casefold() in SPLITS for file in files)
        return folder.name if bare else match["name"], SPLITS[match["split"].casefold()], folder
    if folder.name.casefold() in SPLITS:
        return _name(stem, folder.parent), SPLITS[folder.name.casefold()], folder.parent
    return _name(stem, folder), "", folder


def _name(stem: str, folder: Path) -> str:
    """The name of a file or a folder; on the hub most of them are called `data`."""
    return folder.name if stem == "data" and folder.name else stem


def _with_parts_joined(files: list[Path]) -> list[Path]:
    """The files, with one name with a star for all that are parts of one table."""
    joined = [path.with_name(_PART.sub(r"-*-of-\1", path.stem) + path.suffix) for path in files]
    return list(
        dict.fromkeys(name if joined.count(name) > 1 else path for path, name in zip(files, joined, strict=True))
    )


def with_shared_tests(sources: list[Source]) -> list[Source]:
    """Gives each task a file to train on, and test files that are wide tables to the tasks they hold labels for."""
    for source in sources:
        if "" in source.files and "train" not in source.files:  # politics.csv beside politics-test.csv
            source.move("", "train")
    trained = [source for source in sources if "train" in source.files]
    for source in sources:
        if source in trained:
            continue
        readers = [other for other in trained if _reads(other, source)]
        for other in readers:
            other.files = {**source.files, **other.files}
            other.columns = {**source.columns, **other.columns}
        if not readers:
            split = next(split for split in ("validation", "test") if split in source.files)
            source.move(split, "train")
            source.notes.append(f"No file for train was given; the one for {split} takes its place.")
    return [source for source in sources if "train" in source.files]


def _reads(source: Source, wide: Source) -> bool:
    """Whether a wide table has the columns of one of the tasks, and they tell which task is meant."""
    guesses = [guess for guess in guess_roles(source.columns["train"]) if not is_general(guess.label)]
    return any(not not_usable(columns, guess) for columns in wide.columns.values() for guess in guesses)


def not_usable(columns: list[Column], guess: Guess) -> str:
    """Why the file of these columns cannot be used for a split, if so."""
    by_name = {column.name: column for column in columns}
    for column in (*guess.text, guess.label):
        if column.name not in by_name:
            return f"it has no column {short(column.name)!r}"
    found = by_name[guess.label.name]
    if not found.filled:
        return f"its column {short(guess.label.name)!r} is blank"
    if guess.kind == "classification" and not found.counts.keys() & guess.label.counts.keys():
        return f"its labels are others, {counted(dict(found.counts.most_common()), 3)}"
    return ""
