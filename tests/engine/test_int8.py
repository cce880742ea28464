"""Engines that compute in 8 bits."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import onepass
from onepass import living
from onepass.bench.engines import EncoderParts, Form
from onepass.encoder.loading import load_encoder
from onepass.engine import export, gate, ranges
from onepass.engine.core import Core
from onepass.engine.engine import Engine
from onepass.engine.export import export_model
from onepass.engine.graph import Range
from onepass.engine.ranges import LADDER, chosen, computed_here, joined
from onepass.engine.runtime import computes_in_16
from onepass.errors import DataError, FolderError
from onepass.methods import make_method
from onepass.model import Model
from onepass.report.summary import engine_of
from onepass.tasks import MethodChoice, Task

WORDS = ["goal", "match", "vote", "senate", "the", "wins", "late", "why", "is", "it", "good", "bad", "?", "zebra"]
SEEN = {"layers.0.qkv": Range(-np.ones(3), np.ones(3))}
POSSIBLE = [name for name in LADDER if computed_here(chosen(name, SEEN))]
"""What this processor can compute"""
PROBES = [" ".join(np.random.default_rng(n).choice(WORDS, 3 + n % 20)) for n in range(40)]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts without labels, for single texts and for pairs."""
    path = tmp_path_factory.mktemp("texts") / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": t, "first": t, "second": "late goal"}) + "\n" for t in PROBES))
    return path


@pytest.fixture(scope="module", params=["all", "all, by row"])
def small(make_folder: Callable[..., Path], texts: Path, request: pytest.FixtureRequest) -> Path:
    """The folder of a model whose engine computes in 8 bits, whatever that changes."""
    if request.param not in POSSIBLE:
        pytest.skip("this processor does not compute so")
    folder = make_folder(exported=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "MOST_CHANGED", 100.0)
        patch.setattr(export, "LADDER", {request.param: LADDER[request.param]})
        found = export_model(folder, int8=True, texts=texts)
    assert found["precision"] == "int8" and found["gate"]["computed"] == request.param
    return folder


@pytest.fixture(scope="module")
def engine(small: Path) -> Engine:
    return onepass.load(small, engine=True, threads=1)


def probabilities(engine: Engine, texts: list[str]) -> np.ndarray:
    """Of every label of every task that has some, (texts, labels)."""
    return np.array([[p for task in row.values() for p in task.scores.values()] for row in engine.predict(texts)])


def test_8_bits_answer_nearly_like_the_model(engine: Engine, small: Path):
    assert engine.precision == "int8"
    exact = probabilities(onepass.load(small), PROBES)
    found = probabilities(engine, PROBES)
    assert 0 < np.abs(found - exact).max() < 0.15  # 32 columns: a rough product
    assert np.abs(found - exact).mean() < 0.02


texts_of_words = st.lists(st.sampled_from(WORDS), max_size=45).map(" ".join)


@settings(max_examples=40, deadline=None)
@given(text=texts_of_words, neighbours=st.lists(texts_of_words, max_size=12))
def test_a_text_is_answered_alike_alone_and_among_any_others(engine: Engine, text: str, neighbours: list[str]):
    alone, among = probabilities(engine, [text])[0], probabilities(engine, [*neighbours, text])[-1]
    assert np.abs(alone - among).max() < 1e-3


@pytest.mark.parametrize("computed", ["all", "all, by row"])
def test_with_real_weights_no_batch_turns_a_number_into_the_next_step(computed: str):
    """In wide layers a last digit decides now and then which of 256 steps a number becomes, and the next layers then
    decide otherwise, too: a hundredth in the end. So not even a digit may depend on the batch."""
    parts = EncoderParts()
    seen = parts.bounds(parts.readers(3, Form(), 1))
    core, asked = parts.readers(3, Form(), 1, chosen(computed, seen)), [0, 1, 2]
    for seed in range(4):
        lengths = np.exp(np.random.default_rng(seed).uniform(np.log(3), np.log(140), 14)).astype(int)
        texts = parts.texts(lengths, seed)
        together = np.stack(core.logits(texts, asked))  # (3, 14, 2)
        alone = np.concatenate([np.stack(core.logits([text], asked)) for text in texts], 1)
        assert np.abs(together - alone).max() < 1e-5


@pytest.mark.parametrize("tokens", [1, 2])
def test_with_real_weights_an_answer_does_not_depend_on_what_else_is_asked(tmp_path: Path, tokens: int):
    """Neither on tasks that read tokens, nor on how many readers there are: one row is summed in another way than two,
    and, with one thread, two in another than six."""
    torch.manual_seed(3)  # with other readers no number may lie near enough to the next step
    encoder, tokenizer = load_encoder("embedded", max_length=64)
    choice = MethodChoice(name="readers", options={"tokens": tokens})
    model = Model(make_method("readers", encoder, choice.options), tokenizer, choice, "embedded")
    for name in ("topic", "tone"):
        model.add(Task(name=name, text="text", label="label", labels=["no", "yes"]))
    model.add(Task(name="names", kind="tagging", text="text", label="tags", labels=["O", "B-x", "I-x"]))
    model.eval().save(tmp_path / "model")
    export_model(tmp_path / "model")
    fp32 = onepass.load(tmp_path / "model", engine=True, threads=1)
    pieces = EncoderParts().texts(range(4, 40))
    seen = joined(fp32.watch(pieces))
    for computed in LADDER:
        engine = Engine(tmp_path / "model", 1, recipe=fp32.recipe, bounds=chosen(computed, seen))
        every = engine.logits_of(pieces, [0, 1, 2])
        for asked in ([0], [1], [1, 0], [0, 2]):
            for task, found in zip(asked, engine.logits_of(pieces, asked), strict=True):
                assert max(np.abs(one - other).max() for one, other in zip(found, every[task], strict=True)) < 1e-5
        runner = engine._core.runner
        left = Core(runner.with_tasks(runner.tasks[:2]))  # as if it had been removed
        every_input, one_input = runner.choose((0, 1, 2)), runner.choose((1,))
        assert (one_input["query"] == every_input["query"][:, :, tokens : 2 * tokens]).all()
        np.testing.assert_allclose(left.logits(pieces, [0])[0], every[0], atol=1e-5)


def test_a_task_that_does_not_pass_keeps_all_in_32_bits(make_folder: Callable[..., Path], texts: Path, monkeypatch):
    folder = make_folder(exported=False)
    monkeypatch.setattr(gate, "MOST_CHANGED", -1.0)
    found = export_model(folder, int8=True, texts=texts)
    assert found["precision"] == "fp32"
    assert [tried["computed"] for tried in found["gate"]["tried"]] == POSSIBLE
    assert not (folder / "engine" / "ranges.safetensors").exists()
    assert onepass.load(folder, engine=True).precision == "fp32"


def test_tasks_that_pass_on_few_rows_are_told_of(
    make_folder: Callable[..., Path], texts: Path, monkeypatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(gate, "MOST_CHANGED", 100.0)
    monkeypatch.setattr(ranges, "multiplies_in_8", lambda: True)
    export_model(make_folder(exported=False), int8=True, texts=texts)
    assert "6 of 6 tasks passed on 40 to 40 rows, which says little" in caplog.text
    caplog.clear()
    monkeypatch.setattr(export, "ENOUGH_ROWS", 40)
    export_model(make_folder(exported=False), int8=True, texts=texts)
    assert "says little" not in caplog.text


def test_where_8_bits_are_too_few_16_may_do(make_folder: Callable[..., Path], texts: Path, monkeypatch):
    folder = make_folder(exported=False)
    monkeypatch.setattr(ranges, "multiplies_in_8", lambda: True)
    verdicts = iter(({"topic": None}, {}))
    monkeypatch.setattr(export, "failed", lambda judged: {name: judged[name] for name in next(verdicts)})
    monkeypatch.setattr(ranges, "computes_in_16", lambda: True)  # on other processors it is computed in 32
    found = export_model(folder, int8=True, texts=texts)
    assert found["precision"] == "bf16" and found["gate"]["computed"] == "nothing, but all in 16"
    engine = onepass.load(folder, engine=True, threads=1)
    assert engine.precision == "bf16"
    difference = np.abs(probabilities(engine, PROBES) - probabilities(onepass.load(folder), PROBES)).max()
    assert difference < (0.02 if computes_in_16() else 1e-5)
    assert (difference > 1e-4) == computes_in_16()


CAN = {"all": "multiplies_in_8", "nothing, but all in 16": "computes_in_16", "all, by row": "multiplies_by_row"}
"""What a processor needs for it"""


@pytest.mark.parametrize("computed", CAN)
def test_what_the_processor_cannot_compute_is_not_judged_on_it(make_folder, texts: Path, monkeypatch, computed: str):
    folder = make_folder(exported=False)
    monkeypatch.setattr(gate, "MOST_CHANGED", -1.0)
    monkeypatch.setattr(ranges, CAN[computed], lambda: False)
    found = export_model(folder, int8=True, texts=texts)
    assert found["precision"] == "fp32"
    assert [tried["computed"] for tried in found["gate"]["tried"]] == [name for name in POSSIBLE if name != computed]


def test_a_processor_without_products_of_8_and_16_bits_is_told_of(make_folder, texts: Path, monkeypatch, caplog):
    for can in CAN.values():
        monkeypatch.setattr(ranges, can, lambda: False)
    found = export_model(make_folder(exported=False), int8=True, texts=texts)
    assert found["precision"] == "fp32" and found["gate"]["tried"] == []
    assert "nothing was tried. Export the model on one like those that will answer" in caplog.text


def test_an_engine_of_8_bits_computes_in_32_where_8_would_be_others(small: Path, monkeypatch, caplog):
    for can in CAN.values():
        monkeypatch.setattr(ranges, can, lambda: False)
    engine = onepass.load(small, engine=True, threads=1)
    assert engine.precision == "fp32"
    assert "computing in 32 bits, since this processor cannot compute in int8" in caplog.text
    np.testing.assert_allclose(probabilities(engine, PROBES), probabilities(onepass.load(small), PROBES), atol=1e-5)


def test_removed_and_renamed_tasks_keep_8_bits_and_a_new_one_does_not(small: Path, tmp_path: Path, caplog):
    folder = tmp_path / "model"
    shutil.copytree(small, folder)
    living.remove_task(folder, "topic")
    living.rename_task(folder, "tone", "manner")
    assert onepass.load(folder, engine=True).precision == "int8"
    gated = json.loads((folder / "engine" / "gate.json").read_text())
    del gated["tasks"]["spam"]
    (folder / "engine" / "gate.json").write_text(json.dumps(gated))
    onepass.atomic.write_manifest(folder)
    assert onepass.load(folder, engine=True).precision == "fp32"
    assert "8 were not tried with spam as it is now. Try with: onepass export" in caplog.text


def test_other_thresholds_are_not_what_the_gate_judged(small: Path, tmp_path: Path, caplog):
    folder = tmp_path / "model"
    shutil.copytree(small, folder)
    living.change_thresholds(folder, ["tone"], 0.9)
    assert onepass.load(folder, engine=True).precision == engine_of(folder)["precision"] == "fp32"
    assert "8 were not tried with tone as it is now" in caplog.text and engine_of(folder)["untried"] == ["tone"]
    living.change_thresholds(folder, ["tone"], None)  # as it was judged
    assert onepass.load(folder, engine=True).precision == engine_of(folder)["precision"] == "int8"


@pytest.mark.parametrize(
    "gated", [None, {}, {"tasks": []}, {"tasks": {"spam": {}}}, {"tasks": {"spam": {"weights": []}}}]
)
def test_a_gate_that_says_something_else_is_no_fault_of_ours(small: Path, tmp_path: Path, gated: Any):
    folder = tmp_path / "model"
    shutil.copytree(small, folder)
    (folder / "engine" / "gate.json").write_text(json.dumps(gated))
    onepass.atomic.write_manifest(folder)
    with pytest.raises(FolderError, match="is no model this version can read"):
        onepass.load(folder, engine=True)


def test_without_rows_to_judge_on_8_bits_are_refused(small: Path):
    with pytest.raises(DataError, match=r"(?s)8 bits are judged by .*--calibrate FILE"):
        export_model(small, int8=True)
    assert onepass.load(small, engine=True).precision == "int8"  # as it was


def test_the_gate_is_in_the_folder(small: Path):
    found = json.loads((small / "engine" / "gate.json").read_text())
    assert set(found["tasks"]) == {"topic", "price", "spam", "mood", "tone", "same"}
    assert all(task["rows"] == len(PROBES) and len(task["weights"]) == 64 for task in found["tasks"].values())


def test_a_text_that_cannot_be_read_is_named_with_its_row(make_folder: Callable[..., Path], tmp_path: Path):
    task = Task(name="sense", kind="words", text="text", label="s", labels=["a", "b"], options={"words": ["word"]})
    folder, path = make_folder(tasks=[task], exported=False), tmp_path / "texts.jsonl"
    rows = [{"text": "late goal", "word": "goal"}, {"text": None, "word": "x"}, {"text": "late goal", "word": "vote"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match=r"texts\.jsonl, row 3: task 'sense' marks 'vote'"):
        export_model(folder, int8=True, texts=path)
