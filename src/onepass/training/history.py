"""What each evaluation of a training found: one record a time, and the line that says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onepass.training.evaluation import average


def history_record(
    stage: str, epoch: float, losses: Mapping[str, float], scores: Mapping[str, dict[str, Any]], best: bool
) -> dict[str, Any]:
    """One entry of `training_record["history"]`; losses are those since the last one, scores in percent."""
    return {
        "stage": stage,
        "epoch": round(epoch, 2),
        "average": average(scores),
        "losses": dict(losses),
        "scores": {name: result["score"] for name, result in scores.items()},
        "best": best,
    }


def spoken(record: Mapping[str, Any], epoch: float) -> str:
    """A record as a line of a log."""
    worst = min(record["scores"], key=record["scores"].__getitem__)
    losses = list(record["losses"].values())  # none before the first step
    return (
        f"{record['stage']}, epoch {epoch:.4g}: mean {record['average']:.1f}, worst {record['scores'][worst]:.1f} "
        f"({worst}){f', loss {np.mean(losses):.3f}' if losses else ''}{', best so far' if record['best'] else ''}"
    )
