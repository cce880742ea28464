"""Adding, updating, removing, renaming and copying tasks: what changes, what does not, and what is refused."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from onepass import living
from onepass.atomic import write_manifest
from onepass.contents import read_tasks
from onepass.errors import ConfigError, DataError, FolderError, OnepassError
from onepass.folder import load_model
from onepass.living.proof import TOLERANCE, largest_change, probe_batches
from onepass.model import Model
from onepass.tasks import Task
from onepass.training import evaluate
from onepass.training.adding import AddOptions

QUICK = AddOptions(epochs=2, least_rows=10)
MakeModel = Callable[..., Model]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_adding_leaves_every_other_task_bit_equal(folder: Path, tone: Task, helpers: Any) -> None:
    names = ["topic", "price", "spam"]
    files, before = helpers.contents(folder), helpers.answers(folder, names)
    _, proof = living.add_tasks(folder, [tone], QUICK, progress=False)
    after = helpers.contents(folder)
    assert load_model(folder).names == [*names, "tone"]
    assert same(before, helpers.answers(folder, names))
    assert {f for f in files if files[f] != after[f]} == {"README.md", "MANIFEST.json"}
    assert after.keys() - files.keys() == {"tasks/tone/task.json", "tasks/tone/weights.safetensors"}
    assert proof.change == 0.0 and proof.tasks == 3 and proof.files == 9
    assert "largest change of their logits on 200 probe texts: 0" in str(proof)


def test_an_added_task_is_learned(folder: Path, tone: Task) -> None:
    # Anew: the other tasks of this folder are untrained, so their mean is no place to start from.
    options = AddOptions(start="fresh", epochs=150, token_rate=1e-2, head_rate=1e-2, patience=0, average=0.0)
    model, _ = living.add_tasks(folder, [tone], options, progress=False)
    rows = list(csv.DictReader(Path(str(tone.train)).read_text().splitlines()))
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    found = [answer["tone"].label for answer in model.predict(texts, tasks=["tone"])]
    assert np.mean([one == other for one, other in zip(found, labels, strict=True)]) > 0.9
    loaded = load_model(folder).predict(texts, tasks=["tone"])
    assert [answer["tone"].label for answer in loaded] == found


def test_an_added_task_that_learned_nothing_is_told(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = "\n".join(f"w3,{'calm' if n % 5 else 'angry'}" for n in range(150))
    (file := tmp_path / "rows.csv").write_text(f"text,label\n{rows}\n")
    tone = Task(name="tone", text="text", label="label", train=file, validation=file)
    living.add_tasks(folder, [tone], AddOptions(epochs=1), progress=False)
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told.startswith("tone: accuracy ") and "no better than the same answer for every text (80.0)" in told
    assert "class_weights: balanced" in told


@pytest.mark.parametrize(
    "name", ["mtdnn", "frozen", "single", "adapter", "ptuning", "ptuning2", "pals", "camtl", "mttag"]
)
def test_other_methods_add_tasks_too(
    name: str, make_model: MakeModel, tmp_path: Path, tone: Task, helpers: Any
) -> None:
    options = {"pooler": "task"} if name == "mtdnn" else {}
    make_model(name, **options).save(tmp_path / "model")
    before = helpers.answers(tmp_path / "model", ["topic", "price", "spam"])
    living.add_tasks(tmp_path / "model", [tone], QUICK, progress=False)
    assert same(before, helpers.answers(tmp_path / "model", ["topic", "price", "spam"]))


def test_several_tasks_are_added_at_once_or_none(folder: Path, tone: Task, tmp_path: Path, helpers: Any) -> None:
    (tmp_path / "broken.csv").write_text("text,label\nw1,only\nw2,only\n")
    broken = tone.model_copy(update={"name": "broken", "train": tmp_path / "broken.csv"})
    before = helpers.contents(folder)
    with pytest.raises(DataError, match="at least two labels"):
        living.add_tasks(folder, [tone, broken], QUICK, progress=False)
    assert helpers.contents(folder) == before
    other = tone.model_copy(update={"name": "other"})
    living.add_tasks(folder, [tone, other], QUICK, progress=False)
    assert load_model(folder).names == ["topic", "price", "spam", "tone", "other"]


def test_an_update_raises_the_version_and_keeps_the_place(
    folder: Path, tone: Task, tmp_path: Path, helpers: Any
) -> None:
    living.add_tasks(folder, [tone], QUICK, progress=False)
    living.add_tasks(folder, [tone.model_copy(update={"name": "last"})], QUICK, progress=False)
    others = ["topic", "price", "spam", "last"]
    before, old = helpers.answers(folder, others), read_tasks(folder)[3]
    more = helpers.write_rows(tmp_path / "more.csv", labels=("calm", "furious"), seed=1)
    living.update_task(folder, "tone", {"train": more}, QUICK, progress=False)
    new = read_tasks(folder)[3]
    assert same(before, helpers.answers(folder, others))
    assert load_model(folder).names == ["topic", "price", "spam", "tone", "last"]
    assert (old["version"], new["version"], new["order"]) == (1, 2, old["order"])
    assert new["labels"] == ["angry", "calm", "furious"] and new["data"] != old["data"]


def test_an_update_trains_the_readers_of_a_task_that_is_alone_in_its_group(folder: Path, tone: Task) -> None:
    living.add_tasks(folder, [tone.model_copy(update={"group": "mood"})], QUICK, progress=False)
    before = load_file(folder / "tasks/tone/weights.safetensors")["method.tokens"]
    living.update_task(folder, "tone", {}, AddOptions(epochs=3, least_rows=10), progress=False)
    assert not torch.equal(before, load_file(folder / "tasks/tone/weights.safetensors")["method.tokens"])


def test_an_update_says_which_labels_are_new_and_which_no_row_has(
    folder: Path, tone: Task, tmp_path: Path, helpers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    living.add_tasks(folder, [tone], QUICK, progress=False)
    more = helpers.write_rows(tmp_path / "more.csv", labels=("calm", "furious"), seed=1)
    model, _ = living.update_task(folder, "tone", {"train": more}, QUICK, progress=False)
    assert model.tasks[3].labels == ("angry", "calm", "furious")
    assert "new labels, which the task now has too: furious" in caplog.text
    assert "no row has the labels angry" in caplog.text
    caplog.clear()
    model, _ = living.update_task(folder, "tone", {"labels": []}, QUICK, progress=False)
    assert model.tasks[3].labels == ("calm", "furious")
    living.update_task(folder, "tone", {}, QUICK, progress=False)
    assert "label" not in caplog.text


def test_an_update_with_another_test_file_goes_on_with_that(
    folder: Path, tone: Task, tmp_path: Path, helpers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = (helpers.write_rows(tmp_path / f"{name}.csv") for name in ("old", "new"))
    living.add_tasks(folder, [tone.model_copy(update={"test": old})], QUICK, progress=False)
    old.unlink()
    model, _ = living.update_task(folder, "tone", {"test": new}, QUICK, progress=False)
    assert model.tasks[3].test == new and "no test file" not in caplog.text


def test_labels_do_not_outlive_the_kind_of_task_that_had_them(folder: Path, tone: Task, tmp_path: Path) -> None:
    living.add_tasks(folder, [tone], QUICK, progress=False)
    rows = "\n".join(f"late goal {number},{number}" for number in range(12))
    (tmp_path / "numbers.csv").write_text(f"text,tone\n{rows}\n")
    changed = {"kind": "regression", "train": tmp_path / "numbers.csv", "text": "text", "label": "tone", "metric": None}
    model, _ = living.update_task(folder, "tone", changed, QUICK, progress=False)
    assert model.tasks[3].kind == "regression" and model.tasks[3].labels == ()


def test_rows_with_none_of_the_labels_are_taken_for_a_mistake(
    folder: Path, tone: Task, tmp_path: Path, helpers: Any
) -> None:
    living.add_tasks(folder, [tone], QUICK, progress=False)
    before = helpers.contents(folder)
    other = helpers.write_rows(tmp_path / "other.csv", labels=("0", "1"))
    with pytest.raises(DataError, match=r"It has angry, calm; the rows have 0, 1.*--replace-labels"):
        living.update_task(folder, "tone", {"train": other}, QUICK, progress=False)
    assert helpers.contents(folder) == before
    model, _ = living.update_task(folder, "tone", {"train": other, "labels": []}, QUICK, progress=False)
    assert model.tasks[3].labels == ("0", "1") and model.heads[3].out_features == 2


def test_removing_leaves_the_others_bit_equal(folder: Path, helpers: Any, tone: Task) -> None:
    files, before = helpers.contents(folder), helpers.answers(folder, ["topic", "spam"])
    living.remove_task(folder, "price")
    after = helpers.contents(folder)
    assert same(before, helpers.answers(folder, ["topic", "spam"]))
    assert files.keys() - after.keys() == {"tasks/price/task.json", "tasks/price/weights.safetensors"}
    assert all(files[f] == after[f] for f in after if f not in ("README.md", "MANIFEST.json"))
    living.add_tasks(folder, [tone.model_copy(update={"name": "a"})], QUICK, progress=False)
    assert load_model(folder).names == ["topic", "spam", "a"]  # last, though its name comes first


def test_renaming_changes_the_name_only(folder: Path, helpers: Any) -> None:
    names = ["topic", "price", "spam"]
    before = helpers.answers(folder, names)
    _, proof = living.rename_task(folder, "price", "cost")
    assert load_model(folder).names == ["topic", "cost", "spam"]
    assert same(before, helpers.answers(folder, ["topic", "cost", "spam"]))
    assert proof.tasks == 3 and proof.change == 0.0


def test_a_task_is_copied_between_models_of_one_encoder(make_model: MakeModel, tmp_path: Path, helpers: Any) -> None:
    make_model(num_tasks=3).save(tmp_path / "source")
    make_model(num_tasks=2, depth=2).save(tmp_path / "target")  # depth 2 is what the source has by default
    living.copy_task(tmp_path / "source", "spam", tmp_path / "target")
    living.copy_task(tmp_path / "source", "spam", tmp_path / "target", "junk")
    wanted = helpers.answers(tmp_path / "source", ["spam"])
    assert same(wanted, helpers.answers(tmp_path / "target", ["spam"]))
    assert same(wanted, helpers.answers(tmp_path / "target", ["junk"]))


def test_a_copy_may_take_the_place_of_a_task_of_its_name(make_model: MakeModel, tmp_path: Path, helpers: Any) -> None:
    make_model(num_tasks=3).save(tmp_path / "source")
    other = make_model(num_tasks=3)
    with torch.no_grad():
        for parameter in other.heads.parameters():
            parameter.add_(1.0)
    other.save(tmp_path / "target")
    names, price = list(load_model(tmp_path / "target").names), helpers.answers(tmp_path / "target", ["price"])
    wanted = helpers.answers(tmp_path / "source", ["spam"])
    assert not same(wanted, helpers.answers(tmp_path / "target", ["spam"]))
    living.copy_task(tmp_path / "source", "spam", tmp_path / "target", replace=True)
    assert same(wanted, helpers.answers(tmp_path / "target", ["spam"]))
    assert same(price, helpers.answers(tmp_path / "target", ["price"]))
    assert list(load_model(tmp_path / "target").names) == names
    assert load_model(tmp_path / "target").records[2]["version"] == 2  # what was answered with the other was of 1


def test_a_copy_into_another_encoder_or_method_is_refused(make_model: MakeModel, tmp_path: Path, helpers: Any) -> None:
    make_model().save(tmp_path / "source")
    make_model(num_tasks=1, encoder_seed=2).save(tmp_path / "other")
    make_model(num_tasks=1, tokens=3).save(tmp_path / "wide")
    hashes = [
        json.loads((tmp_path / name / "config.json").read_text())["encoder"]["sha256"] for name in ("source", "other")
    ]
    for target, words in (("other", [value[:16] for value in hashes]), ("wide", ["tokens=2", "tokens=3"])):
        before = helpers.contents(tmp_path / target)
        with pytest.raises(FolderError) as caught:
            living.copy_task(tmp_path / "source", "spam", tmp_path / target)
        assert all(word in str(caught.value) for word in words)
        assert helpers.contents(tmp_path / target) == before


HARMS: dict[str, dict[str, Any]] = {
    "labels": {"labels": ["no", "yes", "perhaps"]},
    "temperature": {"fitted": {"calibration": {"form": "temperature", "temperature": float("nan")}}},
    "cold": {"fitted": {"calibration": {"form": "temperatures", "temperatures": {"no": 1.0, "yes": 0.0}}}},
    "threshold": {"fitted": {"thresholds": {"yes": float("nan")}}},
    "rule": {"options": {"threshold": {"target_precision": 7}}},
}


TOLD = {"nan": "not finite", "shape": "method.tokens is", "labels": "head.weight is"}


@pytest.mark.parametrize("harm", ["nan", "shape", *HARMS])
def test_a_task_that_cannot_be_used_is_not_copied(
    harm: str, make_model: MakeModel, tmp_path: Path, helpers: Any
) -> None:
    make_model().save(tmp_path / "source")
    make_model(num_tasks=1).save(tmp_path / "target")
    task = tmp_path / "source" / "tasks" / "spam"
    weights = load_file(task / "weights.safetensors")
    if harm == "nan":
        weights["head.bias"][0] = torch.nan
    elif harm == "shape":
        weights["method.tokens"] = torch.zeros(5, 16)
    else:
        known = json.loads((task / "task.json").read_text())
        (task / "task.json").write_text(json.dumps(known | HARMS[harm]))
    save_file(weights, task / "weights.safetensors")
    write_manifest(tmp_path / "source")
    before = helpers.contents(tmp_path / "target")
    with pytest.raises(FolderError, match=TOLD.get(harm, "no task that")):
        living.copy_task(tmp_path / "source", "spam", tmp_path / "target")
    assert helpers.contents(tmp_path / "target") == before


def test_what_cannot_be_done_is_refused_and_nothing_changes(
    folder: Path, tone: Task, tmp_path: Path, helpers: Any
) -> None:
    before = helpers.contents(folder)
    missing = tone.model_copy(update={"label": "lable"})
    refused: list[tuple[Callable[[], Any], type[OnepassError], str]] = [
        (lambda: living.add_tasks(folder, [tone.model_copy(update={"name": "spam"})], QUICK), ConfigError, "already"),
        (lambda: living.add_tasks(folder, [missing], QUICK), DataError, "lable"),
        (lambda: living.update_task(folder, "tone", {}, QUICK), ConfigError, "Unknown task 'tone'"),
        (lambda: living.update_task(folder, "spam", {}, QUICK), ConfigError, "has no train"),
        (lambda: living.update_task(folder, "spam", {"train": "no.csv"}, QUICK), ConfigError, "there is no file"),
        (lambda: living.remove_task(folder, "tone"), ConfigError, "Unknown task 'tone'"),
        (lambda: living.change_thresholds(folder, ["price"], 0.5), ConfigError, "kind regression"),
        (lambda: living.change_thresholds(folder, ["spam"], {"best": "f1"}), DataError, "names no file of its rows"),
        (lambda: living.rename_task(folder, "spam", "topic"), ConfigError, "already"),
        (lambda: living.rename_task(folder, "spam", "../x"), ConfigError, "no task name"),
        (lambda: living.rename_task(folder, "tone", "x"), ConfigError, "Unknown task"),
        (lambda: living.copy_task(folder, "tone", folder), ConfigError, "Unknown task"),
        (lambda: living.copy_task(folder, "spam", folder), ConfigError, "already"),
        (lambda: living.remove_task(tmp_path / "none", "x"), FolderError, "no model folder"),
        (lambda: living.remove_task(tmp_path, "x"), FolderError, "no model folder"),
    ]
    for change, error, message in refused:
        with pytest.raises(error, match=message):
            change()
    assert helpers.contents(folder) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model", "tone.csv"]


def test_the_last_task_stays(make_model: MakeModel, tmp_path: Path) -> None:
    make_model(num_tasks=1).save(tmp_path / "model")
    with pytest.raises(ConfigError, match="last task"):
        living.remove_task(tmp_path / "model", "topic")


@pytest.mark.parametrize(("name", "options"), [("mtop", {}), ("mtdnn", {"pooler": "shared"})])
def test_methods_whose_tasks_hang_together_refuse(
    name: str, options: dict[str, Any], make_model: MakeModel, tmp_path: Path, tone: Task, helpers: Any
) -> None:
    make_model(name, **options).save(tmp_path / "model")
    before = helpers.contents(tmp_path / "model")
    with pytest.raises(ConfigError, match=f"method '{name}'.*'readers', which can"):
        living.add_tasks(tmp_path / "model", [tone], QUICK)
    if name == "mtop":
        with pytest.raises(ConfigError, match="depend on which tasks there are"):
            living.remove_task(tmp_path / "model", "spam")
    assert helpers.contents(tmp_path / "model") == before


def test_a_damaged_model_is_not_changed(folder: Path) -> None:
    with (folder / "tasks" / "spam" / "weights.safetensors").open("ab") as file:
        file.write(b"x")
    with pytest.raises(FolderError, match="damaged"):
        living.remove_task(folder, "topic")


def test_a_change_that_moves_another_task_is_not_made(
    folder: Path, tone: Task, helpers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = helpers.contents(folder)
    monkeypatch.setattr("onepass.living.change.largest_change", lambda *_: 2e-6)
    with pytest.raises(living.Unproven, match="Nothing was changed"):
        living.add_tasks(folder, [tone], QUICK, progress=False)
    assert helpers.contents(folder) == before


def test_the_proof_sees_a_weight_that_moved(make_model: MakeModel) -> None:
    one, other = make_model(), make_model()
    assert largest_change(one, other, ["topic", "spam"]) == 0.0
    with torch.no_grad():
        other.heads[2].bias[0] += 1e-3
    assert largest_change(one, other, ["topic", "price"]) == 0.0
    assert largest_change(one, other, ["topic", "spam"]) == pytest.approx(1e-3, rel=1e-2)
    with torch.no_grad():
        other.heads[2].bias[0] = torch.nan
    assert not largest_change(one, other, ["spam"]) <= TOLERANCE


def test_what_was_made_from_the_old_model_is_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "report.html").write_text("old")
    (folder / "notes.txt").write_text("mine")
    write_manifest(folder)
    (folder / "unlisted.txt").write_text("also mine")
    with pytest.raises(ConfigError, match="Unknown task"):
        living.remove_task(folder, "tone")
    assert not caplog.text
    living.remove_task(folder, "spam")
    assert not (folder / "report.html").exists()
    assert (folder / "notes.txt").read_text() == "mine" and (folder / "unlisted.txt").read_text() == "also mine"
    assert "report.html was made from the model as it was" in caplog.text


def test_a_model_in_memory_changes_without_its_folder(folder: Path, tone: Task, helpers: Any) -> None:
    model, before = load_model(folder), helpers.contents(folder)
    batch = probe_batches(model.tokenizer)[0]
    old, kept = model.logits(batch, [0, 1, 2]), model.logits(batch, [0, 2])
    model.add_task("tone", train=str(tone.train), text="text", label="label", options={"epochs": 1})
    assert same(old, model.logits(batch, [0, 1, 2]))
    model.remove_task("price")
    assert model.names == ["topic", "spam", "tone"]
    assert same(kept, model.logits(batch, [0, 1]))
    with pytest.raises(ConfigError, match="already"):
        model.add_task("tone", train=str(tone.train), text="text", label="label")
    assert helpers.contents(folder) == before
    model.save(folder.parent / "new")
    assert load_model(folder.parent / "new").names == model.names


def test_a_task_that_learned_from_all_its_rows_is_not_scored_on_them(
    folder: Path, tone: Task, caplog: pytest.LogCaptureFixture
) -> None:
    few = tone.model_copy(update={"name": "few"})
    living.add_tasks(folder, [tone], QUICK, progress=False)
    living.add_tasks(folder, [few], AddOptions(epochs=1), progress=False)
    for name in ("topic", "price", "spam"):
        living.remove_task(folder, name)
    assert list(evaluate(load_model(folder))["tasks"]) == ["tone"]
    assert "few is not scored" in caplog.text
    living.remove_task(folder, "tone")
    with pytest.raises(DataError, match="nothing to score"):
        evaluate(load_model(folder))
