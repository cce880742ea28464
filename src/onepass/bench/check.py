"""One thing that was looked at, and whether it is as it should be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Check:
    """One thing a server should stand: what was found, and whether that is enough."""

    name: str
    what: str
    found: dict[str, Any] = field(default_factory=dict)
    goals: dict[str, bool] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return all(self.goals.values())

    def told(self) -> dict[str, Any]:
        return {"name": self.name, "what": self.what, "met": self.met, "goals": self.goals, "found": self.found}
