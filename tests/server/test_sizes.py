"""How much is read of inputs, and what is too much."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import onepass
from onepass.asking import Asking
from onepass.inquiry import Pieces
from onepass.server.folder import describe
from onepass.server.replies import Refused
from onepass.server.served import Served
from onepass.server.sizes import Reader

MOST = 20
LONG = "late goal wins the match . " * 400


@pytest.fixture(scope="module")
def engine(rows_model: Path) -> Any:
    return onepass.load(rows_model, engine=True, threads=1)


@pytest.fixture(scope="module")
def reader(rows_model: Path, engine: Any) -> Reader:
    return Reader(engine.tokenizer, describe(rows_model)["definitions"])


def run(engine: Asking, given: Any, tasks: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The tokens that an input is when it is answered."""
    tokens, logits_of = 0, engine.logits_of

    def counted(pieces: list[Pieces], *rest: Any) -> Any:
        nonlocal tokens
        tokens += sum(map(len, pieces))
        return logits_of(pieces, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "logits_of", counted)
        engine.label([given], tasks)
    return tokens


NAMES = ["goal", "late goal", "vote ?", 7, 2.5]
ROWS: list[tuple[dict[str, Any], list[str]]] = [
    ({"text": "late goal", "names": NAMES}, ["pick"]),
    ({"text": "late goal", "names": json.dumps(NAMES)}, ["pick"]),
    ({"text": LONG, "names": NAMES}, ["pick"]),
    ({"text": LONG, "names": list(range(MOST))}, ["pick"]),
    ({"text": "late goal", "names": ["goal", "goal", "", None, " goal "]}, ["pick"]),
    ({"text": "late goal", "names": NAMES}, ["pick", "topic"]),
    ({"text": "@x wins @x ? @x", "names": ["goal", "the late match", LONG]}, ["fill"]),
    ({"text": "@x wins", "names": ["goal", "match"]}, ["fill", "pick", "topic"]),
    ({"text": "late", "one": "goal", "other": "why is it bad"}, ["two"]),
    ({"text": "late", "other": "why is it bad", "more": "not read " * 100}, ["same", "topic"]),
    ({"text": "late", "other": LONG}, ["same"]),
    ({"text": "late goal wins", "word": "win"}, ["word", "topic"]),
    ({"said": ["late", "goal"]}, ["tags"]),
]


@pytest.mark.parametrize(("row", "tasks"), ROWS)
def test_what_will_be_run_is_counted(
    reader: Reader, engine: Any, row: dict[str, Any], tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (size,) = reader.measured([row], tasks, MOST)
    assert size == run(engine, row, tasks, monkeypatch)


def test_windows_are_counted_about(reader: Reader, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (size,) = reader.measured([{"text": LONG}], ["long", "topic"], MOST)
    assert size == 4 * 32 <= run(engine, {"text": LONG}, ["long", "topic"], monkeypatch) <= 5 * 32


def test_texts_and_rows_of_a_request_keep_their_order(reader: Reader) -> None:
    row = {"text": "late", "names": ["goal", "vote"]}
    inputs = ["late goal", row, ["goal", "late goal"], {"text": "late"}, "?"]
    assert reader.measured(inputs, None, MOST) == [4, 2 * 5 + 3, 7, 3, 3]


def test_too_many_candidates_are_refused_however_they_are_given(reader: Reader) -> None:
    for names in (list(range(MOST + 1)), ["a"] * 10_000, json.dumps(list(range(MOST + 1)))):
        with pytest.raises(Refused, match=r"inputs\[1\] has [\d,]+ candidates for task 'pick'; at most 20 are") as told:
            reader.measured(["goal", {"text": "late", "names": names}], None, MOST)
        assert told.value.status == 413 and told.value.facts == {"place": 1}
        reader.measured([{"text": "late", "names": names}], ["topic"], MOST)


def test_all_rows_together_are_no_more_than_the_longest_texts(reader: Reader) -> None:
    """Whatever they ask: as many rows of full length as texts, with a candidate for each task; or shorter ones."""

    def rows(count: int, candidates: int, text: str = LONG) -> list[Any]:
        return [{"text": f"@x {text}", "names": [f"goal {n}" for n in range(candidates)]} for _ in range(count)]

    for names in (["pick"], ["fill", "topic"], None):
        for count, candidates in ((MOST, 1), (1, MOST), (MOST // 4, 4)):
            reader.measured(rows(count, candidates), names, MOST)
    reader.measured(rows(MOST // 2, 4, "late"), ["pick"], MOST)
    reader.measured([LONG, *rows(1, 1)] * (MOST // 2), None, MOST)
    reader.measured([[LONG, LONG]] * MOST, None, MOST)
    with pytest.raises(Refused, match="more than 20 texts"):
        reader.measured([LONG] * (MOST // 2) + rows(1, MOST), ["pick"], MOST)
    for count, candidates, text in ((MOST, 2, LONG), (2, MOST, LONG), (MOST, MOST, "")):
        with pytest.raises(Refused, match="With all of their candidates these rows are more than 20 texts") as told:
            reader.measured(rows(count, candidates, text), ["pick"], MOST)
        assert told.value.status == 413


@pytest.mark.parametrize("word", ["z" * 201, "win " * 17, [1] * 300, "[" + "1, " * 100])
@pytest.mark.parametrize("task", ["word", "exact"])
def test_a_long_marked_word_is_a_fault(reader: Reader, task: str, word: Any) -> None:
    with pytest.raises(Refused, match=r"inputs\[0\] marks more than 200 characters or 16 words in 'word'") as told:
        reader.measured([{"text": "late goal wins", "word": word}], [task], MOST)
    assert told.value.status == 422
    for fine in ("win", [1, 3], "[1, 3]", 7, None):
        reader.measured([{"text": "late goal wins", "word": fine}], [task], MOST)


def test_a_server_looks_for_similar_words_only_so_far_as_is_read_and_for_marks_everywhere(
    rows_model: Path, engine: Any
) -> None:
    served = Served(rows_model)
    end = f"{LONG}tourism"
    for word in ("tourism", [len(end) - 7, len(end)], f"[{len(end) - 7}, {len(end)}]"):
        row = {"text": end, "word": word}
        for tasks in (["word"], ["exact"], ["word", "long"]):
            (found,) = served.answer([{"text": row, "tasks": tasks}])
            assert isinstance(found, dict) and found["truncated"]
            assert found["tasks"][tasks[0]]["scores"] == engine.predict(row, tasks)[tasks[0]].scores
    assert served.answer([{"text": {"text": end, "word": "tourist"}, "tasks": ["word"]}]) == ["cannot_answer"]
    (found,) = served.answer([{"text": {"text": f"tourism {LONG}", "word": "tourist"}, "tasks": ["word"]}])
    assert isinstance(found, dict)


def test_what_a_row_lacks_is_not_counted_for_tasks_that_are_not_asked(reader: Reader) -> None:
    row = {"text": None, "names": list(range(MOST + 1)), "other": LONG, "said": ["late", "goal"]}
    assert reader.measured([row], None, MOST) == [4]
    with pytest.raises(Refused, match="has 21 candidates"):
        reader.measured([row | {"text": "late"}], None, MOST)


def test_a_server_puts_candidates_only_into_what_is_read(rows_model: Path, engine: Any) -> None:
    served = Served(rows_model)
    row = {"text": "why is @x ? " * 300 + "@x", "names": ["good", "bad", "the match " * 200]}
    fill = [task.name for task in served.loaded.tasks].index("fill")
    item = served.loaded.kinds[fill].item(served.loaded.tasks[fill], row)
    assert {len(text) for sequence in item.sequences for text in sequence} == {16 * 32 + 1}
    (found,) = served.answer([{"text": row, "tasks": ["fill"]}])
    assert isinstance(found, dict) and found["truncated"]
    assert found["tasks"]["fill"]["scores"] == engine.predict(row, ["fill"])["fill"].scores


def test_rows_run_with_those_alone_that_are_asked_the_same(rows_model: Path) -> None:
    """A row's candidates are not read because of what others ask, and counted are only those that it asks itself."""
    served, calls = Served(rows_model), []
    label = served.model.label

    def noted(texts: list[Any], tasks: list[str] | None) -> Any:
        calls.append((len(texts), tasks))
        return label(texts, tasks)

    served.model = type("Noting", (), {"label": staticmethod(noted)})
    row = {"text": "late", "names": ["goal", "vote"]}
    asked: list[tuple[Any, Any]] = [(row, ["topic"]), (row, ["pick"]), (row, ["topic"]), ("a", ["topic"]), ("b", None)]
    found = served.answer([{"text": text, "tasks": tasks} for text, tasks in asked])
    assert calls == [(2, ["topic"]), (1, ["pick"]), (2, None)]
    tasks = [list(one["tasks"]) for one in found if isinstance(one, dict)]
    assert tasks == [["topic"], ["pick"], ["topic"], ["topic"], ["topic", "long", "tags"]]


def test_rows_out_of_bounds_are_told_and_honest_ones_answered(start: Callable[..., Any], rows_model: Path) -> None:
    server = start(rows_model, environment={"ONEPASS_API_KEY": "k"})
    server.key = "k"
    server.wait()
    draw = random.Random(0)
    honest = {"text": "late goal", "names": ["".join(draw.sample("abcdefgh", 4)) for _ in range(40)]}
    status, body = server.predict(honest, ["pick"])
    assert status == 200 and len(body["results"][0]["tasks"]["pick"]["scores"]) == len(set(honest["names"]))
    assert body["results"][0]["tokens"] == 6 * len(set(honest["names"]))
    status, body = server.predict([honest | {"names": list(range(400))}], ["pick"])
    assert status == 413 and "has 400 candidates" in body["error"]["message"]
    status, body = server.predict([honest | {"word": "q " * 1500}], ["word"])
    assert status == 422 and "marks more than" in body["error"]["message"]
    assert server.predict({"text": "late goal wins", "word": "win"}, ["word"])[0] == 200
    computed = server.counter("onepass_tokens_computed_total")
    server.predict(honest, ["pick"])
    assert server.counter("onepass_tokens_computed_total") - computed == 6 * len(set(honest["names"]))
