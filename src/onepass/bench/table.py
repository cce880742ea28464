"""A table of a paper, as a configuration describes it.

A configuration names the table's rows, each a method with its options, and what the paper reports for it. Its encoder
and recipe (`published`) are used only when asked for: they are for the paper's own benchmark, not for small suites.

    title: MTOP, table 3 ...
    paper: arXiv:2205.10744
    protocol: train                # or new_task, removal, one_by_one
    published: {encoder: ..., train: {...}, target_train: {...}}
    groups: {small: [rte, mrpc]}   # means over some tasks, where the suite has them
    new: [scitail]                 # the tasks that come later; suites without them take a quarter of their own
    orders: [[mnli, qqp], ...]     # one_by_one: the order of the sources for each seed, where the suite has them
    rows:
    - {name: MT-DNN, method: mtdnn, paper: {average: 86.0}}
    - {name: ..., method: {name: mtop, prompts: single}, train: {sampler: annealed}, paper: {average: 87.4}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from onepass.bench.transfer import PROTOCOLS
from onepass.errors import ConfigError, listed, unknown
from onepass.plain_yaml import parse
from onepass.tasks import MethodChoice, TaskFile

PUBLISHED = ("encoder", "train", "target_train")
Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One line of a paper's table."""

    name: str
    method: str | dict[str, Any] | None = None
    """None: the paper's figures alone, of a system that is not here"""
    train: dict[str, Any] = field(default_factory=dict)
    """Training options that make the row what it is, as its sampler"""
    without: tuple[str, ...] = ()
    """Tasks that are left out of the training; where the suite has none of them, as many from its end"""
    ways: tuple[dict[str, Any], ...] = ()
    """new_task: how the new tasks are learned (see onepass.analysis.transfer.NewTask)"""
    base: bool = True
    """new_task: whether the other tasks are trained first"""
    paper: Figures = field(default_factory=dict)

    @property
    def choice(self) -> MethodChoice:
        given = {"name": self.method} if isinstance(self.method, str) else dict(self.method or {})
        return MethodChoice(name=str(given.pop("name", "readers")), options=given)

    @property
    def method_text(self) -> str:
        """As `onepass bench accuracy --methods` takes it."""
        options = ",".join(f"{key}={json.dumps(value).strip(chr(34))}" for key, value in self.choice.options.items())
        return f"{self.choice.name}:{options}" if options else self.choice.name


@dataclass(frozen=True)
class Table:
    """A paper's table."""

    title: str
    paper: str
    rows: tuple[Row, ...]
    protocol: str = "train"
    published: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    orders: tuple[Sequence[str], ...] = ()
    note: str = ""


def read_table(path: str | Path) -> Table:
    """A configuration; all its faults are raised at once."""
    given = _mapping(path)
    rows = [dict(row) if isinstance(row, dict) else {"name": str(row)} for row in given.pop("rows")]
    if faults := _key_faults(given, rows):
        raise ConfigError(f"{path}: {listed(faults)}")
    try:
        table = TypeAdapter(Table).validate_python({**given, "rows": rows})
    except ValidationError as error:
        faults = [f"{_place(fault['loc'])}: {fault['msg']}." for fault in error.errors()]
        raise ConfigError(f"{path}: {listed(faults)}") from None
    if faults := table_faults(table):
        raise ConfigError(f"{path}: {listed(faults)}")
    return table


def _mapping(path: str | Path) -> dict[str, Any]:
    """What a configuration's YAML holds, with a list of rows."""
    try:
        document = parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text. Give a table of configs/papers.") from None
    faults = [f"line {line}: {what}" for line, what in document.faults]
    if faults or not isinstance(document.value, dict) or not isinstance(document.value.get("rows"), list):
        raise ConfigError(f"{path} is no paper's table: {listed(faults) if faults else 'it has no list of rows.'}")
    return document.value


def _key_faults(given: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    faults = [unknown("key", key, _names(Table)) for key in given if key not in _names(Table)]
    faults += [unknown("key of a row", key, _names(Row)) for row in rows for key in row if key not in _names(Row)]
    faults += [f"{key} is missing." for key in ("title", "paper") if key not in given]
    names = [str(row.get("name")) for row in rows]
    return faults + [f"two rows are named {name!r}." for name in dict.fromkeys(names) if names.count(name) > 1]


def _place(keys: Sequence[str | int]) -> str:
    """
    >>> _place(["rows", 0, "train"])
    'rows, 1, train'
    """
    return ", ".join(str(key + 1) if isinstance(key, int) else key for key in keys)


def table_faults(table: Table) -> list[str]:
    """What names no method, option, protocol or way that there is."""
    from onepass.analysis.transfer import NewTask
    from onepass.methods import method_faults
    from onepass.training.options import check_train

    faults = []
    if table.protocol not in ("train", *PROTOCOLS):
        faults.append(unknown("protocol", table.protocol, ("train", *PROTOCOLS)))
    faults += [unknown("key of published", key, PUBLISHED) for key in table.published if key not in PUBLISHED]
    for options in (table.published.get("train", {}), table.published.get("target_train", {})):
        faults += check_train(TaskFile(path=Path(), tasks={}, train=options))
    for row in (row for row in table.rows if row.method is not None):
        file = TaskFile(path=Path(), tasks={}, train=row.train)
        faults += [f"{row.name}: {fault}" for fault in (*method_faults(row.choice, 0), *check_train(file))]
        strange = {key for way in row.ways for key in way if key not in _names(NewTask)}
        faults += [f"{row.name}: {unknown('key of a way', key, _names(NewTask))}" for key in sorted(strange)]
    return faults


def _names(kind: type) -> list[str]:
    return [item.name for item in fields(kind)]
