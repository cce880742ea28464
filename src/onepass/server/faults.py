"""Faults on purpose, for the tests: with ONEPASS_SERVER_FAULTS=1 some texts break the worker that reads them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any

SWITCH = "ONEPASS_SERVER_FAULTS"


class Faulty:
    """A model that raises, answers NaN, hangs or dies when a text says so, and is the given model otherwise."""

    def __init__(self, model: Any):
        self.model, self.broken = model, False

    def label(self, texts: Sequence[Any], tasks: Sequence[str] | None = None) -> list[Any]:
        words = " ".join(str(text) for text in texts)
        self.broken |= "fault:break" in words  # as a device after a fault: from then on nothing works
        if "fault:raise" in words or self.broken:
            raise RuntimeError(f"a fault on purpose about {words}")  # the words must not reach a log
        if "fault:hang" in words:
            time.sleep(3600)
        if "fault:kill" in words:
            os.kill(os.getpid(), signal.SIGKILL)
        if "fault:slow" in words:
            time.sleep(0.2)
        answers = self.model.label(texts, tasks)
        if "fault:nan" in words:
            for text, answer in zip(texts, answers, strict=True):
                if "fault:nan" in text:
                    for prediction in answer.tasks.values():
                        object.__setattr__(prediction, "score", float("nan"))
        return answers


def faulty(model: Any) -> Any:
    """The model, with faults where the environment asks for them."""
    return Faulty(model) if os.environ.get(SWITCH) else model
