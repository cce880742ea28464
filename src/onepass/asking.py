"""How texts are asked about tasks: what a model and its engine have in common.

Nothing here computes: who inherits says how word pieces become logits. No torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onepass.encoder.tokenizer import Encoded, Tokenizer
from onepass.errors import ConfigError, DataError, listed, unknown
from onepass.heads import Kind
from onepass.prediction import Labelled, Prediction, Text
from onepass.tasks import Task


class Asking:
    """Answers tasks about texts: texts to word pieces, word pieces to logits, logits to predictions."""

    tokenizer: Tokenizer
    tasks: list[Task]
    kinds: list[Kind]
    records: list[dict[str, Any]]
    """What is known of each task's training: version, data fingerprint, rows, validation scores"""

    def logits_of(self, encoded: Sequence[Encoded], asked: Sequence[int]) -> list[np.ndarray]:
        """For each task number of `asked` the logits of all texts, (R, C), in the order of the texts."""
        raise NotImplementedError

    def predict(self, inputs: Text | Sequence[Text], tasks: Sequence[str] | None = None) -> Any:
        """Answer every task (or those named) for a text, a pair of texts as a tuple, or a list of either.

        One text in, one dictionary out; a list in, a list of the same length and order out. A text is asked the tasks
        on single texts, a pair the tasks on pairs.
        """
        if isinstance(inputs, (str, tuple)):
            return self.label([inputs], tasks)[0].tasks
        return [labelled.tasks for labelled in self.label(inputs, tasks)]

    def label(self, texts: Sequence[Text], tasks: Sequence[str] | None = None) -> list[Labelled]:
        """The texts with their answers, in order. A text that comes twice is computed once."""
        parts = [_parts(text, i) for i, text in enumerate(texts)]
        self.numbers(tasks)  # so that a wrong name is said even where there is no text
        different = list(dict.fromkeys(parts))
        applicable = {size: self.applicable(size, tasks) for size in {len(part) for part in different}}
        encoded = self.tokenizer.encode(different)
        answers: list[dict[str, Prediction]] = [{} for _ in different]
        for size, asked in applicable.items():
            rows = [row for row, part in enumerate(different) if len(part) == size]
            logits = self.logits_of([encoded[row] for row in rows], asked)
            for number, values in zip(asked, logits, strict=True):
                task = self.tasks[number]
                for row, prediction in zip(rows, self.kinds[number].decode(task, values), strict=True):
                    answers[row][task.name] = prediction
        row_of = {part: row for row, part in enumerate(different)}
        found = [row_of[part] for part in parts]
        # A dictionary for each text: who changes one must not change another.
        return [
            Labelled(text, dict(answers[row]), encoded[row].truncated) for text, row in zip(texts, found, strict=True)
        ]

    def with_versions(self, labelled: Sequence[Labelled]) -> list[Labelled]:
        """The same answers, each with the version of its task and the fingerprint of the data it learned from."""
        known = {task.name: record for task, record in zip(self.tasks, self.records, strict=True)}
        return [
            replace(
                one,
                tasks={
                    name: replace(answer, version=known[name].get("version", 1), data=known[name].get("data"))
                    for name, answer in one.tasks.items()
                },
            )
            for one in labelled
        ]

    def applicable(self, num_texts: int, names: Sequence[str] | None) -> list[int]:
        """The numbers of the tasks to ask of a text (1) or a pair (2)."""
        chosen = self.numbers(names)
        fitting = [number for number in chosen if len(self.tasks[number].text) == num_texts]
        if not fitting or (names is not None and len(fitting) < len(chosen)):
            needs = ", ".join(
                f"{self.tasks[n].name} ({' and '.join(self.tasks[n].text)})" for n in chosen if n not in fitting
            )
            given = "a single text" if num_texts == 1 else f"{num_texts} texts together"
            raise ConfigError(f"{given} cannot answer: {needs}. Give these tasks as many texts as they have columns.")
        return fitting

    def numbers(self, names: Sequence[str] | None) -> list[int]:
        """The numbers of the tasks of these names, each once; of all tasks for None."""
        known = {task.name: number for number, task in enumerate(self.tasks)}
        names = [names] if isinstance(names, str) else list(known) if names is None else names
        if faults := [unknown("task", name, known) for name in dict.fromkeys(names) if name not in known]:
            raise ConfigError(listed(faults))
        if not names:
            raise ConfigError(f"No task is asked. Known: {', '.join(sorted(known)) or 'none'}.")
        return list(dict.fromkeys(known[name] for name in names))


def _parts(text: Any, place: int) -> tuple[str, ...]:
    """The strings of a text or of a pair."""
    parts = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, (tuple, list)) else ()
    if not parts or not all(isinstance(part, str) for part in parts):
        raise DataError(f"Text {place + 1} is {text!r:.80}. Give a string, or two strings in a tuple for a pair.")
    return parts
