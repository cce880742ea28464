"""What a data check reports: counts of rows and labels, and findings, as text or as plain values."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Finding:
    """One thing that was found in the data of a task."""

    severity: Literal["fault", "warning"]
    """"fault": training would refuse the data; "warning": it would train, perhaps not on what is meant"""
    task: str
    sort: str
    """A short name that stays the same, for programs: "duplicates", "unknown label" """
    found: str
    advice: str
    file: str = ""
    rows: tuple[int, ...] = ()
    """The first rows concerned, from 1, the header not counted"""
    count: int = 0
    """How many rows are concerned in all"""

    def __str__(self) -> str:
        where = f" ({self.file}{_rows_shown(self.rows, self.count)})" if self.file else ""
        return f"{self.severity}: task {self.task!r} {self.found}{where}. {self.advice}".rstrip()


@dataclass
class Counts:
    """How many rows a task has in each split, and how many of each label."""

    kind: str
    rows: dict[str, int] = field(default_factory=dict)
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    """By split; most frequent first; empty for kinds without labels"""
    validation_share: float | None = None


@dataclass
class Report:
    """What the data of a task file hold, and what is wrong or odd about them."""

    file: str
    tasks: dict[str, Counts]
    findings: list[Finding]

    @property
    def faults(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "fault"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "warning"]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, for `onepass check --json`."""
        return {
            "file": self.file,
            "tasks": {name: asdict(counts) for name, counts in self.tasks.items()},
            "faults": [asdict(finding) for finding in self.faults],
            "warnings": [asdict(finding) for finding in self.warnings],
        }

    def lines(self) -> list[str]:
        """The report for reading: each task's rows and labels, then faults, then warnings, then their number."""
        lines = []
        for name, counts in self.tasks.items():
            sizes = [f"{split} {number:,}" for split, number in counts.rows.items()]
            if counts.validation_share is not None and "train" in counts.rows:
                sizes.insert(1, f"validation {counts.validation_share:g} of train")
            lines.append(f"{name} ({counts.kind}): {', '.join(sizes) or 'no rows'}")
            lines += [f"  {split}: {counted(labels, 12)}" for split, labels in counts.labels.items() if labels]
        lines += map(str, [*self.faults, *self.warnings])
        lines.append(f"{numbered(len(self.faults), 'fault')}, {numbered(len(self.warnings), 'warning')}.")
        return lines


def short(text: str) -> str:
    """A label or a name on one line, whatever characters and however many of them it has."""
    text = text if len(text) <= 80 else text[:77] + "..."
    return text if text.isprintable() else ascii(text)[1:-1]


def numbered(count: int, noun: str) -> str:
    """
    >>> numbered(1, "row"), numbered(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def enumerated(names: Iterable[str], shown: int = 10) -> str:
    """The first names, each on one line, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(map(short, names[:shown])) + more


def counted(counts: Mapping[str, int], shown: int) -> str:
    """
    >>> counted({"sport": 12, "politics": 3}, shown=1)
    'sport (12) and 1 more'
    """
    return enumerated([f"{short(name)} ({count:,})" for name, count in counts.items()], shown)


def _rows_shown(rows: tuple[int, ...], count: int) -> str:
    if not rows:
        return ""
    more = ", ..." if count > len(rows) else ""
    return f", row{'s' if count > 1 else ''} {', '.join(map(str, rows))}{more}"
