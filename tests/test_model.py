"""Asking a model."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onepass
from onepass.encoder.batch import Batch
from onepass.encoder.loading import load_encoder
from onepass.errors import ConfigError, DataError
from onepass.methods import METHODS, make_method
from onepass.model import SERVING_TOKENS, Model
from onepass.prediction import Prediction
from onepass.tasks import MethodChoice, Task

TEXTS = ["the late goal wins", "vote", "why is it bad ?", "", "good match . good match . good match !"]
TASKS = [
    Task(name="topic", text="text", label="topic", labels=["a", "b", "c"]),
    Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 5.0, "spread": 2.0}),
    Task(name="tone", text="text", label="tone", labels=["no", "yes"]),
    Task(name="spam", text="text", label="spam", labels=["no", "yes"]),
]


@pytest.fixture(scope="module")
def loaded(model: Path) -> Model:
    """Asks `topic` and `tone` of texts and `same` of pairs."""
    return onepass.load(model)


def build(encoder: Path, method: str = "readers", max_length: int = 16) -> Model:
    """An untrained model of four tasks, with heads far from their small start values."""
    torch.manual_seed(0)
    made, tokenizer = load_encoder(encoder, max_length=max_length)
    model = Model(make_method(method, made), tokenizer, MethodChoice(name=method), "test")
    for task in TASKS:
        model.add(task)
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter.add_(torch.randn_like(parameter))
    return model.eval()


def numbers(answers: dict[str, Prediction]) -> list[float]:
    """All numbers in the answers about one text, in order."""
    return [value for p in answers.values() for value in (list(p.scores.values()) or [p.label])]


# --- shapes ---------------------------------------------------------------------------------------------------------


def test_one_text_in_one_dictionary_out(loaded: Model):
    answers = loaded.predict("the late goal wins")
    assert list(answers) == ["topic", "tone"]
    assert answers["topic"].label in ("politics", "sport")
    assert sum(answers["topic"].scores.values()) == pytest.approx(1.0)
    assert isinstance(answers["tone"].label, float)


def test_a_pair_is_asked_the_tasks_on_pairs(loaded: Model):
    answers = loaded.predict(("goal", "late goal"))
    assert list(answers) == ["same"]
    assert answers["same"].label in ("no", "yes")


def test_a_list_gives_a_list_in_the_same_order(loaded: Model):
    mixed = ["vote", ("goal", "late goal"), "the late goal wins", ("goal", "vote")]
    answers = loaded.predict(mixed)
    assert [list(answer) for answer in answers] == [["topic", "tone"], ["same"], ["topic", "tone"], ["same"]]
    for text, answer in zip(mixed, answers, strict=True):
        assert numbers(answer) == pytest.approx(numbers(loaded.predict(text)), abs=1e-6)


def test_an_empty_list_gives_an_empty_list(loaded: Model):
    assert loaded.predict([]) == []


def test_an_empty_text_has_an_answer(loaded: Model):
    assert set(loaded.predict("")) == {"topic", "tone"}
    assert set(loaded.predict(("", ""))) == {"same"}


def test_a_list_of_two_is_a_list_and_not_a_pair(loaded: Model):
    assert len(loaded.predict(["goal", "vote"])) == 2


def test_the_answers_order_is_that_of_the_question(loaded: Model):
    assert list(loaded.predict("vote", tasks=["tone", "topic"])) == ["tone", "topic"]


def test_one_task_may_be_named_by_a_string(loaded: Model):
    assert loaded.predict("vote", tasks="tone") == loaded.predict("vote", tasks=["tone"])


def test_broken_characters_are_read(loaded: Model):
    assert len(loaded.predict(["goal \ud800", "\x00", "🙂" * 50, "a\u202eb"])) == 4


# --- the same answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_alone_and_in_a_batch_a_text_has_the_same_answers(encoder: Path, method: str):
    model = build(encoder, method)
    together = model.predict(TEXTS)
    for text, answers in zip(TEXTS, together, strict=True):
        assert numbers(answers) == pytest.approx(numbers(model.predict(text)), abs=1e-5)


def test_many_batches_keep_the_order(encoder: Path, monkeypatch: pytest.MonkeyPatch):
    model = build(encoder)
    texts = TEXTS * 6
    expected = model.predict(texts)
    monkeypatch.setitem(SERVING_TOKENS, "cpu", 20)
    for one, other in zip(model.predict(texts), expected, strict=True):
        assert numbers(one) == pytest.approx(numbers(other), abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_bf16_answers_nearly_the_same(encoder: Path, method: str):
    model = build(encoder, method)
    expected = model.predict(TEXTS)
    model.use_precision("bf16")
    assert next(model.heads.parameters()).dtype == torch.float32
    for one, other in zip(model.predict(TEXTS), expected, strict=True):
        assert numbers(one) == pytest.approx(numbers(other), abs=0.1)
        assert numbers(one) != numbers(other)


def test_who_only_asks_a_model_keeps_the_code_of_few_shapes_too() -> None:
    """In bf16 on a CPU 7,000 texts of all lengths took half a gigabyte more."""
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    code = f"import os, onepass; onepass.Model; print(os.environ.get('{name}'))"
    environment = {key: value for key, value in os.environ.items() if key != name}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "64\n"


def test_a_model_in_bf16_is_asked_only(model: Path, tmp_path: Path):
    rounded = onepass.load(model, precision="bf16")
    with pytest.raises(ConfigError, match="load it in fp32 to save it"):
        rounded.save(tmp_path / "copy")
    with pytest.raises(ConfigError, match="load it in fp32 to add a task"):
        rounded.add_task("more", train="more.csv", text="text", label="label")
    with pytest.raises(ConfigError, match="Possible: fp32, bf16"):
        onepass.load(model, precision="int4")


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "meta", ""])
def test_a_device_that_is_not_there_is_refused(model: Path, device: str) -> None:
    with pytest.raises(
        onepass.ConfigError, match=f"The device is '{device}', which cannot be used. Possible: auto, cpu"
    ):
        onepass.load(model, device)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("asked", [["tone", "topic"], ["spam"], ["price", "spam", "tone", "topic"]])
def test_which_tasks_are_asked_and_in_which_order_changes_no_answer(encoder: Path, method: str, asked: list[str]):
    model = build(encoder, method)
    for answers, every in zip(model.predict(TEXTS, tasks=asked), model.predict(TEXTS), strict=True):
        assert list(answers) == asked
        assert numbers(answers) == pytest.approx(numbers({name: every[name] for name in asked}), abs=1e-5)


def test_a_task_that_is_named_twice_is_asked_once(encoder: Path):
    model = build(encoder)
    expected = model.predict(TEXTS, tasks=["tone", "spam"])
    assert model.predict(TEXTS, tasks=["tone", "tone", "spam", "tone"]) == expected
    batch = Batch.of([(e.ids, e.types) for e in model.tokenizer.encode([(text,) for text in TEXTS])])
    once, twice = model.logits(batch, [2, 3]), model.logits(batch, [2, 2, 3])
    np.testing.assert_array_equal(twice[0], once[0])
    np.testing.assert_array_equal(twice[1], once[0])
    np.testing.assert_array_equal(twice[2], once[1])


def test_predicting_leaves_the_mode_of_the_model_as_it_was(encoder: Path):
    model = build(encoder)
    expected = model.predict(TEXTS)
    model.train()
    assert model.predict(TEXTS) == expected  # without dropout
    assert model.training and model.method.encoder.training
    with pytest.raises(ConfigError):
        model.predict("vote", tasks=["nope"])
    assert model.training


@pytest.mark.parametrize("method", ["readers", "mtop", "mtdnn", "frozen"])
def test_the_encoder_reads_a_text_once_for_all_tasks(encoder: Path, method: str):
    model = build(encoder, method)
    read: list[int] = []
    layers = 0

    def count_layer(module: Any, inputs: Any, output: Any) -> None:
        nonlocal layers
        layers += 1

    model.method.encoder.word_table.register_forward_hook(lambda module, ids, output: read.append(ids[0].numel()))
    model.method.encoder.layers[0].attention_output.register_forward_hook(count_layer)
    model.predict(TEXTS)
    assert read == [sum(len(encoded) for encoded in model.tokenizer.encode([(text,) for text in TEXTS]))]
    assert layers == (2 if method == "readers" else 1)  # readers: once for the text, once for all tasks' tokens


# --- limits and mistakes --------------------------------------------------------------------------------------------


def test_a_text_that_is_too_long_is_cut_and_says_so(encoder: Path):
    model = build(encoder, max_length=16)
    short, longest, long, huge = model.label(["goal", "goal " * 14, "goal " * 15, "goal " * 100_000])
    assert [one.truncated for one in (short, longest, long, huge)] == [False, False, True, True]
    assert long.tasks == longest.tasks == huge.tasks
    assert long.to_dict()["truncated"] is True


def test_a_labelled_text_can_be_written_as_the_contract_says(loaded: Model):
    (labelled,) = loaded.label(["vote"], tasks=["topic"])
    written = labelled.to_dict()
    assert list(written) == ["text", "tasks", "truncated"]
    assert written["text"] == "vote"
    assert list(written["tasks"]["topic"]) == ["label", "score", "scores"]


def test_an_unknown_task_is_named_with_the_nearest(loaded: Model):
    with pytest.raises(ConfigError, match=r"Unknown task 'topci'. Did you mean 'topic'\? Known: same, tone, topic\."):
        loaded.predict("vote", tasks=["topci"])


def test_all_unknown_tasks_are_named_also_where_there_is_no_text(loaded: Model):
    with pytest.raises(ConfigError, match=r"(?s)2 faults.*'topci'.*'tune'"):
        loaded.predict([], tasks=["topci", "tune"])


def test_no_task_at_all_is_refused(loaded: Model):
    with pytest.raises(ConfigError, match="No task is asked"):
        loaded.predict("vote", tasks=[])


def test_a_text_cannot_answer_a_task_on_pairs(loaded: Model):
    with pytest.raises(ConfigError, match=r"a single text cannot answer: same \(first and second\)"):
        loaded.predict("vote", tasks=["topic", "same"])


def test_a_pair_cannot_answer_a_task_on_texts(loaded: Model):
    with pytest.raises(ConfigError, match=r"2 texts together cannot answer: topic \(text\)"):
        loaded.predict(("goal", "vote"), tasks=["topic"])


def test_three_texts_together_are_refused(loaded: Model):
    with pytest.raises(ConfigError, match="3 texts together cannot answer"):
        loaded.predict(("a", "b", "c"))  # type: ignore[arg-type]


@pytest.mark.parametrize("inputs", [[None], ["goal", 5], [("goal", None)], [()], [b"goal"]])
def test_what_is_no_text_is_refused_with_its_place(loaded: Model, inputs: Any):
    with pytest.raises(DataError, match=rf"Text {len(inputs)} is .*Give a string"):
        loaded.predict(inputs)


# --- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_losses_come_in_the_order_of_the_rows_whatever_their_kinds(encoder: Path, method: str):
    model = build(encoder, method)
    encoded = model.tokenizer.encode([(text,) for text in TEXTS])
    batch = Batch.of([(e.ids, e.types) for e in encoded])
    asked, targets = [2, 1, 0, 1, 3], [1, np.float32(0.5), 2, np.float32(-1.0), 0]
    losses = model.losses(batch, torch.tensor([[task] for task in asked]), targets)
    for row, (task, target) in enumerate(zip(asked, targets, strict=True)):
        alone = model.logits(Batch.of([(encoded[row].ids, encoded[row].types)]), [task])[0][0]
        by_hand = (alone[0] - target) ** 2 if task == 1 else np.log(np.exp(alone).sum()) - alone[int(target)]
        scale = model.method.loss_scale(len(alone))
        assert losses[row].item() == pytest.approx(scale * float(by_hand), rel=1e-3, abs=1e-4)


def test_a_head_starts_small_and_without_a_bias(encoder: Path):
    made, tokenizer = load_encoder(encoder, max_length=16)
    model = Model(make_method("readers", made), tokenizer, MethodChoice(), "test")
    model.add(TASKS[0])
    assert model.names == ["topic"]
    assert model.heads[0].bias.tolist() == [0.0, 0.0, 0.0]
    assert 0 < model.heads[0].weight.abs().max() <= 0.04
