"""What a model is asked about the rows of a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onepass.errors import DataError
from onepass.filejob.questions import Questions
from onepass.filejob.records import Row
from onepass.heads import make_kind
from onepass.prediction import Labelled, Prediction
from onepass.tasks import Task

TASKS = [
    Task(name="topic", text="text", label="topic", labels=["a", "b"]),
    Task(name="names", kind="tagging", text="text", label="names", labels=["O", "B-place"]),
    Task(name="sense", kind="words", text="text", label="s", labels=["a", "b"], options={"words": ["word"]}),
    Task(name="best", kind="choice", text="text", label="n", options={"choices": ["c1", "c2"]}),
]


class Asked:
    """Notes what it is asked, and answers nothing."""

    def __init__(self) -> None:
        self.tasks = TASKS
        self.given: list[tuple[list[Any], list[str]]] = []

    def numbers(self, names: Sequence[str] | None) -> list[int]:
        return [number for number, task in enumerate(TASKS) if names is None or task.name in names]

    def applicable(self, num_texts: int, names: Sequence[str] | None) -> list[int]:
        return [n for n in self.numbers(names) if make_kind(TASKS[n]).num_texts(TASKS[n]) == num_texts]

    def label(self, texts: Sequence[Any], tasks: Sequence[str] | None = None) -> list[Labelled]:
        self.given.append((list(texts), list(tasks or ())))
        return [Labelled(text, {name: Prediction(None) for name in tasks or ()}) for text in texts]


def asked(rows: Sequence[dict[str, Any]], **options: Any) -> tuple[list[list[str]], list[str], Asked]:
    """The tasks that each row was asked, why others were rejected, and what the model was given."""
    model = Asked()
    columns = list(dict.fromkeys(column for row in rows for column in row))
    questions = Questions(model, Path("in.jsonl"), columns, **options)
    done, rejects = questions.label([Row(number, number, row, 1) for number, row in enumerate(rows, 1)])
    return [list(answers) for _, answers in done], [reject.reason for reject in rejects], model


def test_a_hole_in_what_one_task_reads_costs_the_others_nothing() -> None:
    whole = {"text": "late goal", "word": "goal", "c1": "yes", "c2": "no"}
    rows = [whole, whole | {"word": None}, whole | {"c1": "", "c2": None}, whole | {"c2": None}]
    found, rejects, _ = asked(rows)
    everything = ["topic", "names", "sense", "best"]
    without = [[name for name in everything if name != left] for left in ("", "sense", "best", "")]
    assert [sorted(names) for names in found] == [sorted(names) for names in without] and rejects == []


def test_a_row_without_what_the_only_task_reads_is_rejected() -> None:
    found, rejects, _ = asked([{"text": "late goal", "word": None}], tasks=["sense"])
    assert found == [] and rejects == ["there is no text in 'word'."]


def test_words_of_another_column_are_given_as_that_of_the_task() -> None:
    rows = [{"body": ["late", "goal"]}, {"body": "late goal"}]
    found, rejects, model = asked(rows, text=["body"], tasks=["names"])
    assert found == [["names"], ["names"]] and rejects == []
    assert model.given == [([{"text": ["late", "goal"]}, "late goal"], ["names"])]


class Choosy(Asked):
    """Refuses all texts of a call if one is bad, as a model does."""

    def label(self, texts: Sequence[Any], tasks: Sequence[str] | None = None) -> list[Labelled]:
        if "bad" in texts:
            raise DataError(f"Text {list(texts).index('bad') + 1}: task 'topic' is not amused.")
        return super().label(texts, tasks)


def test_a_text_that_the_model_refuses_costs_its_row_alone() -> None:
    rows = [{"text": text} for text in ("a", "b", "bad", "c", "bad", "d")]
    questions = Questions(Choosy(), Path("in.jsonl"), ["text"], tasks=["topic"])
    done, rejects = questions.label([Row(number, number, row, 1) for number, row in enumerate(rows, 1)])
    assert [row.number for row, _ in done] == [1, 2, 4, 6]
    assert [(reject.number, reject.reason) for reject in rejects] == [
        (3, "task 'topic' is not amused."), (5, "task 'topic' is not amused."),
    ]  # fmt: skip


def test_a_reject_names_the_task_that_cannot_read_the_row() -> None:
    found, rejects, _ = asked([{"text": ["late", "goal"]}], tasks=["names", "topic"])
    assert found == [] and rejects[0].startswith("task 'topic' has a list in 'text'")
