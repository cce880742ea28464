"""Model folders: what is saved is loaded, damage is found, and a save that fails leaves no trace."""

import errno
import os
import re
import resource
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onepass
from onepass import atomic, folder
from onepass.atomic import CARD, MANIFEST, locked, read_json, verify, write_json, write_manifest
from onepass.contents import read_config, read_tasks
from onepass.encoder.batch import Batch
from onepass.encoder.loading import fingerprint, load_encoder
from onepass.errors import ConfigError, FolderError
from onepass.folder import check_output, load_model, size_of
from onepass.methods import METHODS, make_method
from onepass.model import Model
from onepass.tasks import MethodChoice, Task

TEXTS = ["the late goal wins", "vote", "why is it bad ?", ""]
TASKS = [
    Task(name="topic", text="text", label="topic", labels=["a", "b|c", "größe"], train="data/topic.csv", test="t.csv"),
    Task(name="price", kind="regression", text="text", label="price", fitted={"mean": 5.0, "spread": 2.0}),
    Task(name="first", text="text", label="first", labels=["no", "yes"], weight=2.0, metric="f1", validation=0.2),
]


def build(encoder: Path, method: str = "readers", seed: int = 0, tasks: int = 3, **options: Any) -> Model:
    """A model whose weights are all far from their start values."""
    torch.manual_seed(seed)
    made, tokenizer = load_encoder(encoder, max_length=16)
    model = Model(make_method(method, made, options), tokenizer, MethodChoice(name=method, options=options), "test")
    for task in TASKS[:tasks]:
        model.add(task)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    scores = {"validation": {"metric": "accuracy", "score": 87.5, "rows": 8}}
    model.records[0] = {"rows": {"train": 5}, "data": "abc", "scores": scores, "version": 3}
    model.training_record = {"seconds": 1.5}
    return model.eval()


def logits(model: Model) -> list[np.ndarray]:
    encoded = model.tokenizer.encode([(text,) for text in TEXTS])
    batch = Batch.of([(e.ids, e.types) for e in encoded])
    return model.logits(batch, range(len(model.tasks)))


def same(one: Model, other: Model) -> bool:
    """Whether two models answer the same, to the last bit."""
    return all(np.array_equal(a, b) for a, b in zip(logits(one), logits(other), strict=True))


def names(place: Path) -> list[str]:
    return sorted(entry.name for entry in place.iterdir())


@pytest.fixture(scope="module")
def built(encoder: Path) -> Model:
    return build(encoder, "mtdnn")


@pytest.fixture(scope="module")
def other(encoder: Path) -> Model:
    return build(encoder, "mtdnn", seed=1)


@pytest.fixture
def saved(built: Model, tmp_path: Path) -> Path:
    built.save(tmp_path / "model")
    return tmp_path / "model"


# --- round trips ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_loaded_a_model_answers_as_before_to_the_last_bit(encoder: Path, tmp_path: Path, method: str):
    model = build(encoder, method)
    model.save(tmp_path / "model")
    loaded = onepass.load(tmp_path / "model")
    assert same(model, loaded)
    assert loaded.predict(TEXTS) == model.predict(TEXTS)
    loaded.save(tmp_path / "again")
    assert verify(tmp_path / "again") == verify(tmp_path / "model")


@pytest.mark.parametrize("method", METHODS)
def test_files_that_are_overwritten_change_nothing_in_a_loaded_model(encoder: Path, tmp_path: Path, method: str):
    build(encoder, method).save(tmp_path / "model")
    loaded = onepass.load(tmp_path / "model")
    before = logits(loaded)
    for weights in (tmp_path / "model").rglob("*.safetensors"):
        data = weights.read_bytes()
        weights.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))  # the same file, as cp does
    assert all(np.array_equal(a, b) for a, b in zip(logits(loaded), before, strict=True))


def test_a_folder_that_is_changed_while_it_is_loaded_is_read_as_it_is_then(
    encoder: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    build(encoder, "mtdnn", seed=1, tasks=2).save(tmp_path / "new")
    right, real = logits(onepass.load(tmp_path / "new")), folder.task_order

    def change(*given: Any) -> Any:
        if (tmp_path / "new").exists():
            shutil.move(saved, tmp_path / "old")
            shutil.move(tmp_path / "new", saved)
        return real(*given)

    monkeypatch.setattr(folder, "task_order", change)
    assert all(np.array_equal(a, b) for a, b in zip(logits(onepass.load(saved)), right, strict=True))


def test_options_of_the_method_come_back(encoder: Path, tmp_path: Path):
    model = build(encoder, "readers", depth=1, tokens=3)
    model.save(tmp_path / "model")
    loaded = onepass.load(tmp_path / "model")
    assert loaded.choice == MethodChoice(name="readers", options={"depth": 1, "tokens": 3})
    assert same(model, loaded)


def test_tasks_records_and_their_order_come_back(built: Model, saved: Path):
    loaded = onepass.load(saved)
    assert loaded.tasks == built.tasks  # topic, price, first: not in the order of the alphabet
    assert loaded.records[0] == built.records[0]
    assert loaded.training_record == {"seconds": 1.5}
    assert loaded.source == "test"
    assert loaded.tokenizer.max_length == 16
    assert not loaded.training


def test_the_folder_holds_what_the_contract_says(saved: Path):
    assert names(saved) == [
        MANIFEST,
        "README.md",
        "config.json",
        "encoder.safetensors",
        "method.safetensors",
        "tasks",
        "tokenizer.json",
    ]
    assert names(saved / "tasks") == ["first", "price", "topic"]
    assert names(saved / "tasks" / "topic") == ["task.json", "weights.safetensors"]
    config = read_config(saved)
    assert config["format"] == 1
    assert config["method"] == {"name": "mtdnn", "options": {}}
    assert set(config["versions"]) == {"python", "torch", "tokenizers", "safetensors"}
    task = read_json(saved / "tasks" / "topic" / "task.json")
    assert (task["order"], task["version"], task["parameters"]) == (0, 3, 3 * 16 + 3)
    assert [known["name"] for known in read_tasks(saved)] == ["topic", "price", "first"]


def test_the_encoders_fingerprint_is_that_of_its_weights(built: Model, other: Model, saved: Path, tmp_path: Path):
    other.save(tmp_path / "other")
    assert read_config(saved)["encoder"]["sha256"] == fingerprint(built.method.encoder)
    assert read_config(saved)["encoder"]["sha256"] != read_config(tmp_path / "other")["encoder"]["sha256"]


def test_every_file_may_be_read_by_those_who_may_read_the_folder(saved: Path):
    modes = {stat.S_IMODE(path.stat().st_mode) for path in saved.rglob("*") if path.is_file()}
    assert modes == {stat.S_IMODE((saved / "config.json").stat().st_mode)}


def test_the_card_is_a_table_with_a_row_for_each_task(saved: Path):
    card = (saved / "README.md").read_text(encoding="utf-8")
    assert "| topic | classification | a, b\\|c, größe | 5 | 87.5 (accuracy, 8 rows) |" in card
    assert "| price | regression |  |  |  |" in card
    assert "Method: mtdnn." in card


def test_the_names_of_transformers_work_too(built: Model, tmp_path: Path):
    built.save_pretrained(tmp_path / "model")
    assert same(built, Model.from_pretrained(str(tmp_path / "model")))


# --- damage ---------------------------------------------------------------------------------------------------------


def test_one_flipped_bit_in_any_file_is_found(saved: Path):
    generator = np.random.default_rng(0)
    for path in sorted(path for path in saved.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        for _ in range(8):
            place, bit = int(generator.integers(len(whole))), int(generator.integers(8))
            path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
            with pytest.raises(FolderError):
                onepass.load(saved)
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FolderError):
            onepass.load(saved)
        if path.name != CARD:
            path.unlink()
            with pytest.raises(FolderError):
                onepass.load(saved)
        path.write_bytes(whole)
    onepass.load(saved)


def test_what_is_changed_and_what_is_missing_is_named(saved: Path):
    with (saved / "encoder.safetensors").open("ab") as file:
        file.write(b"x")
    (saved / "tasks" / "topic" / "weights.safetensors").unlink()
    with pytest.raises(FolderError) as error:
        onepass.load(saved)
    assert "encoder.safetensors was changed" in str(error.value)
    assert "tasks/topic/weights.safetensors is missing" in str(error.value)
    assert str(error.value).endswith("Restore it from a copy, or train again.")


@pytest.mark.parametrize("name", ["config.json", "encoder.safetensors", "method.safetensors", "tokenizer.json"])
def test_a_file_that_the_manifest_does_not_list_is_not_trusted(saved: Path, name: str):
    manifest = read_json(saved / MANIFEST)
    del manifest["files"][name]
    write_json(saved / MANIFEST, manifest)
    with pytest.raises(FolderError, match=name.replace(".", r"\.")):
        onepass.load(saved)


def test_a_task_whose_weights_are_not_listed_is_not_trusted(saved: Path):
    manifest = read_json(saved / MANIFEST)
    del manifest["files"]["tasks/topic/weights.safetensors"]
    write_json(saved / MANIFEST, manifest)
    with pytest.raises(FolderError, match=r"does not list tasks/topic/weights\.safetensors"):
        onepass.load(saved)


def change(path: Path, edit: Callable[[Any], None]) -> None:
    """Edit a JSON file of a model as somebody would who also mends the manifest."""
    value = read_json(path)
    edit(value)
    write_json(path, value)
    root = next(place for place in path.parents if (place / MANIFEST).is_file())
    write_manifest(root)


def test_a_newer_format_asks_for_an_upgrade(saved: Path):
    change(saved / "config.json", lambda config: config.update(format=2))
    with pytest.raises(FolderError, match=r"written by format 2; this version reads up to 1\. Upgrade with: pip"):
        onepass.load(saved)


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda config: config.pop("format"), "does not name a format"),
        (lambda config: config.pop("method"), "does not say 'method'"),
        (lambda config: config.pop("encoder"), "does not say 'encoder'"),
        (lambda config: config["encoder"].pop("max_length"), "does not say 'max_length'"),
        (lambda config: config.update(encoder=[]), "is no model this version can read"),
        (lambda config: config["encoder"].update(max_length="long"), "is no model this version can read"),
        (lambda config: config["encoder"]["config"].update(width=24), "is no model this version can read"),
        (lambda config: config["encoder"]["config"].update(depth=3), "is no model this version can read"),
        (lambda config: config["method"].update(name="mtdn"), "Did you mean 'mtdnn'"),
        (lambda config: config["method"].update(name="single"), "is no model|does not hold"),
        (lambda config: config["method"].update(options={"pooler": "none"}), "does not hold the weights"),
        (lambda config: config["method"].update(options={"poler": "none"}), "poler"),
        (lambda config: config["method"].update(options=3), "is no model this version can read"),
    ],
)
def test_a_broken_config_is_refused_in_words(saved: Path, edit: Any, found: str):
    change(saved / "config.json", edit)
    with pytest.raises(FolderError, match=found):
        onepass.load(saved)


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda task: task.update(kind="regresion"), "Did you mean 'regression'"),
        (
            lambda task: task.update(labels=["a", "b"]),
            r"topic/weights.safetensors .*head.weight is \(3, 16\), expected \(2, 16\)",
        ),
        (lambda task: task.update(name="else"), "holds a task of another name, 'else'"),
        (lambda task: task.pop("order"), "does not say 'order'"),
        (lambda task: task.pop("text"), "text"),
        (lambda task: task.update(options={"depth": 1}), "depth"),
    ],
)
def test_a_broken_task_is_refused_in_words(saved: Path, edit: Any, found: str):
    change(saved / "tasks" / "topic" / "task.json", edit)
    with pytest.raises(FolderError, match=found):
        onepass.load(saved)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["encoder.safetensors", "method.safetensors", "tasks/price/weights.safetensors"])
def test_weights_that_are_not_finite_are_not_loaded(saved: Path, name: str, value: float):
    weights = folder._load(saved / name)
    next(iter(weights.values())).view(-1)[0] = value
    folder.save_tensors(weights, saved / name)
    write_manifest(saved)
    with pytest.raises(FolderError, match="holds numbers that are not finite"):
        onepass.load(saved)


def test_weights_that_are_not_finite_are_not_saved(encoder: Path, tmp_path: Path):
    model = build(encoder, "mtdnn")
    model.heads[1].bias.data.fill_(float("nan"))
    with pytest.raises(FolderError, match=r"heads\.1\.bias holds numbers that are not finite"):
        model.save(tmp_path / "model")
    assert names(tmp_path) == []


def test_a_file_that_is_no_safetensors_is_said(saved: Path):
    (saved / "encoder.safetensors").write_bytes(b"\x80\x04pickle")
    write_manifest(saved)
    with pytest.raises(FolderError, match=r"encoder\.safetensors is damaged"):
        onepass.load(saved)


def test_what_is_no_model_folder_is_said(tmp_path: Path):
    with pytest.raises(FolderError, match="There is no model folder"):
        onepass.load(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderError, match="is a file"):
        onepass.load(tmp_path / "file")
    with pytest.raises(FolderError, match=r"is no model folder: it has no config\.json"):
        onepass.load(tmp_path)


def test_a_folder_without_its_manifest_is_refused(saved: Path):
    (saved / MANIFEST).unlink()
    with pytest.raises(FolderError, match=r"MANIFEST\.json is missing"):
        onepass.load(saved)


def test_a_card_that_was_written_into_is_told_and_one_that_was_deleted_is_not_missed(built: Model, saved: Path):
    card = saved / "README.md"
    card.write_text(card.read_text(encoding="utf-8") + "Ours.", encoding="utf-8")
    with pytest.raises(FolderError, match=r"README\.md was changed\. No answer depends on it: restore it or delete it"):
        onepass.load(saved)
    card.unlink()
    assert same(built, onepass.load(saved))


def test_a_model_that_lies_in_the_hubs_cache_as_links_is_loaded(built: Model, saved: Path, tmp_path: Path):
    (tmp_path / "blobs").mkdir()
    for number, path in enumerate(sorted(path for path in saved.rglob("*") if path.is_file())):
        link = tmp_path / "snapshot" / path.relative_to(saved)
        link.parent.mkdir(parents=True, exist_ok=True)
        path.rename(tmp_path / "blobs" / str(number))
        link.symlink_to(tmp_path / "blobs" / str(number))
    assert same(built, onepass.load(tmp_path / "snapshot"))


# --- where to write -------------------------------------------------------------------------------------------------


def test_an_output_that_exists_is_not_touched(other: Model, built: Model, saved: Path):
    with pytest.raises(FolderError, match="exists already"):
        other.save(saved)
    assert same(built, onepass.load(saved))


def test_an_output_that_exists_is_replaced_when_told_to(other: Model, saved: Path):
    other.save(saved, overwrite=True)
    assert same(other, onepass.load(saved))
    assert names(saved.parent) == ["model"]


def test_a_folder_that_is_no_model_is_never_replaced(built: Model, tmp_path: Path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "thesis" / "config.json").write_text("{}")  # many programs have one
    for overwrite in (True, False):  # nobody is told to force what is refused then
        with pytest.raises(FolderError, match="exists already and is no model folder: it is never replaced"):
            built.save(tmp_path / "thesis", overwrite=overwrite)
    (tmp_path / "notes").write_text("x")
    with pytest.raises(FolderError, match="is never replaced"):
        built.save(tmp_path / "notes", overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


def test_a_place_inside_a_file_or_with_too_long_a_name_is_refused_beforehand(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderError):
        check_output(tmp_path / "file" / "model")
    with pytest.raises(FolderError, match="File name too long"):
        check_output(tmp_path / ("m" * 250))
    with pytest.raises(FolderError, match="File name too long"):
        check_output(tmp_path / ("m" * 300))


def test_where_no_folder_can_be_written_it_is_said_before_a_training_and_models_still_load(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with pytest.raises(FolderError, match="use one of these, or WSL on Windows"):
        check_output(tmp_path / "new")
    with pytest.raises(FolderError, match="can be loaded and asked, but not written"), locked(saved):
        pass
    assert load_model(saved).names


def test_checking_leaves_nothing_behind(tmp_path: Path):
    check_output(tmp_path / "runs" / "deep" / "model")
    assert names(tmp_path) == []


def test_the_model_has_to_fit_twice(built: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    size, used = size_of(built), shutil.disk_usage(tmp_path)
    assert size == sum(p.numel() for p in built.parameters()) * 4
    monkeypatch.setattr(shutil, "disk_usage", lambda path: used._replace(free=2 * size - 1))
    with pytest.raises(FolderError, match=r"There is no space for the model: .* has 0 MB free"):
        built.save(tmp_path / "model")
    assert names(tmp_path) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: used._replace(free=2 * size))
    built.save(tmp_path / "model")


# --- a save that is stopped -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(encoder: Path) -> Model:
    return build(encoder, "frozen", tasks=1)


@pytest.fixture(scope="module")
def small_too(encoder: Path) -> Model:
    return build(encoder, "frozen", seed=1, tasks=1)


class Shim:
    """Counts the calls of a save that change the disk, and stops at the k-th: before it, or halfway through a write."""

    def __init__(self, patches: pytest.MonkeyPatch, stop: Callable[[], None]):
        self.calls: list[str] = []
        self.at = 0
        self.stop = stop
        real_write, real_save = Path.write_text, folder.save_file

        def write_text(path: Path, text: str, **options: Any) -> int:
            if self.hit(f"write {path.name}"):
                real_write(path, text[: len(text) // 2], **options)
                self.stop()
            return real_write(path, text, **options)

        def save_file(tensors: Any, path: Path) -> None:
            if self.hit(f"write {path.name}"):
                path.write_bytes(b"half of the weights")
                self.stop()
            real_save(tensors, path)

        patches.setattr(Path, "write_text", write_text)
        patches.setattr(folder, "save_file", save_file)
        patches.setattr(atomic, "exchange", self.before("exchange", atomic.exchange))
        for name in ("chmod", "mkdir", "rename", "rmdir", "unlink"):
            patches.setattr(os, name, self.before(name, getattr(os, name)))
        # Counted, but nobody waits for the disk: what a killed process wrote is not lost with it.
        patches.setattr(os, "fsync", self.before("fsync", lambda descriptor: None))

    def arm(self, at: int) -> None:
        self.calls.clear()
        self.at = at

    def hit(self, name: str) -> bool:
        self.calls.append(name)
        return len(self.calls) == self.at

    def before(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if self.hit(name):
                self.stop()
            return real(*arguments, **options)

        return call


def in_a_process(save: Callable[[], None]) -> int:
    """The exit code of a process of its own that saves: 0, 2 after a FolderError, or what ended it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        save()
        os._exit(0)
    except FolderError:
        os._exit(2)
    finally:
        os._exit(1)


def files_of(place: Path) -> dict[str, bytes]:
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def test_killed_at_any_call_of_a_first_save_there_is_a_whole_model_or_none(
    small: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shim = Shim(monkeypatch, lambda: os._exit(9))
    small.save(tmp_path / "counted")
    assert {name.split()[0] for name in shim.calls} == {"write", "chmod", "fsync", "mkdir", "rmdir", "rename"}
    whole, outcomes = files_of(tmp_path / "counted"), []
    for at in range(1, len(shim.calls) + 1):
        place = tmp_path / str(at)
        place.mkdir()
        shim.arm(at)
        assert in_a_process(lambda place=place: small.save(place / "model")) == 9
        shim.arm(0)
        outcomes.append((place / "model").exists())
        if outcomes[-1]:
            assert files_of(place / "model") == whole
        shutil.rmtree(place)
    assert outcomes == sorted(outcomes)  # first never, and from the rename on always
    assert outcomes[0] is False and outcomes[-1] is True


def test_killed_at_any_call_of_a_second_save_there_is_the_old_model_or_the_new(
    small: Model, small_too: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    small.save(tmp_path / "old")
    small_too.save(tmp_path / "new")
    old, new = files_of(tmp_path / "old"), files_of(tmp_path / "new")
    shim = Shim(monkeypatch, lambda: os._exit(9))
    shutil.copytree(tmp_path / "old", tmp_path / "counted")
    shim.arm(0)
    small_too.save(tmp_path / "counted", overwrite=True)
    assert "exchange" in shim.calls and "unlink" in shim.calls
    outcomes = []
    for at in range(1, len(shim.calls) + 1):
        place = tmp_path / str(at)
        shutil.copytree(tmp_path / "old", place / "model")
        shim.arm(at)
        assert in_a_process(lambda place=place: small_too.save(place / "model", overwrite=True)) == 9
        shim.arm(0)
        found = files_of(place / "model")
        assert found in (old, new)
        outcomes.append(found == new)
        shutil.rmtree(place)
    assert outcomes == sorted(outcomes)
    assert outcomes[0] is False and outcomes[-1] is True


def test_a_disk_that_is_full_at_any_call_leaves_the_old_model_and_nothing_else(
    small: Model, small_too: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    small.save(tmp_path / "old")
    shim = Shim(monkeypatch, full)
    shutil.copytree(tmp_path / "old", tmp_path / "counted")
    shim.arm(0)
    small_too.save(tmp_path / "counted", overwrite=True)
    old = files_of(tmp_path / "old")
    calls = list(shim.calls)
    assert len(calls) > 25
    for at, name in enumerate(calls, start=1):
        if at > calls.index("exchange") + 1:
            break  # from here on it is done: the old model is being deleted
        if name == "rmdir":
            continue  # needs no space
        place = tmp_path / "place"
        shutil.copytree(tmp_path / "old", place / "model")
        shim.arm(at)
        with pytest.raises(FolderError, match="there is no space left on the disk"):
            small_too.save(place / "model", overwrite=True)
        shim.arm(0)
        assert files_of(place / "model") == old
        assert names(place) == ["model"]
        shutil.rmtree(place)


def test_a_file_that_the_system_cuts_short_leaves_the_old_model_and_nothing_else(
    small: Model, small_too: Model, tmp_path: Path
):
    small.save(tmp_path / "model")
    old = files_of(tmp_path / "model")
    sizes = sorted({len(data) for data in old.values()})

    def limited(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        small_too.save(tmp_path / "model", overwrite=True)

    for size in sizes:  # the files are about as large in the new model: at every limit another one is cut
        assert in_a_process(lambda size=size: limited(size - 64)) == 2
        assert files_of(tmp_path / "model") == old
        assert names(tmp_path) == ["model"]
    assert same(small, onepass.load(tmp_path / "model"))


def test_what_the_system_says_about_weights_is_said_in_words(
    small: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def save_file(tensors: Any, path: Path) -> None:
        raise folder.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(folder, "save_file", save_file)
    with pytest.raises(FolderError, match="there is no space left on the disk"):
        small.save(tmp_path / "model")
    assert names(tmp_path) == []


def test_after_a_failed_save_the_next_one_works(small: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patches:
        shim = Shim(patches, lambda: os._exit(9))
        shim.arm(12)
        assert in_a_process(lambda: small.save(tmp_path / "model")) == 9
    small.save(tmp_path / "model")
    assert same(small, onepass.load(tmp_path / "model"))


def test_what_somebody_laid_into_a_folder_outlives_the_model_that_is_replaced(saved: Path, other: Model):
    (saved / "notes").mkdir()
    (saved / "notes" / "mine.txt").write_text("mine")
    other.save(saved, overwrite=True)
    assert (saved / "notes" / "mine.txt").read_text() == "mine"
    assert "notes/mine.txt" not in read_json(saved / MANIFEST)["files"] and same(onepass.load(saved), other)


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x", "x" * 5000])
def test_a_name_that_no_folder_can_have_is_refused_in_words(name: str):
    with pytest.raises(FolderError, match="There can be no model folder"):
        onepass.load(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": True, "threads": -1}, "threads is -1. Possible: a whole number from 1"),
        ({"engine": True, "threads": "2"}, "threads is '2'. Possible: a whole number from 1"),
        ({"engine": True, "device": "cuda"}, "device 'cuda' and precision 'fp32' are for a model"),
        ({"engine": True, "precision": "bf16"}, "device 'cpu' and precision 'bf16' are for a model"),
        ({"threads": 2}, "it needs engine=True"),
    ],
)
def test_options_that_would_change_nothing_are_refused(model: Path, options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=re.escape(message)):
        onepass.load(model, **options)
