"""The engine answers like the model, whatever else is asked at the same time."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onepass
from onepass import living
from onepass.atomic import write_manifest
from onepass.engine.engine import Engine
from onepass.engine.reading import Reading
from onepass.errors import ConfigError, DataError, FolderError
from onepass.prediction import Labelled
from onepass.tasks import Task

MakeFolder = Callable[..., Path]

WORDS = ["goal", "match", "vote", "senate", "the", "wins", "late", "why", "is", "it", "good", "bad", "?", "zebra"]
TEXTS: list[Any] = [
    "the late goal wins",
    "",
    "why is it bad ? " * 12,  # longer than is read
    ("goal", "the senate vote is late"),
    "vote",
    "good match . good match . good match !",
    ("", "late"),
    *(" ".join(WORDS[:count]) for count in range(2, 12)),
]


def numbers(labelled: Labelled) -> list[float]:
    """All numbers in the answers about one text."""
    return [value for p in labelled.tasks.values() for value in (list(p.scores.values()) or [p.label])]


def largest_difference(one: list[Labelled], other: list[Labelled]) -> float:
    assert [found.text for found in one] == [found.text for found in other]
    assert [list(found.tasks) for found in one] == [list(found.tasks) for found in other]
    assert [found.truncated for found in one] == [found.truncated for found in other]
    return max(float(np.abs(np.subtract(numbers(a), numbers(b))).max()) for a, b in zip(one, other, strict=True))


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return onepass.load(folder, engine=True, threads=1)


# --- like the model -------------------------------------------------------------------------------------------------


def test_the_engine_answers_like_the_model_in_every_family(family: str, make_folder: MakeFolder):
    folder = make_folder(family)
    model, engine = onepass.load(folder), onepass.load(folder, engine=True, threads=1)
    assert largest_difference(model.label(TEXTS), engine.label(TEXTS)) < 1e-4


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("readers", {"depth": 1, "tokens": 1}),
        ("readers", {"depth": 3, "tokens": 3}),
        ("readers", {"depth": 2, "tokens": 1, "pooler": "none"}),
        ("readers", {"depth": 2, "readout": "attention"}),
        ("readers", {"depth": 1, "tokens": 1, "pooler": "low_rank", "rank": 3}),
        ("mtdnn", {}),
        ("mtdnn", {"pooler": "task", "readout": "mean"}),
        ("mtdnn", {"pooler": "none"}),
        ("frozen", {}),
    ],
)
def test_the_engine_answers_like_the_model_with_every_option(
    method: str, options: dict[str, Any], make_folder: MakeFolder
):
    folder = make_folder("modernbert", method, **options)
    model, engine = onepass.load(folder), onepass.load(folder, engine=True, threads=1)
    assert largest_difference(model.label(TEXTS), engine.label(TEXTS)) < 1e-4
    chosen = ["tone", "price", "topic"]
    assert largest_difference(model.label(TEXTS[:3], chosen), engine.label(TEXTS[:3], chosen)) < 1e-4


@pytest.mark.parametrize(("depth", "family"), [(1, "bert"), (2, "electra")])
def test_few_readers_answer_like_the_model_without_keys_and_values(depth: int, family: str, make_folder: MakeFolder):
    tasks = [Task(name=name, text="text", label="label", labels=["no", "yes"]) for name in ("spam", "tone")]
    folder = make_folder(family, tasks=tasks, depth=depth)
    model, engine = onepass.load(folder), onepass.load(folder, engine=True, threads=1)
    runner = engine._core.runner
    assert isinstance(runner, Reading) and runner.few
    texts = [text for text in TEXTS if isinstance(text, str)]
    assert largest_difference(model.label(texts), engine.label(texts)) < 1e-4
    alone = [engine.label([text])[0] for text in texts]
    assert largest_difference(alone, engine.label(texts)) < 1e-6


def test_the_engine_is_asked_like_the_model(engine: Engine, folder: Path):
    assert [task.name for task in engine.tasks] == ["topic", "price", "spam", "mood", "tone", "same"]
    assert list(engine.predict("goal", tasks=["spam", "topic"])) == ["spam", "topic"]
    assert engine.predict([]) == []
    assert engine.tokenizer.max_length == 38
    model = onepass.load(folder)
    for wrong in ({"inputs": "goal", "tasks": ["spma"]}, {"inputs": "goal", "tasks": ["same"]}, {"inputs": [3]}):
        messages = []
        for asked in (model, engine):
            with pytest.raises((ConfigError, DataError)) as caught:
                asked.predict(**wrong)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


# --- whatever else is asked -----------------------------------------------------------------------------------------

texts = st.lists(st.sampled_from(WORDS), max_size=45).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(text=texts, neighbours=st.lists(texts, max_size=12), place=st.integers(0, 12))
def test_a_text_is_answered_alike_alone_and_among_any_others(
    engine: Engine, text: str, neighbours: list[str], place: int
):
    together = [*neighbours[:place], text, *neighbours[place:]]
    alone, among = engine.label([text])[0], engine.label(together)[min(place, len(neighbours))]
    assert largest_difference([alone], [among]) < 1e-6


@settings(max_examples=20, deadline=None)
@given(text=texts, chosen=st.permutations(["topic", "price", "spam", "mood", "tone"]), count=st.integers(1, 5))
def test_an_answer_does_not_depend_on_the_other_tasks_asked(engine: Engine, text: str, chosen: list[str], count: int):
    everything, some = engine.predict(text), engine.predict(text, tasks=chosen[:count])
    assert list(some) == chosen[:count]
    found = [Labelled(text, {name: answers[name] for name in chosen[:count]}) for answers in (everything, some)]
    assert largest_difference(found[:1], found[1:]) < 1e-6


def test_many_texts_are_computed_in_parts(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    whole = engine.label(TEXTS)
    monkeypatch.setattr("onepass.engine.core.MOST_NUMBERS", 2 * 5 * 32)  # two texts at a time
    assert largest_difference(whole, engine.label(TEXTS)) < 1e-6


# --- folders --------------------------------------------------------------------------------------------------------


def test_adding_and_removing_tasks_leaves_the_engine(folder: Path, tmp_path: Path):
    changed = tmp_path / "model"
    shutil.copytree(folder, changed)
    before = (changed / "engine" / "engine.json").read_bytes()
    living.remove_task(changed, "topic")
    living.rename_task(changed, "tone", "manner")
    assert (changed / "engine" / "engine.json").read_bytes() == before
    model, engine = onepass.load(changed), onepass.load(changed, engine=True, threads=1)
    assert [task.name for task in engine.tasks] == ["price", "spam", "mood", "manner", "same"]
    assert largest_difference(model.label(TEXTS), engine.label(TEXTS)) < 1e-4


def test_calibration_thresholds_and_versions_are_those_of_the_model(folder: Path, tmp_path: Path):
    changed = tmp_path / "model"
    shutil.copytree(folder, changed)
    for name, fitted in {
        "topic": {"calibration": {"form": "temperatures", "temperatures": {"a": 0.3, "b": 4.0, "c": 2.0}}},
        "mood": {"calibration": {"form": "temperature", "temperature": 3.0}, "thresholds": {"sad": None, "glad": 0.45}},
    }.items():
        path = changed / "tasks" / name / "task.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"fitted": fitted}))
    write_manifest(changed)
    scores = sorted(
        found.tasks["topic"].score for found in onepass.load(changed).label(TEXTS) if "topic" in found.tasks
    )
    assert scores[-1] - scores[0] > 0.02
    living.change_thresholds(changed, ["topic", "spam"], (scores[0] + scores[-1]) / 2)
    model, engine = onepass.load(changed), onepass.load(changed, engine=True, threads=1)
    plain = onepass.load(folder).label(TEXTS)
    answers = [one.with_versions(one.label(TEXTS)) for one in (model, engine)]
    assert largest_difference(*answers) < 1e-4
    said = [
        [(p.label, p.threshold, p.abstained, p.version) for x in found for p in x.tasks.values()] for found in answers
    ]
    # Numbers differ in their last digits; labels, thresholds and versions do not.
    shown = [
        [("number", *rest) if isinstance(label, float) else (label, *rest) for label, *rest in one] for one in said
    ]
    assert shown[0] == shown[1]
    topics = [found.tasks["topic"] for found in answers[1] if "topic" in found.tasks]
    assert {answer.abstained for answer in topics} == {True, False} and {answer.version for answer in topics} == {2}
    raw = [found.tasks["topic"] for found in plain if "topic" in found.tasks]
    kept = [(a.label, b.label) for a, b in zip(topics, raw, strict=True) if not a.abstained]
    assert all(one == other for one, other in kept)
    assert not any("sad" in found.tasks["mood"].label for found in answers[1] if "mood" in found.tasks)


def test_a_folder_without_an_engine_says_how_to_build_it(make_folder: MakeFolder):
    folder = make_folder(exported=False)
    with pytest.raises(FolderError, match=f"Build it with: onepass export {folder}"):
        onepass.load(folder, engine=True)


def test_an_engine_of_another_version_is_refused(folder: Path, tmp_path: Path):
    changed = tmp_path / "model"
    shutil.copytree(folder, changed)
    (changed / "engine" / "engine.json").write_text('{"format": 99}')
    with pytest.raises(FolderError, match=r"engine\.json was changed"):
        onepass.load(changed, engine=True)
    write_manifest(changed)
    with pytest.raises(FolderError, match="of another version"):
        onepass.load(changed, engine=True)


def test_the_engine_needs_no_torch(folder: Path):
    missing = ("torch", "safetensors", "pyarrow", "sklearn", "scipy", "accelerate", "huggingface_hub")
    code = (
        f"import sys\nfor name in {missing}: sys.modules[name] = None\n"
        f"import onepass\nprint(onepass.load({str(folder)!r}, engine=True).predict('goal')['spam'].label)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(onepass.__file__).parents[1])}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert result.stdout.strip() in ("no", "yes"), result.stderr


def test_an_engine_says_what_it_is(engine: Engine, folder: Path):
    assert repr(engine) == f"Engine({str(folder)!r}, {len(engine.tasks)} tasks, fp32)"
