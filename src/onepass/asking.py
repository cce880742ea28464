"""How texts are asked about tasks: what a model and its engine have in common.

Nothing here computes: who inherits says how word pieces become logits. No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, overload

from onepass.data.scalars import python_value
from onepass.encoder.tokenizer import Tokenizer
from onepass.errors import ConfigError, DataError, first_of, listed, unknown
from onepass.heads import Kind
from onepass.inquiry import Form, Inquiry, Pieces, Ranges
from onepass.prediction import Labelled, Prediction, Text
from onepass.tasks import Task

NO_RANGES: Ranges = {}


class Asking:
    """Answers tasks about texts: texts to word pieces, word pieces to logits, logits to predictions."""

    tokenizer: Tokenizer
    tasks: list[Task]
    kinds: list[Kind]
    records: list[dict[str, Any]]
    """What is known of each task's training: version, data fingerprint, rows, validation scores"""

    def logits_of(self, pieces: Sequence[Pieces], asked: Sequence[int], ranges: Ranges = NO_RANGES) -> Sequence[Any]:
        """For each task number of `asked` the logits of all sequences, in their order: (S, C).

        Of a task that reads tokens a list of (P, C), one for each of the `ranges` of a sequence.
        """
        raise NotImplementedError

    @overload
    def predict(  # type: ignore[overload-overlap]  # a text is also an iterable of texts, but is taken as one
        self, inputs: Text, tasks: Iterable[str] | None = None
    ) -> dict[str, Prediction]: ...
    @overload
    def predict(self, inputs: Iterable[Text], tasks: Iterable[str] | None = None) -> list[dict[str, Prediction]]: ...

    def predict(
        self, inputs: Text | Iterable[Text], tasks: Iterable[str] | None = None
    ) -> dict[str, Prediction] | list[dict[str, Prediction]]:
        """Answer every task (or those named) for a text, a pair of texts as a tuple, a row, or a list of these.

        Columns and tables of numpy, pandas, polars and pyarrow are lists, too: of texts and of rows.

        One input in, one dictionary out; a list in, a list of the same length and order out. A text is asked the tasks
        on single texts, a pair the tasks on pairs. A row is a mapping with columns as in the training data, such as
        {"question": ..., "context": ...}; it is asked the tasks whose columns it has.
        """
        if isinstance(inputs, (str, tuple, Mapping)):
            return self.label([inputs], tasks)[0].tasks
        _check_iterable(inputs)
        return [labelled.tasks for labelled in self.label(inputs, tasks)]

    def label(self, texts: Iterable[Text], tasks: Iterable[str] | None = None) -> list[Labelled]:
        """The inputs with their answers, in order. A text that comes twice is computed once."""
        texts = _listed(texts)
        chosen = self.numbers(tasks)  # first, so that a wrong name is said even where there is no text
        names = None if tasks is None else [self.tasks[number].name for number in chosen]
        forms = [Form.of(text, place) for place, text in enumerate(texts)]
        first: dict[Any, int] = {}
        same = [
            first.setdefault(id(text) if isinstance(text, Mapping) else _hashable(text), place)
            for place, text in enumerate(texts)
        ]
        by_form: dict[Form, list[int]] = {}
        for place in first.values():
            by_form.setdefault(forms[place], []).append(place)
        applicable = {form: self.fitting(form, names) for form in by_form}
        found: dict[int, Labelled] = {}
        for form, places in by_form.items():
            asked = [(number, self.tasks[number], self.kinds[number]) for number in applicable[form]]
            inquiry = Inquiry([texts[place] for place in places], asked, self.tokenizer, places)
            rows = zip(places, inquiry.answers(self.logits_of), inquiry.truncated, strict=True)
            found |= {place: Labelled(texts[place], answers, cut) for place, answers, cut in rows}
        # A dictionary for each text: who changes one must not change another.
        return [
            Labelled(text, dict(found[place].tasks), found[place].truncated)
            for text, place in zip(texts, same, strict=True)
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
        return self.fitting(Form(num_texts), names)

    def fitting(self, form: Form, names: Sequence[str] | None) -> list[int]:
        """The numbers of the tasks to ask of inputs of a form; an error if one that is named cannot be."""
        chosen = self.numbers(names)
        fitting = [number for number in chosen if form.fits(self.tasks[number], self.kinds[number])]
        if not fitting or (names is not None and len(fitting) < len(chosen)):
            left = [number for number in chosen if number not in fitting]
            needs = ", ".join(
                f"{self.tasks[n].name} ({' and '.join(self.kinds[n].inputs(self.tasks[n]))})" for n in left
            )
            raise ConfigError(f"{form} cannot answer: {needs}. Give these tasks what they read.")
        # In a table with holes a row may have the texts of some tasks only.
        whole = [number for number in fitting if not self.kinds[number].lacks(self.tasks[number], form.missing)]
        return whole if whole and names is None else fitting

    def numbers(self, names: Iterable[str] | None) -> list[int]:
        """The numbers of the tasks of these names, each once; of all tasks for None."""
        known = {task.name: number for number, task in enumerate(self.tasks)}
        names = known if names is None else [names] if isinstance(names, str) else names
        asked = list(names) if isinstance(names, Iterable) else names
        if not isinstance(asked, list) or not all(isinstance(name, str) for name in asked):
            raise ConfigError(f"tasks is {asked!r:.80}. Possible: a list of names, such as {first_of(sorted(known))}.")
        if faults := [unknown("task", str(name), known) for name in dict.fromkeys(asked) if name not in known]:
            raise ConfigError(listed(faults))
        if not asked:
            raise ConfigError(f"No task is asked. Known: {first_of(sorted(known)) or 'none'}.")
        return list(dict.fromkeys(known[name] for name in asked))


def _listed(texts: Any) -> list[Any]:
    """Texts as a list: the rows of a table, the values of a pyarrow column; anything else as it is iterated over.

    A table of pandas gives the names of its columns to who iterates over it.
    """
    if hasattr(texts, "to_pylist"):  # pyarrow
        try:
            return list(texts.to_pylist())
        except (ValueError, OverflowError):  # of times that Python has no words for, perhaps where no task reads
            cells = texts.to_struct_array() if hasattr(texts, "to_struct_array") else texts
            return [python_value(cell) for cell in cells]
    if hasattr(texts, "to_dicts"):  # polars
        return list(texts.to_dicts())
    if hasattr(texts, "to_dict") and hasattr(texts, "columns"):  # pandas
        return list(texts.astype(object).where(texts.notna(), None).to_dict("records"))
    return list(texts)


def _check_iterable(inputs: Any) -> None:
    if hasattr(inputs, "to_pylist"):
        return
    if isinstance(inputs, bytes) or not isinstance(inputs, Iterable):
        raise DataError(
            f"There is no text in {inputs!r:.80}. Give a string, two strings in a tuple for a pair, a row (a mapping "
            "with the columns that tasks read), or a list of these."
        )


def _hashable(text: Any) -> Any:
    return tuple(text) if isinstance(text, list) else text
