"""A task file while it is read: its values as they are written, and where each of them stands."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from onepass.errors import ConfigError, listed, unknown
from onepass.tasks.file import TOP_KEYS
from onepass.tasks.paths import ONCE, encoder_path, similar, whole_path, with_whole_paths
from onepass.tasks.task import FILE_KEYS, shown

Place = tuple[str, ...]  # as in plain_yaml, which is imported with a task file: who asks a model needs no YAML
TEXT_KEYS = ("kind", "text", "label", "labels", "metric", "group")
DATA_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather")
MAX_BYTES = 8 * 2**20  # a task file has some kilobytes; more is a data file given by mistake


class Draft:
    """A task file being read: its values, the line of each key, the faults so far."""

    def __init__(self, path: Path, data: dict[str, Any], origins: dict[Place, str]) -> None:
        self.path, self.data, self.origins = path, data, origins
        self.faults: list[str] = []

    @classmethod
    def read(cls, path: Path) -> "Draft":
        from onepass.plain_yaml import parse

        document = parse(_read(path), as_written=_is_text)
        faults = [f"{path}, line {line}: {what}" if line else f"{path}: {what}" for line, what in document.faults]
        if faults:
            raise ConfigError(listed(faults))
        if not isinstance(document.value, dict):
            found = shown(document.value)
            raise ConfigError(f"{path} is {found}. A task file is a mapping with the keys {', '.join(TOP_KEYS)}.")
        return cls(path, document.value, {place: f"{path}, line {line}" for place, line in document.lines.items()})

    @classmethod
    def given(cls, values: Mapping[str, Any], what: str) -> "Draft":
        """Of values from Python or the command line; paths in them start at the working folder."""
        return cls(Path.cwd() / "given", _as_written(values), {(): what})

    def fault(self, place: Place, what: str) -> None:
        while place and place not in self.origins:
            place = place[:-1]
        self.faults.append(f"{self.origins.get(place, self.path)}: {what}")

    def override(self, text: str) -> None:
        """Applies one override, or notes what is wrong with it."""
        from onepass.plain_yaml import parse

        key, equals, value = text.partition("=")
        place = self._place(key.strip())
        document = parse(value, place, _is_text)
        problem = document.faults[0][1] if document.faults else self._cannot_override(place)
        if not equals or not all(place):
            problem = "write it as key=value, for example train.epochs=1."
        if problem:
            self.faults.append(f"override {text!r}: {problem}")
            return
        self.origins[place] = f"override {text!r}"
        holder = self.data
        for step in place[:-1]:
            inner = holder.get(step)
            if step in ("method", "sampler") and isinstance(inner, str):
                inner = {"name": inner}
            # A copy: with YAML's aliases two tasks can share one mapping.
            holder[step] = dict(inner) if isinstance(inner, dict) else {}
            holder = holder[step]
        here = Path.cwd()
        is_file = place[0] == "tasks" and place[2:] in [(key,) for key in FILE_KEYS]
        found = whole_path(document.value, here) if is_file else document.value
        found = encoder_path(found, here) if place == ("encoder",) else found
        if place == ("train",) and isinstance(found, dict):
            found = with_whole_paths(found, here)
        elif place[0] == "train":
            found = with_whole_paths({place[-1]: found}, here, part=len(place) > 2)[place[-1]]
        holder[place[-1]] = found

    def _place(self, key: str) -> Place:
        head, dot, rest = key.partition(".")
        if head == "tasks" and dot:
            # A task's name may have dots, so the known ones are looked for first, the longest before the others.
            tasks = self.data.get("tasks")
            known = sorted(map(str, tasks if isinstance(tasks, dict) else ()), key=len, reverse=True)
            if name := next((name for name in known if rest.startswith(f"{name}.")), ""):
                return (head, name, *rest[len(name) + 1 :].split("."))
            name, _, last = rest.rpartition(".")
            return (head, name, last) if name else (head, rest)
        steps = tuple(rest.split(".")) if dot else ()
        if head == "train":
            return (head, *steps)
        if not head or get_close_matches(head, TOP_KEYS, n=1, cutoff=0.85):
            return (head, rest) if dot else (head,)
        return ("train", head, *steps)

    def _cannot_override(self, place: Place) -> str:
        if place[0] not in TOP_KEYS:
            return unknown("key", place[0], TOP_KEYS)
        if place[0] != "tasks":
            return ""
        if len(place) < 3:
            return "write it as tasks.NAME.KEY=value."
        tasks = self.data.get("tasks")
        known = list(tasks) if isinstance(tasks, dict) else []
        return "" if place[1] in known else unknown("task", place[1], known)


def _as_written(value: Any) -> Any:
    """A value from Python as a file would have it: names and paths as texts, all mappings and lists alike."""
    if isinstance(value, Mapping):
        return {str(key): _as_written(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_written(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _is_text(place: Place) -> bool:
    return len(place) > 2 and place[0] == "tasks" and (place[2] in TEXT_KEYS or place[2:] == ("threshold", "label"))


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            if (path / "config.json").is_file():
                raise ConfigError(f"{path} is a trained model. Give the task file that it was trained from.")
            raise ConfigError(f"{path} is a folder. Give the task file in it.")
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} {ONCE}")
        if not path.is_file():
            raise ConfigError(f"There is no task file {path}.{similar(path)}")
        if path.suffix.lower() in DATA_SUFFIXES or path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} is no task file but data. Write a task file for it with: onepass init {path}")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
        raise ConfigError(f"{path}, line {line}: byte 0x{byte:02x} is not UTF-8. Save the file as UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
