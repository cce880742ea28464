"""A loaded model and what answers say beside its predictions."""

from __future__ import annotations

import math
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onepass.atomic import listed_files
from onepass.errors import ConfigError, OnepassError
from onepass.loading import engine_answers, load
from onepass.server.exchange import Answers, probed
from onepass.server.faults import faulty
from onepass.server.folder import Unstable, describe, revision_of
from onepass.server.forms import fits, form_of
from onepass.server.sizes import keep_short

ABSTAINED = "(abstained)"
SHORT, TOGETHER = (6, 10, 14, 18), 6  # words of a text, and texts of a batch, that a worker is made ready for
PAUSE = 5  # between two passes while another worker answers, in times of the one before


class Served:
    """A loaded model and what answers say beside its predictions."""

    def __init__(
        self,
        folder: Path,
        abstain_below: float = 0.0,
        threads: int = 1,
        device: str = "cpu",
        before: Served | None = None,
    ):
        """`before` is an earlier version, of which is taken over what is the same."""
        self.revision = revision_of(folder)
        self.files = listed_files(folder)
        self.described = describe(folder)
        self.loaded: Any = load_model(folder, threads, device, before.loaded if before else None)
        keep_short(self.loaded.kinds, self.described["max_length"])
        self.model = faulty(self.loaded)
        if revision_of(folder) != self.revision:
            raise Unstable(f"{folder} was replaced while it was read.")
        self.abstain_below = abstain_below
        self.times: dict[str, float] = before.times if before else {}
        self.prepared: frozenset[int] = before.prepared if before else frozenset()
        """Numbers of tasks for which batches were run: the runtime takes longer for each new shape"""
        self._probed: Answers | None = None
        self.tasks = {task["name"]: task for task in self.described["tasks"]}
        self.labels = {name: frozenset(task["labels"]) for name, task in self.tasks.items()}

    def answer(self, items: Sequence[dict[str, Any]]) -> list[dict[str, Any] | str]:
        """For each item its answer, or the code of what went wrong; inputs of the same form run together.

        Rows only with those that are asked the same: a text is read once whatever is asked, a row for every task.
        """
        results: list[dict[str, Any] | str] = ["failed"] * len(items)
        forms: dict[Any, list[int]] = {}
        for place, item in enumerate(items):
            if any(name not in self.tasks for name in item["tasks"] or ()):
                results[place] = "unknown_task"  # it was there when the request came in
            else:
                asked = tuple(item["tasks"] or ()) if isinstance(item["text"], dict) else ()
                forms.setdefault((form_of(item["text"]), asked), []).append(place)
        for places in forms.values():
            self._together(items, places, results)
        return results

    def _together(
        self, items: Sequence[dict[str, Any]], places: list[int], results: list[dict[str, Any] | str]
    ) -> None:
        """Answer items in one call; if it fails, in two halves, so that one text cannot fail its neighbours."""
        texts = [tuple(text) if isinstance(text := items[place]["text"], list) else text for place in places]
        asked = [items[place]["tasks"] for place in places]
        everything = any(names is None for names in asked)
        union = None if everything else list(dict.fromkeys(name for names in asked for name in names))
        try:
            found = self.model.label(texts, union)
        except Exception as error:  # noqa: BLE001  whatever a model can raise about a text
            if len(places) == 1:
                known = isinstance(error, OnepassError)  # a row with something missing, for example
                results[places[0]] = "cannot_answer" if known else "failed"
                if not known:
                    _report(error)
                return
            half = len(places) // 2
            self._together(items, places[:half], results)
            self._together(items, places[half:], results)
        else:
            for place, names, labelled in zip(places, asked, found, strict=True):
                results[place] = self._answer(labelled, names)

    def _answer(self, labelled: Any, names: Sequence[str] | None) -> dict[str, Any] | str:
        tasks = {}
        for name in labelled.tasks if names is None else names:
            if name not in labelled.tasks:  # since it was asked, the task of this name has come to read something else
                return "cannot_answer"
            known, prediction = self.tasks[name], labelled.tasks[name].to_dict()
            if not _finite([prediction.get(key) for key in ("label", "score", "scores", "spans")]):
                return "not_finite"
            score = prediction["score"]
            unsure = score is not None and score < self.abstain_below
            said: dict[str, Any] = {"threshold": None, "abstained": False} | prediction
            if unsure and not said["abstained"]:
                said |= {"abstained": True, "reason": f"less probable than {self.abstain_below:g}"}
            tasks[name] = said | {"version": known["version"]}
        return {"tasks": tasks, "truncated": labelled.truncated}

    @property
    def reopens(self) -> bool:
        """Whether the next version can be had from this one, sooner than from the disk; only engines can."""
        return hasattr(self.loaded, "reopened")

    @property
    def padding(self) -> int:
        """Tokens of padding that were run so far; only engines know."""
        return int(getattr(self.loaded, "padding", 0))

    def probed(self, pause: float = 0.0) -> Answers:
        """What the tasks say to texts that are the same for every version."""
        if self._probed is None:
            self._probed = probed(self.loaded, pause)
        return self._probed

    def tasks_kept(self, before: Served) -> list[str]:
        """The tasks that are the same, file by file, in an earlier version with the same encoder and method."""
        now, then = (
            {name: sha for name, sha in served.files.items() if name.startswith(("encoder.", "method.", "tokenizer."))}
            for served in (self, before)
        )
        weights = "tasks/{}/weights.safetensors".format
        same = [name for name in self.tasks if self.files[weights(name)] == before.files.get(weights(name))]
        return same if now == then else []

    def count(self, results: Sequence[dict[str, Any] | str]) -> dict[str, dict[str, int]]:
        """How often each task gave each of its labels; answers that are pieces of a text are not counted."""
        counts: dict[str, Counter[str]] = {}
        for result in results:
            for name, answer in result["tasks"].items() if isinstance(result, dict) else ():
                given = answer["label"] if isinstance(answer["label"], list) else [answer["label"]]
                labels = [label for label in given if isinstance(label, str) and label in self.labels[name]]
                counts.setdefault(name, Counter()).update([ABSTAINED] if answer["abstained"] else labels)
        return {name: dict(counter) for name, counter in counts.items()}

    def probe(self, words: int = 1, number: int | None = None) -> Any:
        """An input that some task answers: a text, a pair where there are only tasks on pairs, else a row.

        Those of different numbers differ: the same one twice would be computed once.
        """
        text = " ".join(["probe"] * words if number is None else [str(number), *["probe"] * (words - 1)])
        texts = {task["texts"] for task in self.tasks.values()}
        if 1 in texts or 2 in texts:
            return text if 1 in texts else [text, text]
        return dict.fromkeys(next(iter(self.tasks.values()))["reads"], text)

    def warm_up(self, pause: float = 0) -> None:
        """Run passes, which also tells how long they take; if that is known from the version before, only the first.

        With pauses of so many times a pass: the runtime's threads are as important as those of the worker that answers
        meanwhile.
        """
        text = self.probe(24)
        name = next(name for name, task in self.tasks.items() if fits(form_of(text), task))
        every, one = {"text": text, "tasks": None}, {"text": text, "tasks": [name]}
        eight = [{"text": self.probe(24, number), "tasks": None} for number in range(8)]
        for given in [text, [text, text]] if {1, 2} <= {task["texts"] for task in self.tasks.values()} else [text]:
            (first,) = self._proven([{"text": given, "tasks": None}])
            for task, answer in first["tasks"].items() if isinstance(first, dict) else ():
                self.tasks[task]["several"] = isinstance(answer["label"], list)
        if self.times:
            return
        times: dict[str, list[float]] = {"pass_ms": [], "one_task_ms": [], "eight_ms": []}
        for _ in range(5):
            for key, items in (("pass_ms", [every]), ("one_task_ms", [one]), ("eight_ms", eight)):
                times[key].append(self._timed(items, pause))
        found = {key: min(values) for key, values in times.items()}  # other programs only ever add to a time
        tokens = 8 * min(26 * max(1, form_of(text)[0]), self.described["max_length"])
        self.times = {
            "pass_ms": found["pass_ms"],
            "one_task_ms": found["one_task_ms"],
            "tokens_per_s": 1000 * tokens / found["eight_ms"],
        }

    def prepare(self) -> None:
        """Run small batches of short texts, whose shapes are new to the runtime: nobody waits yet."""
        if len(self.tasks) in self.prepared:
            return
        for words in SHORT:
            for count in range(1, TOGETHER + 1):
                self._timed([{"text": self.probe(words, number), "tasks": None} for number in range(count)], PAUSE)
        self.prepared |= {len(self.tasks)}

    def _timed(self, items: list[dict[str, Any]], pause: float = 0) -> float:
        start = time.perf_counter()
        self._proven(items)
        seconds = time.perf_counter() - start
        time.sleep(pause * seconds)
        return 1000 * seconds

    def _proven(self, items: list[dict[str, Any]]) -> list[dict[str, Any] | str]:
        """Answers to inputs of our own, without which the model is refused."""
        found = self.answer(items)
        faults = [result for result in found if isinstance(result, str)]
        # A row of nothing but a word may be one that its tasks cannot read; a text never is.
        if faults and not (isinstance(items[0]["text"], dict) and set(faults) == {"cannot_answer"}):
            raise OnepassError(f"The model cannot answer a first text ({faults[0]}). It was not taken over.")
        return found


def load_model(folder: Path, threads: int, device: str = "cpu", before: Any = None) -> Any:
    """The exported engine of a model where there is one and it runs on the CPU, else the model."""
    if engine_answers(folder, device):
        return before.reopened(folder) if before is not None else load(folder, engine=True, threads=threads)
    try:
        return load(folder, device)
    except RuntimeError as error:  # torch: no such device
        raise ConfigError(f"The model cannot be put on {device}: {str(error).splitlines()[0]}") from None


def _finite(value: Any) -> bool:
    """Whether all numbers of an answer, or of a part of it, are."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return not isinstance(value, list) or all(map(_finite, value))


def _report(error: BaseException) -> None:
    """Where an error came from, without its message: that may hold a text."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = ", ".join(f"{Path(place.filename).name}:{place.lineno}" for place in frames)
    sys.stderr.write(f"worker: {type(error).__name__} at {where}\n")
    sys.stderr.flush()
